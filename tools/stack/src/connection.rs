//! Makes clients of the services of a stack.

#[cfg(not(feature = "credential-chain"))]
use aws_sdk_sqs::config::SharedCredentialsProvider;
use aws_sdk_sqs::config::{
    BehaviorVersion, Credentials, ProvideCredentials, Region, SharedHttpClient,
    StalledStreamProtectionConfig,
};
use aws_smithy_http_client::tls as tls_client;
use aws_types::SdkConfig;

use crate::paced::{Pace, paced};
use crate::settings::Settings;

/// Returns the value of a variable: of the process, or of a file.
pub type Lookup<'a> = dyn Fn(&str) -> Option<String> + Sync + 'a;

/// The clients of the services that a stack consists of.
#[derive(Clone)]
pub struct Connection {
    #[cfg(feature = "cloudformation")]
    pub cloudformation: aws_sdk_cloudformation::Client,
    pub dynamodb: aws_sdk_dynamodb::Client,
    #[cfg(feature = "s3")]
    pub s3: aws_sdk_s3::Client,
    pub sqs: aws_sdk_sqs::Client,
    /// Region, credentials and HTTP client, for clients of other services.
    pub config: SdkConfig,
    /// `PGPASSWORD`, for a sink that is a database.
    pub database_password: Option<String>,
}

impl std::fmt::Debug for Connection {
    /// Leaves out the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// No region is configured.
    #[error("region: not set: expected `AWS_REGION`, or a profile with a region")]
    NoRegion,
    /// No credentials were found.
    #[error("credentials: {0}")]
    Credentials(#[source] aws_sdk_sqs::error::BoxError),
}

impl Connection {
    /// Makes the clients of settings that are variables. What the settings do not have is taken from the variables of the
    /// process, and else found as [`new`](Self::new) does.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub async fn of(settings: &Settings) -> Result<Connection, ConnectionError> {
        let own = |name: &str| settings.value(name).map(str::to_owned);
        let lookup = |name: &str| own(name).or_else(|| std::env::var(name).ok());
        Connection::new(&lookup).await
    }

    /// Makes the clients. Endpoints, region and credentials are those of `lookup`. With the cargo feature `credential-chain`,
    /// region and credentials that it does not have are found as the AWS CLI does.
    ///
    /// # Errors
    /// There is no region, or there are no credentials. They are looked for first, so that their absence gives one
    /// clear error.
    pub async fn new(lookup: &Lookup<'_>) -> Result<Connection, ConnectionError> {
        let endpoint = |service: &str| {
            let own = lookup(&format!("AWS_ENDPOINT_URL_{service}"));
            own.or_else(|| lookup("AWS_ENDPOINT_URL"))
                .filter(|url| !url.is_empty())
        };
        let plain =
            |service: &&str| endpoint(service).is_some_and(|url| url.starts_with("http://"));
        let tls = !SERVICES.iter().all(plain);
        let config = sdk_config(lookup, http_client(tls)).await;
        if config.region().is_none() {
            return Err(ConnectionError::NoRegion);
        }
        let credentials = config.credentials_provider();
        let credentials = credentials
            .ok_or_else(|| ConnectionError::Credentials("there is no source of them".into()))?;
        let found = credentials.provide_credentials().await;
        found.map_err(|error| ConnectionError::Credentials(error.into()))?;

        let mut of_dynamodb = aws_sdk_dynamodb::config::Builder::from(&config);
        of_dynamodb.set_endpoint_url(endpoint("DYNAMODB"));
        let mut of_sqs = aws_sdk_sqs::config::Builder::from(&config);
        of_sqs.set_endpoint_url(endpoint("SQS"));
        Ok(Connection {
            #[cfg(feature = "cloudformation")]
            cloudformation: cloudformation(&config, endpoint("CLOUDFORMATION")),
            dynamodb: aws_sdk_dynamodb::Client::from_conf(of_dynamodb.build()),
            #[cfg(feature = "s3")]
            s3: s3(&config, endpoint("S3")),
            sqs: aws_sdk_sqs::Client::from_conf(of_sqs.build()),
            config,
            database_password: lookup("PGPASSWORD"),
        })
    }
}

impl Connection {
    /// Returns a connection whose clients together send requests at a pace.
    #[must_use]
    pub fn paced(self, pace: Pace) -> Connection {
        let Some(http) = self.config.http_client() else {
            return self;
        };
        let http = paced(http, pace);
        // A request that waits for its turn is not one whose stream has stalled.
        let waits = StalledStreamProtectionConfig::disabled();
        let dynamodb = self.dynamodb.config().to_builder();
        let dynamodb = dynamodb.http_client(http.clone());
        let dynamodb = dynamodb.stalled_stream_protection(waits.clone());
        let sqs = self.sqs.config().to_builder().http_client(http.clone());
        let sqs = sqs.stalled_stream_protection(waits.clone());
        #[cfg(feature = "s3")]
        let s3 = self.s3.config().to_builder().http_client(http.clone());
        #[cfg(feature = "s3")]
        let s3 = s3.stalled_stream_protection(waits.clone());
        let config = self.config.to_builder().http_client(http);
        Connection {
            dynamodb: aws_sdk_dynamodb::Client::from_conf(dynamodb.build()),
            sqs: aws_sdk_sqs::Client::from_conf(sqs.build()),
            #[cfg(feature = "s3")]
            s3: aws_sdk_s3::Client::from_conf(s3.build()),
            config: config.stalled_stream_protection(waits).build(),
            ..self
        }
    }
}

/// The services of the clients, by the ends of the names of their variables.
const SERVICES: &[&str] = &[
    #[cfg(feature = "cloudformation")]
    "CLOUDFORMATION",
    "DYNAMODB",
    #[cfg(feature = "s3")]
    "S3",
    "SQS",
];

#[cfg(feature = "cloudformation")]
fn cloudformation(config: &SdkConfig, endpoint: Option<String>) -> aws_sdk_cloudformation::Client {
    let mut own = aws_sdk_cloudformation::config::Builder::from(config);
    own.set_endpoint_url(endpoint);
    aws_sdk_cloudformation::Client::from_conf(own.build())
}

#[cfg(feature = "s3")]
fn s3(config: &SdkConfig, endpoint: Option<String>) -> aws_sdk_s3::Client {
    let mut own = aws_sdk_s3::config::Builder::from(config);
    // Servers other than AWS are reached by their address, which has no name of a bucket in it.
    own.set_force_path_style(Some(endpoint.is_some()));
    own.set_endpoint_url(endpoint);
    aws_sdk_s3::Client::from_conf(own.build())
}

/// Returns an HTTP client. One with TLS loads certificates, which a minimal machine may not have.
pub fn http_client(tls: bool) -> SharedHttpClient {
    let http = aws_smithy_http_client::Builder::new();
    match tls {
        true => http
            .tls_provider(tls_client::Provider::Rustls(
                tls_client::rustls_provider::CryptoMode::Ring,
            ))
            .build_https(),
        false => http.build_http(),
    }
}

fn region(lookup: &Lookup<'_>) -> Option<Region> {
    let region = lookup("AWS_REGION").or_else(|| lookup("AWS_DEFAULT_REGION"));
    region.map(Region::new)
}

fn credentials(lookup: &Lookup<'_>) -> Option<Credentials> {
    let (id, secret) = (
        lookup("AWS_ACCESS_KEY_ID")?,
        lookup("AWS_SECRET_ACCESS_KEY")?,
    );
    let token = lookup("AWS_SESSION_TOKEN");
    Some(Credentials::new(id, secret, token, None, "variables"))
}

/// Finds what `lookup` does not have as the AWS CLI does.
#[cfg(feature = "credential-chain")]
async fn sdk_config(lookup: &Lookup<'_>, http: SharedHttpClient) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http);
    if let Some(region) = region(lookup) {
        loader = loader.region(region);
    }
    if let Some(credentials) = credentials(lookup) {
        loader = loader.credentials_provider(credentials);
    }
    loader.load().await
}

/// Has nothing but what `lookup` has.
#[cfg(not(feature = "credential-chain"))]
async fn sdk_config(lookup: &Lookup<'_>, http: SharedHttpClient) -> SdkConfig {
    let on = |name| lookup(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let mut config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(http)
        .region(region(lookup))
        .use_fips(on("AWS_USE_FIPS_ENDPOINT"))
        .use_dual_stack(on("AWS_USE_DUALSTACK_ENDPOINT"));
    let credentials = credentials(lookup).map(SharedCredentialsProvider::new);
    config.set_credentials_provider(credentials);
    config.build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[tokio::test]
    async fn variables_in_memory_suffice() {
        let variables = [
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
            ("PGPASSWORD", "hush"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = Settings::of_variables("memory".to_owned(), BTreeMap::from(variables));
        let connection = Connection::of(&settings).await.unwrap();
        let region = connection.sqs.config().region().map(Region::as_ref);
        assert_eq!(region, Some("eu-west-1"));
        assert_eq!(connection.database_password.as_deref(), Some("hush"));
        let credentials = connection.config.credentials_provider().unwrap();
        let credentials = credentials.provide_credentials().await.unwrap();
        assert_eq!(credentials.access_key_id(), "id");
    }
}
