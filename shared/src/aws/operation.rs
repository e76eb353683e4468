//! The operations that a message is a share of: their bodies are written and read here, and they are sent from here, by the SDK's
//! HTTP client, to where the SDK's rules say, for the credentials that it was given.
//!
//! The SDK's client of DynamoDB keeps an item as a map of owned names to owned values, in both directions; at 25 or 100 items a
//! request that was a third of what a message cost. Here an item's texts are borrowed from the candidate or from the answer.
//!
//! And for each call it puts together layers of configuration, looks up where the service is, derives the key to sign with, and
//! asks interceptors at each step: that was as much again. What it would do beside that is not done here: a clock that is
//! minutes off is not corrected for (those of Lambda are not), a connection on which a 5xx came is not closed, and what an endpoint's
//! rules say about signing is not read (they say something only for the region `local`).

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};
use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sdk_dynamodb::error::{ConnectorError, SdkError};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, SharedHttpConnector};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use aws_smithy_types::error::ErrorMetadata;
use aws_types::SdkConfig;
use bytes::Bytes;
use futures::FutureExt as _;
use http::Uri;
use serde::{Deserialize, Serialize};

use super::errors::{DYNAMODB, port_error};
use super::signer::{Post, Signer};
use crate::ports::PortError;

/// The version of DynamoDB's API, as requests name it.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html> (2026-11).
const API: &str = "DynamoDB_20120810";
/// What requests are written in.
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";
/// Whom requests say they are from.
const USER_AGENT: &str = concat!("unique-event-batch-aggregator/", env!("CARGO_PKG_VERSION"));

/// An operation of DynamoDB: a body goes there, a body comes back. One attempt a call, in the time that one may take.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    target: String,
    service: Arc<Service>,
}

/// What the operations have in common.
#[derive(Debug)]
pub(super) struct Service {
    connector: SharedHttpConnector,
    attempt_timeout: Option<Duration>,
    /// Or what the environment lacks, which the first call says.
    address: Result<Address, String>,
}

/// Where DynamoDB is, and who asks it.
#[derive(Debug)]
struct Address {
    /// What all requests have in common.
    template: HttpRequest,
    /// As the `host` header has it.
    host: String,
    path: String,
    credentials: SharedCredentialsProvider,
    signer: Signer,
}

impl Operation {
    /// The operation with this name.
    pub(super) fn new(service: &Arc<Service>, name: &str) -> Operation {
        Operation {
            target: format!("{API}.{name}"),
            service: service.clone(),
        }
    }

    /// Sends `body` and answers the body of the answer. `what` names the call's object (a table, an index) in errors.
    ///
    /// # Errors
    /// As the service, or what is on the way to it, has them.
    pub(super) async fn call(&self, what: &str, body: Vec<u8>) -> Result<Bytes, PortError> {
        let attempt = self.attempt(what, body);
        let Some(timeout) = self.service.attempt_timeout else {
            return attempt.await;
        };
        tokio::time::timeout(timeout, attempt)
            .await
            .unwrap_or_else(|elapsed| Err(failure(what, SdkError::timeout_error(elapsed))))
    }

    async fn attempt(&self, what: &str, body: Vec<u8>) -> Result<Bytes, PortError> {
        let request = self.request(what, body).await?;
        let sent = self.service.connector.call(request).await;
        let mut response =
            sent.map_err(|error| failure(what, SdkError::dispatch_failure(error)))?;
        let body = match ByteStream::new(response.take_body()).collect().await {
            Ok(body) => body.into_bytes(),
            Err(error) => return Err(failure(what, SdkError::response_error(error, response))),
        };
        if response.status().is_success() {
            return Ok(body);
        }
        let metadata = error_metadata(response.headers().get("x-amzn-errortype"), &body);
        Err(failure(what, SdkError::service_error(metadata, response)))
    }

    async fn request(&self, what: &str, body: Vec<u8>) -> Result<HttpRequest, PortError> {
        let address = match &self.service.address {
            Ok(address) => address,
            Err(lack) => {
                let lack = SdkError::construction_failure(lack.clone());
                return Err(failure(what, lack));
            }
        };
        let credentials = match address.credentials.provide_credentials().await {
            Ok(credentials) => credentials,
            Err(error) => {
                let error = ConnectorError::other(error.into(), None);
                return Err(failure(what, SdkError::dispatch_failure(error)));
            }
        };
        let post = Post {
            host: &address.host,
            path: &address.path,
            content_type: CONTENT_TYPE,
            target: &self.target,
            body: &body,
        };
        let signed = address.signer.sign(&credentials, SystemTime::now(), post);
        let mut request = address.template.try_clone().expect("it has no body");
        let token = credentials.session_token().map(str::to_owned);
        let headers = [
            ("x-amz-target", Some(self.target.clone())),
            ("x-amz-date", Some(signed.date)),
            ("authorization", Some(signed.authorization)),
            ("x-amz-security-token", token),
        ];
        for (name, value) in headers {
            let Some(value) = value else { continue };
            // Credentials may be anything.
            if let Err(error) = request.headers_mut().try_insert(name, value) {
                return Err(failure(what, SdkError::construction_failure(error)));
            }
        }
        *request.body_mut() = SdkBody::from(body);
        Ok(request)
    }
}

impl Service {
    /// DynamoDB where and for whom `config` says, asked through `connector`.
    pub(super) fn new(config: &SdkConfig, connector: SharedHttpConnector) -> Service {
        let timeouts = config.timeout_config();
        Service {
            connector,
            attempt_timeout: timeouts.and_then(|timeouts| timeouts.operation_attempt_timeout()),
            address: Address::new(config).map_err(|lack| lack.to_string()),
        }
    }
}

impl Address {
    /// Where the SDK's rules say.
    fn new(config: &SdkConfig) -> Result<Address, BoxError> {
        let region = config.region().map(ToString::to_string);
        let params = Params::builder()
            .set_region(region.clone())
            .set_use_fips(config.use_fips())
            .set_use_dual_stack(config.use_dual_stack())
            .set_endpoint(config.endpoint_url().map(str::to_owned))
            .build()?;
        let resolver = DefaultResolver::new();
        let endpoint = resolver.resolve_endpoint(&params);
        let endpoint = endpoint
            .now_or_never()
            .ok_or("no endpoint is known yet")??;
        let mut template = HttpRequest::empty();
        template.set_method("POST")?;
        template.uri_mut().set_endpoint(endpoint.url())?;
        let uri: Uri = template.uri().parse()?;
        let host = host(&uri);
        let headers = template.headers_mut();
        headers.insert("host", host.clone());
        headers.insert("content-type", CONTENT_TYPE);
        headers.insert("user-agent", USER_AGENT);
        let credentials = config.credentials_provider().ok_or("no credentials")?;
        Ok(Address {
            template,
            host,
            path: uri.path().to_owned(),
            credentials,
            signer: Signer::new("dynamodb", region.ok_or("no region")?),
        })
    }
}

/// What a connection to `uri` is asked for: its authority, without the port that its scheme has anyway.
fn host(uri: &Uri) -> String {
    let port = match uri.scheme_str() {
        Some("https") => ":443",
        Some(_) | None => ":80",
    };
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    authority.strip_suffix(port).unwrap_or(authority).to_owned()
}

fn failure(what: &str, error: SdkError<ErrorMetadata, HttpResponse>) -> PortError {
    port_error(DYNAMODB, what, &error)
}

/// A request's body.
pub(super) fn json(request: &impl Serialize) -> Vec<u8> {
    // Text keys and plain data into memory: nothing of it can fail.
    serde_json::to_vec(request).expect("a request is JSON")
}

/// Reads an answer's body. One that cannot be read says nothing about what was done.
pub(super) fn read<'a, T: Deserialize<'a>>(what: &str, answer: &'a [u8]) -> Result<T, PortError> {
    let unread = |error: &dyn fmt::Display| PortError::Unknown {
        service: DYNAMODB,
        message: format!("{what}: the answer cannot be read: {error}"),
    };
    // Checked text by text, it costs more.
    let answer = std::str::from_utf8(answer).map_err(|error| unread(&error))?;
    serde_json::from_str(answer).map_err(|error| unread(&error))
}

/// The code and the words of a failure, as far as it has them.
/// Source: <https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html#operation-error-serialization> (2026-08).
fn error_metadata(header: Option<&str>, body: &[u8]) -> ErrorMetadata {
    #[derive(Default, Deserialize)]
    struct Failure {
        #[serde(rename = "__type", alias = "code")]
        kind: Option<String>,
        #[serde(alias = "Message")]
        message: Option<String>,
    }

    let Failure { kind, message } = serde_json::from_slice(body).unwrap_or_default();
    // `namespace#Code:http://…`, of which the code may stand alone.
    let code = header.or(kind.as_deref()).map(|kind| {
        let kind = kind.split(':').next().unwrap_or(kind);
        kind.rsplit('#').next().unwrap_or(kind).to_owned()
    });
    let mut metadata = ErrorMetadata::builder();
    if let Some(code) = code {
        metadata = metadata.code(code);
    }
    if let Some(message) = message {
        metadata = metadata.message(message);
    }
    metadata.build()
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::config::Credentials;
    use aws_types::region::Region;

    use super::*;

    fn address(config: aws_types::sdk_config::Builder) -> Result<Address, BoxError> {
        let credentials = Credentials::new("id", "secret", None, None, "test");
        let credentials = SharedCredentialsProvider::new(credentials);
        Address::new(&config.credentials_provider(credentials).build())
    }

    #[test]
    fn dynamodb_is_where_its_client_would_find_it() {
        let of = |region| SdkConfig::builder().region(Region::from_static(region));
        let cases = [
            (of("eu-west-1"), "https://dynamodb.eu-west-1.amazonaws.com/"),
            (
                of("cn-north-1"),
                "https://dynamodb.cn-north-1.amazonaws.com.cn/",
            ),
            (
                of("us-east-2").use_fips(true),
                "https://dynamodb-fips.us-east-2.amazonaws.com/",
            ),
            (
                of("eu-west-1").use_dual_stack(true),
                "https://dynamodb.eu-west-1.api.aws/",
            ),
            (
                of("eu-west-1").endpoint_url("http://[::1]:1/a"),
                "http://[::1]:1/a/",
            ),
        ];
        for (config, url) in cases {
            assert_eq!(address(config).unwrap().template.uri(), url);
        }
    }

    #[test]
    fn what_the_environment_lacks_is_said() {
        let of = |region| SdkConfig::builder().region(Region::from_static(region));
        for (config, word) in [
            (SdkConfig::builder(), "Region"),
            (of("no region"), "region"),
        ] {
            let error = address(config).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let keyless = of("eu-west-1").build();
        let error = Address::new(&keyless).unwrap_err().to_string();
        assert!(error.contains("credentials"), "{error}");
    }

    #[test]
    fn a_host_is_named_without_the_port_of_its_scheme() {
        for (uri, expected) in [
            ("https://a.b/", "a.b"),
            ("https://a.b:443/", "a.b"),
            ("https://a.b:80/", "a.b:80"),
            ("http://a.b:80/c", "a.b"),
            ("http://[::1]:4566/", "[::1]:4566"),
        ] {
            assert_eq!(host(&Uri::from_static(uri)), expected);
        }
    }

    #[test]
    fn a_failure_is_read_in_every_form_it_comes_in() {
        let cases = [
            (
                None,
                r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow"}"#,
                (Some("ThrottlingException"), Some("slow")),
            ),
            (
                None,
                r#"{"code":"ValidationException:http://x/y","Message":"no"}"#,
                (Some("ValidationException"), Some("no")),
            ),
            (
                Some("InternalServerError:http://x"),
                "{}",
                (Some("InternalServerError"), None),
            ),
            (None, "<html>", (None, None)),
            (None, "", (None, None)),
        ];
        for (header, body, expected) in cases {
            let metadata = error_metadata(header, body.as_bytes());
            assert_eq!((metadata.code(), metadata.message()), expected, "{body}");
        }
    }
}
