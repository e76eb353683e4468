//! What the SDKs make of credentials that have expired, through a proxy.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the report"
)]

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::Credentials;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use emulators::Percent;
use emulators::proxy::{Credentials as Expiring, Proxy, Service, Strikes};

/// Nothing listens there: until the credentials expire, connections are closed.
const NOWHERE: &str = "http://127.0.0.1:9";
/// Cap of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A proxy in front of a service that is not there, and how to reach it.
async fn proxied(service: Service) -> (Proxy, SdkConfig) {
    let strikes = Strikes {
        credentials: Some(Arc::new(Expiring::new(0, Percent::ALL))),
        ..Strikes::default()
    };
    let proxy = Proxy::start(service, NOWHERE, Arc::new(()), strikes);
    let proxy = proxy.await.unwrap();
    let config = aws_config::defaults(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("local.f.1", "local", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
        .endpoint_url(proxy.endpoint())
        .load()
        .await;
    (proxy, config)
}

/// The code of the first error that a service has an answer for.
async fn code<T: Debug, E: ProvideErrorMetadata + Debug, R: Debug>(
    call: impl AsyncFn() -> Result<T, SdkError<E, R>>,
) -> String {
    let started = Instant::now();
    loop {
        if let SdkError::ServiceError(error) = call().await.unwrap_err() {
            return error.err().code().unwrap_or("no code").to_owned();
        }
        assert!(started.elapsed() < PATIENCE, "they do not expire");
    }
}

#[tokio::test]
async fn each_service_refuses_expired_credentials_in_its_own_words() {
    let (_proxy, config) = proxied(Service::DynamoDb).await;
    let dynamodb = aws_sdk_dynamodb::Client::new(&config);
    let of_dynamodb = code(async || dynamodb.list_tables().send().await).await;
    assert_eq!(of_dynamodb, "ExpiredTokenException");

    let (_proxy, config) = proxied(Service::Sqs).await;
    let sqs = aws_sdk_sqs::Client::new(&config);
    let of_sqs = code(async || sqs.list_queues().send().await).await;
    assert_eq!(of_sqs, "ExpiredToken");

    let (_proxy, config) = proxied(Service::S3).await;
    let config = aws_sdk_s3::config::Builder::from(&config).force_path_style(true);
    let s3 = aws_sdk_s3::Client::from_conf(config.build());
    let of_s3 = code(async || s3.get_object().bucket("b").key("k").send().await).await;
    assert_eq!(of_s3, "ExpiredToken");
}
