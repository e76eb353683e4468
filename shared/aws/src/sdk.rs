use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Credentials, Region, SharedCredentialsProvider, StalledStreamProtectionConfig,
};
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{
    HttpConnectorSettings, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_types::SdkConfig;

use crate::errors::chain;

/// How long an idle connection is kept. While an environment is frozen between invocations, the server may close the
/// connection, and a request on a closed connection costs a whole attempt. S3 closes idle connections after about 20 s.
/// Source: <https://github.com/awslabs/aws-sdk-rust/issues/1106> (2026-08).
pub const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long connecting may take, TLS included. An attempt may have less time than this; then the connection is still
/// made, for the next attempt.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings that all SDK clients of one Lambda process share: region, credentials, and the pool of connections.
///
/// They come only from the variables that Lambda sets. The default chain of the SDK would also look for files and
/// instance metadata, which do not exist on Lambda, and its code is as large as the client of a service.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html> (2026-08).
///
/// No client retries, because [`retry`](shared::retry) decides on the schedule. Each client gets the time that one
/// attempt may take in all, connecting included.
#[derive(Clone)]
pub struct Sdk {
    config: SdkConfig,
    variable: Variables,
    /// The pool of connections; `None` if the program brought its own.
    connector: Option<SharedHttpConnector>,
}

/// Returns the value of a variable.
type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl std::fmt::Debug for Sdk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let config = &self.config;
        f.debug_struct("Sdk")
            .field("config", config)
            .finish_non_exhaustive()
    }
}

impl Sdk {
    /// Reads the environment: `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`;
    /// `AWS_ENDPOINT_URL_DYNAMODB`, `AWS_ENDPOINT_URL_SQS` and so on, or `AWS_ENDPOINT_URL` for all services
    /// (`http://` or `https://`); `AWS_USE_FIPS_ENDPOINT` and `AWS_USE_DUALSTACK_ENDPOINT` (`true`).
    ///
    /// `connections` is the number of idle connections that are kept for each host.
    ///
    /// This sends no request and cannot fail. A missing region or credential makes the first request fail.
    pub fn from_env(connections: usize) -> Sdk {
        Sdk::from_variables(|name| std::env::var(name).ok(), connections)
    }

    /// Returns an SDK for a program that is not a Lambda function, and found region and credentials in its own way. Endpoints
    /// are the variables that `variable` returns.
    pub fn with_config(
        config: &SdkConfig,
        variable: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Sdk {
        let config = config.to_builder().retry_config(RetryConfig::disabled());
        Sdk {
            config: config.build(),
            variable: Arc::new(variable),
            connector: None,
        }
    }

    /// Returns an SDK as [`from_env`](Self::from_env) does, with other variables.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        connections: usize,
    ) -> Sdk {
        let set = |name| {
            let value = variable(name)?.trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        let on = |name| variable(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let credentials = || {
            let (id, key) = (set("AWS_ACCESS_KEY_ID")?, set("AWS_SECRET_ACCESS_KEY")?);
            let token = set("AWS_SESSION_TOKEN");
            Some(Credentials::new(id, key, token, None, "environment"))
        };
        let connector = connector(connections);
        let shared = connector.clone();
        let mut config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(set("AWS_REGION").map(Region::new))
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .retry_config(RetryConfig::disabled())
            // The attempt timeout ends every request but the body of an object, so only S3 watches its streams.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .use_fips(on("AWS_USE_FIPS_ENDPOINT"))
            .use_dual_stack(on("AWS_USE_DUALSTACK_ENDPOINT"));
        config.set_credentials_provider(credentials().map(SharedCredentialsProvider::new));
        Sdk {
            config: config.build(),
            variable: Arc::new(variable),
            connector: Some(shared),
        }
    }

    /// Returns a connector with the connections of the SDK's clients, for requests to other servers.
    pub fn connector(&self) -> SharedHttpConnector {
        let own = self.connector.clone();
        own.unwrap_or_else(|| connector(1))
    }

    pub fn dynamodb(&self, attempt_timeout: Duration) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.of("DYNAMODB", attempt_timeout))
    }

    pub fn sqs(&self, attempt_timeout: Duration) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(&self.of("SQS", attempt_timeout))
    }

    /// Returns a client of SQS in a region; `None` is that of the function.
    pub fn sqs_in(&self, region: Option<&str>, attempt_timeout: Duration) -> aws_sdk_sqs::Client {
        let config = self.of("SQS", attempt_timeout);
        aws_sdk_sqs::Client::new(&match region {
            Some(region) => in_region(region, &config),
            None => config,
        })
    }

    /// Returns `AWS_SESSION_TOKEN`, by which the Lambda extensions of this function accept requests of its process.
    pub fn session_token(&self) -> Option<String> {
        (self.variable)("AWS_SESSION_TOKEN").filter(|token| !token.trim().is_empty())
    }

    fn of(&self, service: &str, attempt_timeout: Duration) -> SdkConfig {
        let timeouts = TimeoutConfig::builder()
            .operation_attempt_timeout(attempt_timeout)
            .build();
        let mut config = self.config.to_builder().timeout_config(timeouts);
        config.set_endpoint_url(self.endpoint(service));
        config.build()
    }

    /// Returns the URL that takes the place of a service's own.
    pub(crate) fn endpoint(&self, service: &str) -> Option<String> {
        [&*format!("AWS_ENDPOINT_URL_{service}"), "AWS_ENDPOINT_URL"]
            .into_iter()
            .find_map(|name| (self.variable)(name).filter(|url| !url.trim().is_empty()))
    }

    /// Returns what all clients share.
    pub(crate) fn config(&self) -> &SdkConfig {
        &self.config
    }
}

/// Clients of the services that only some configurations use.
#[cfg(feature = "full")]
impl Sdk {
    /// Returns a client of S3. With a configured endpoint, the bucket goes into the path, because a replacement of S3
    /// seldom has a host name for every bucket.
    pub fn s3(&self, attempt_timeout: Duration) -> aws_sdk_s3::Client {
        let config = self.of("S3", attempt_timeout);
        let named = config.endpoint_url().is_some();
        let config = aws_sdk_s3::config::Builder::from(&config)
            .force_path_style(named)
            .stalled_stream_protection(StalledStreamProtectionConfig::enabled().build());
        aws_sdk_s3::Client::from_conf(config.build())
    }

    /// Returns a client of EventBridge in the region of the event bus.
    pub fn eventbridge(
        &self,
        region: &str,
        attempt_timeout: Duration,
    ) -> aws_sdk_eventbridge::Client {
        let config = in_region(region, &self.of("EVENTBRIDGE", attempt_timeout));
        aws_sdk_eventbridge::Client::new(&config)
    }

    /// Returns a client of Lambda in the region of the function to be invoked.
    pub fn lambda(&self, region: &str, attempt_timeout: Duration) -> aws_sdk_lambda::Client {
        aws_sdk_lambda::Client::new(&in_region(region, &self.of("LAMBDA", attempt_timeout)))
    }

    /// Returns a client of Step Functions in the region of the state machine to be started.
    pub fn step_functions(&self, region: &str, attempt_timeout: Duration) -> aws_sdk_sfn::Client {
        aws_sdk_sfn::Client::new(&in_region(region, &self.of("SFN", attempt_timeout)))
    }
}

fn in_region(region: &str, config: &SdkConfig) -> SdkConfig {
    let region = Region::new(region.to_owned());
    config.to_builder().region(region).build()
}

/// Returns a request without headers.
///
/// # Errors
/// The URL is malformed.
pub fn http_request(
    method: &str,
    url: &str,
    body: impl Into<SdkBody>,
) -> Result<HttpRequest, String> {
    let mut request = HttpRequest::new(body.into());
    let set = request.set_method(method);
    let set = set.and_then(|()| request.set_uri(url));
    set.map_err(|error| chain(&error))?;
    Ok(request)
}

/// Returns a connector for both schemes: TLS for `https://`, plain HTTP for `http://`.
/// Source: `aws-smithy-http-client` 1.5.2, `tls/rustls_provider.rs`, `wrap_connector_with_alpn` (`enforce_http(false)`).
pub(crate) fn connector(connections: usize) -> SharedHttpConnector {
    let settings = HttpConnectorSettings::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .build();
    let connector = Connector::builder()
        .connector_settings(settings)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(connections)
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build();
    SharedHttpConnector::new(connector)
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::config::ProvideCredentials as _;

    use super::*;

    const ATTEMPT: Duration = Duration::from_secs(3);

    /// Returns an SDK with these variables.
    fn sdk(variables: &'static [(&'static str, &'static str)]) -> Sdk {
        let value = move |name: &str| {
            let set = variables.iter().find(|(variable, _)| *variable == name)?;
            Some(set.1.to_owned())
        };
        Sdk::from_variables(value, 1)
    }

    #[test]
    fn a_service_may_have_an_endpoint_of_its_own() {
        let sdk = sdk(&[
            ("AWS_ENDPOINT_URL", "http://all"),
            ("AWS_ENDPOINT_URL_SQS", "http://sqs"),
            ("AWS_ENDPOINT_URL_S3", ""),
        ]);
        for (service, endpoint) in [
            ("SQS", "http://sqs"),
            ("S3", "http://all"),
            ("DYNAMODB", "http://all"),
        ] {
            assert_eq!(sdk.of(service, ATTEMPT).endpoint_url(), Some(endpoint));
        }
        let none = Sdk::from_variables(|_| None, 1).of("SQS", ATTEMPT);
        assert_eq!(none.endpoint_url(), None);
    }

    #[test]
    fn lambda_and_step_functions_are_called_in_the_region_of_the_arn() {
        let sdk = sdk(&[("AWS_REGION", "eu-west-1")]);
        let lambda = sdk.lambda("us-east-1", ATTEMPT);
        let states = sdk.step_functions("us-west-2", ATTEMPT);
        let regions = [lambda.config().region(), states.config().region()];
        let regions = regions.map(|region| region.unwrap().to_string());
        assert_eq!(regions, ["us-east-1", "us-west-2"]);
    }

    #[tokio::test]
    async fn white_space_around_credentials_is_removed() {
        let sdk = sdk(&[
            ("AWS_ACCESS_KEY_ID", "id\n"),
            ("AWS_SECRET_ACCESS_KEY", " secret"),
            ("AWS_SESSION_TOKEN", "token \r\n"),
        ]);
        let provider = sdk.of("SQS", ATTEMPT).credentials_provider().unwrap();
        let read = provider.provide_credentials().await.unwrap();
        assert_eq!(read.access_key_id(), "id");
        assert_eq!(read.secret_access_key(), "secret");
        assert_eq!(read.session_token(), Some("token"));
    }

    #[test]
    fn region_and_endpoints_come_from_the_variables() {
        let sdk = sdk(&[
            ("AWS_REGION", "us-gov-west-1"),
            ("AWS_USE_FIPS_ENDPOINT", "TRUE"),
            ("AWS_USE_DUALSTACK_ENDPOINT", "false"),
        ]);
        let config = sdk.of("SQS", ATTEMPT);
        assert_eq!(config.region().unwrap().as_ref(), "us-gov-west-1");
        assert_eq!(config.use_fips(), Some(true));
        assert_eq!(config.use_dual_stack(), Some(false));
        assert!(config.credentials_provider().is_none());
        let timeouts = config.timeout_config().unwrap();
        assert_eq!(timeouts.operation_attempt_timeout(), Some(ATTEMPT));
    }
}
