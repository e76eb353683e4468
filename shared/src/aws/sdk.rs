use std::time::Duration;

use aws_config::environment::{
    EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider,
};
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

/// How long an idle connection is kept. An execution environment is frozen between invocations while the other side
/// goes on; a connection that is older than this is probably gone, and using it would cost a whole attempt.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// To connect to S3, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle connections to S3 that are kept: a part's objects are written one after another.
const CONNECTIONS_S3: usize = 4;

/// The SDK clients of one Lambda process. They share one connection pool.
#[derive(Clone, Debug)]
pub struct Clients {
    /// DynamoDB.
    pub dynamodb: aws_sdk_dynamodb::Client,
    /// SQS.
    pub sqs: aws_sdk_sqs::Client,
    /// S3.
    pub s3: aws_sdk_s3::Client,
}

impl Clients {
    /// Clients as the environment describes them: `AWS_REGION`, `AWS_ACCESS_KEY_ID` and the like, and
    /// `AWS_ENDPOINT_URL` or `AWS_ENDPOINT_URL_DYNAMODB`, `AWS_ENDPOINT_URL_SQS`, `AWS_ENDPOINT_URL_S3` (`http://` or `https://`).
    ///
    /// `attempt_timeout` bounds every call from its first byte to its last, connecting included; there are no
    /// retries. `write_concurrency` is how many idle connections are kept per host.
    ///
    /// Nothing is called here, so nothing can fail: a missing region or credential shows in the first call.
    pub async fn from_env(attempt_timeout: Duration, write_concurrency: usize) -> Clients {
        let config = sdk_config(attempt_timeout, attempt_timeout, write_concurrency).await;
        Clients {
            dynamodb: aws_sdk_dynamodb::Client::new(&config),
            sqs: aws_sdk_sqs::Client::new(&config),
            s3: s3_client_of(&config),
        }
    }
}

/// A client of S3 for objects that take longer than items, as [`Clients::from_env`] describes it.
///
/// `attempt_timeout` bounds every call from its first byte to its last; there are no retries.
pub async fn s3_client(attempt_timeout: Duration) -> aws_sdk_s3::Client {
    let config = sdk_config(CONNECT_TIMEOUT, attempt_timeout, CONNECTIONS_S3).await;
    s3_client_of(&config)
}

/// An endpoint that is named gets the bucket in the path: what stands in for S3 seldom has a host name for every bucket.
fn s3_client_of(config: &SdkConfig) -> aws_sdk_s3::Client {
    let named = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|url| !url.is_empty()));
    let config = aws_sdk_s3::config::Builder::from(config)
        .force_path_style(named)
        .build();
    aws_sdk_s3::Client::from_conf(config)
}

async fn sdk_config(
    connect_timeout: Duration,
    attempt_timeout: Duration,
    connections: usize,
) -> SdkConfig {
    // Lambda hands out credentials and region as variables. The default chain would in their absence ask files
    // and instance metadata, which here can only cost time.
    aws_config::defaults(BehaviorVersion::latest())
        .region(EnvironmentVariableRegionProvider::new())
        .credentials_provider(EnvironmentVariableCredentialsProvider::new())
        .http_client(http_client(connections))
        .retry_config(RetryConfig::disabled())
        .timeout_config(
            TimeoutConfig::builder()
                .connect_timeout(connect_timeout)
                .operation_attempt_timeout(attempt_timeout)
                .build(),
        )
        // It watches the throughput of long streams; the attempt timeout ends them all.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .load()
        .await
}

/// One client for both schemes: its connector speaks TLS to `https://` and plain HTTP to `http://`.
/// Source: `aws-smithy-http-client` 1.5.2, `tls/rustls_provider.rs`, `wrap_connector_with_alpn` (`enforce_http(false)`).
fn http_client(write_concurrency: usize) -> SharedHttpClient {
    aws_smithy_http_client::Builder::new()
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(write_concurrency)
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https()
}
