//! Tests of how the SDKs report expired credentials, which a proxy refuses.

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
use emulators::proxy::{ExpiringCredentials, Proxy, ProxyFaults, Service};

/// No service listens there. Until the credentials expire, the proxy closes each connection without a reply.
const NOWHERE: &str = "http://127.0.0.1:9";
/// Longest wait for the credentials to expire.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a proxy in front of a service that does not run; returns the proxy and a configuration of its clients.
async fn proxied(service: Service) -> (Proxy, SdkConfig) {
    let proxy_faults = ProxyFaults {
        credentials: Some(Arc::new(ExpiringCredentials::new(0, Percent::ALL))),
        ..ProxyFaults::default()
    };
    let proxy = Proxy::start(service, NOWHERE, Arc::new(()), proxy_faults);
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

/// Repeats a request until a service error is returned; returns its code.
async fn code<T: Debug, E: ProvideErrorMetadata + Debug, R: Debug>(
    call: impl AsyncFn() -> Result<T, SdkError<E, R>>,
) -> String {
    let started = Instant::now();
    loop {
        if let SdkError::ServiceError(error) = call().await.unwrap_err() {
            return error.err().code().unwrap_or("no code").to_owned();
        }
        assert!(
            started.elapsed() < PATIENCE,
            "the credentials did not expire"
        );
    }
}

#[tokio::test]
async fn each_service_refuses_expired_credentials_with_its_own_code() {
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
