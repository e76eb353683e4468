use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::environment::{
    EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider,
};
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

/// How long an idle connection is kept. An execution environment is frozen between invocations while the other side
/// goes on; a connection that is older than this is probably gone, and using it would cost a whole attempt.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// The SDK clients of one Lambda process. They share one connection pool.
#[derive(Clone, Debug)]
pub struct Clients {
    /// DynamoDB.
    pub dynamodb: aws_sdk_dynamodb::Client,
    /// SQS.
    pub sqs: aws_sdk_sqs::Client,
}

impl Clients {
    /// Clients as the environment describes them: `AWS_REGION`, `AWS_ACCESS_KEY_ID` and the like, and
    /// `AWS_ENDPOINT_URL` or `AWS_ENDPOINT_URL_DYNAMODB`, `AWS_ENDPOINT_URL_SQS` (`http://` or `https://`).
    ///
    /// `attempt_timeout` bounds every call from its first byte to its last, connecting included; there are no
    /// retries. `write_concurrency` is how many idle connections are kept per host.
    ///
    /// Nothing is called here, so nothing can fail: a missing region or credential shows in the first call.
    pub async fn from_env(attempt_timeout: Duration, write_concurrency: usize) -> Clients {
        // Lambda hands out credentials and region as variables. The default chain would in their absence ask files
        // and instance metadata, which here can only cost time.
        let config = aws_config::defaults(BehaviorVersion::latest())
            .region(EnvironmentVariableRegionProvider::new())
            .credentials_provider(EnvironmentVariableCredentialsProvider::new())
            .http_client(http_client(write_concurrency))
            .retry_config(RetryConfig::disabled())
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(attempt_timeout)
                    .operation_attempt_timeout(attempt_timeout)
                    .build(),
            )
            // It watches the throughput of long streams. These are short calls, and the attempt timeout ends them all.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .load()
            .await;
        Clients {
            dynamodb: aws_sdk_dynamodb::Client::new(&config),
            sqs: aws_sdk_sqs::Client::new(&config),
        }
    }
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
