//! The command `loadgen`: see `loadgen --help`.
//!
//! Writes one JSON object to standard output, and everything else to standard error.

mod args;

use std::process::ExitCode;

use anyhow::Context;
use aws_config::Region;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_sdk_sqs::config::ProvideCredentials;
use aws_smithy_http_client::tls;
use clap::Parser;
use loadgen::{Manifests, Plan, PlanError, Progress, QueueAddress, SendOptions};

use args::{AuditArgs, Cli, Command, SendArgs};

/// The exit code of a burst that was not sent, and of an audit that found problems.
const FAILED: u8 = 1;
/// The exit code of wrong options, and of an audit that could not read its files.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let (outcome, code_of_errors) = match Cli::parse().command {
        Command::Send(args) => (send(&args), FAILED),
        Command::Audit(args) => (audit(&args), USAGE),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("loadgen failed to {error:#}");
        ExitCode::from(if error.is::<PlanError>() {
            USAGE
        } else {
            code_of_errors
        })
    })
}

fn audit(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(args.plan.config())?;
    let manifests = match args.manifests {
        true => Manifests::Required,
        false => Manifests::Optional,
    };
    let report = loadgen::audit(&args.dir, &plan, args.on_duplicate.into(), manifests)?
        .allow_missing(args.allow_missing);
    print(&report)?;
    Ok(ExitCode::from(if report.ok() { 0 } else { FAILED }))
}

#[tokio::main]
async fn send(args: &SendArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(args.plan.config())?;
    let client = connect(args).await?;
    let options = SendOptions {
        queue_url: args.queue_url.clone(),
        rate_per_second: args.rate,
        concurrency: args.concurrency,
    };
    let progress = Progress::new("send", plan.len());
    let sent = loadgen::send(&client, &plan, &options, &|done| progress.set(done)).await;
    progress.finish();
    print(&sent?)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a client. The endpoint is from the flag, else from the environment, else from the queue URL.
async fn connect(args: &SendArgs) -> anyhow::Result<aws_sdk_sqs::Client> {
    let address = QueueAddress::from_url(&args.queue_url);
    let from_environment = ["AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()));
    let endpoint = args
        .endpoint_url
        .clone()
        .or(from_environment)
        .or(address.endpoint_url);

    // A client with TLS loads certificates, which a minimal machine may not have.
    let http = aws_smithy_http_client::Builder::new();
    let http = match endpoint
        .as_deref()
        .is_some_and(|url| url.starts_with("http://"))
    {
        true => http.build_http(),
        false => http
            .tls_provider(tls::Provider::Rustls(
                tls::rustls_provider::CryptoMode::Ring,
            ))
            .build_https(),
    };
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

fn print(report: &impl serde::Serialize) -> anyhow::Result<()> {
    use std::io::Write;
    let json = serde_json::to_string(report).context("write the report")?;
    writeln!(std::io::stdout(), "{json}").context("write the report")
}
