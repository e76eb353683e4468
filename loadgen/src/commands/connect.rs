//! Makes the client of the queue.

use anyhow::Context;
use aws_config::Region;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_sdk_sqs::config::ProvideCredentials;
use loadgen::QueueAddress;

/// Makes a client. The endpoint is from the flag, else from the environment, else from the queue URL.
pub async fn connect(
    queue_url: &str,
    endpoint_url: Option<&str>,
) -> anyhow::Result<aws_sdk_sqs::Client> {
    let address = QueueAddress::from_url(queue_url);
    let from_environment = ["AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()));
    let endpoint = endpoint_url
        .map(str::to_owned)
        .or(from_environment)
        .or(address.endpoint_url);

    let url = endpoint.as_deref().unwrap_or_default();
    let http = stack::http_client(!url.starts_with("http://"));
    let mut loader = aws_config::from_env().http_client(http);
    // A queue in AWS is reachable only in its own region. For other queues the signature needs the
    // name of a region, but any name will do.
    if let Some(region) = address.region {
        loader = loader.region(Region::new(region));
    } else if endpoint.is_some() {
        let named = EnvironmentVariableRegionProvider::new();
        loader = loader.region(RegionProviderChain::first_try(named).or_else("us-east-1"));
    }
    if let Some(url) = endpoint {
        loader = loader.endpoint_url(url);
    }
    let config = loader.load().await;

    // Checked before sending, so that missing credentials give one clear error instead of many failed requests.
    let credentials = config
        .credentials_provider()
        .context("send the burst: no source of credentials")?;
    credentials
        .provide_credentials()
        .await
        .context("send the burst: find credentials in the environment")?;
    Ok(aws_sdk_sqs::Client::new(&config))
}
