//! Makes clients of the services of a stack.

use aws_config::{BehaviorVersion, ConfigLoader, Region};
use aws_sdk_sqs::config::{Credentials, ProvideCredentials, SharedHttpClient};
use aws_smithy_http_client::tls as tls_client;

/// Returns the value of a variable: of the process, or of a file.
pub type Lookup<'a> = dyn Fn(&str) -> Option<String> + Sync + 'a;

/// The clients of the services that a stack consists of.
#[derive(Clone)]
pub struct Connection {
    pub cloudformation: aws_sdk_cloudformation::Client,
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub s3: aws_sdk_s3::Client,
    pub sqs: aws_sdk_sqs::Client,
    /// Region, credentials and HTTP client, for clients of other services.
    pub config: aws_config::SdkConfig,
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
    /// Makes the clients. Endpoints, region and credentials are those of `lookup`; those that it does not have are found as
    /// the AWS CLI does.
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
        let endpoints = ["CLOUDFORMATION", "DYNAMODB", "S3", "SQS"].map(endpoint);
        let mut urls = endpoints.iter();
        let tls = !urls.all(|url| url.as_ref().is_some_and(|url| url.starts_with("http://")));
        let config = loader(lookup, tls).load().await;
        if config.region().is_none() {
            return Err(ConnectionError::NoRegion);
        }
        let credentials = config.credentials_provider();
        let credentials = credentials
            .ok_or_else(|| ConnectionError::Credentials("there is no source of them".into()))?;
        let found = credentials.provide_credentials().await;
        found.map_err(|error| ConnectionError::Credentials(error.into()))?;

        let [cloudformation, dynamodb, s3, sqs] = endpoints;
        let mut of_cloudformation = aws_sdk_cloudformation::config::Builder::from(&config);
        of_cloudformation.set_endpoint_url(cloudformation);
        let mut of_dynamodb = aws_sdk_dynamodb::config::Builder::from(&config);
        of_dynamodb.set_endpoint_url(dynamodb);
        // Servers other than AWS are reached by their address, which has no name of a bucket in it.
        let mut of_s3 = aws_sdk_s3::config::Builder::from(&config);
        of_s3.set_force_path_style(Some(s3.is_some()));
        of_s3.set_endpoint_url(s3);
        let mut of_sqs = aws_sdk_sqs::config::Builder::from(&config);
        of_sqs.set_endpoint_url(sqs);
        Ok(Connection {
            cloudformation: aws_sdk_cloudformation::Client::from_conf(of_cloudformation.build()),
            dynamodb: aws_sdk_dynamodb::Client::from_conf(of_dynamodb.build()),
            s3: aws_sdk_s3::Client::from_conf(of_s3.build()),
            sqs: aws_sdk_sqs::Client::from_conf(of_sqs.build()),
            config,
            database_password: lookup("PGPASSWORD"),
        })
    }
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

fn loader(lookup: &Lookup<'_>, tls: bool) -> ConfigLoader {
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http_client(tls));
    if let Some(region) = lookup("AWS_REGION").or_else(|| lookup("AWS_DEFAULT_REGION")) {
        loader = loader.region(Region::new(region));
    }
    if let (Some(id), Some(secret)) = (lookup("AWS_ACCESS_KEY_ID"), lookup("AWS_SECRET_ACCESS_KEY"))
    {
        let token = lookup("AWS_SESSION_TOKEN");
        loader =
            loader.credentials_provider(Credentials::new(id, secret, token, None, "variables"));
    }
    loader
}
