//! The operations that a message is a share of: their bodies are written and read here, and the SDK does the rest of a call:
//! endpoint, credentials, signature, timeouts, transport, and every error on that way.
//!
//! The SDK's client of DynamoDB keeps an item as a map of owned names to owned values, in both directions; at 25 or 100 items a
//! request that was a third of what a message cost. Here an item's texts are borrowed from the candidate or from the answer.
//!
//! And for each call it puts together a dozen layers of configuration and more interceptors: retries, measures of its own, what it
//! says of itself in headers. That was another quarter. An [`Operation`] has what it needs in one layer, and goes through the
//! same orchestrator, signer and HTTP client. It does without what the client would do about a clock that is minutes off (those
//! of Lambda are not), and does not close a connection on which a 5xx came.

use std::fmt;

use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_sdk_dynamodb::config::endpoint::{
    DefaultResolver, InvalidParams, Params, ResolveEndpoint as _,
};
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::SdkError;
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_runtime::client::identity::IdentityCache;
use aws_smithy_runtime::client::orchestrator::invoke;
use aws_smithy_runtime::client::retries::strategy::NeverRetryStrategy;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::auth::{
    AuthSchemeOptionResolverParams, SharedAuthScheme, SharedAuthSchemeOptionResolver,
};
use aws_smithy_runtime_api::client::endpoint::{
    EndpointFuture, EndpointResolverParams, ResolveEndpoint, SharedEndpointResolver,
};
use aws_smithy_runtime_api::client::identity::SharedIdentityResolver;
use aws_smithy_runtime_api::client::interceptors::context::{Error, Input, Output};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, OrchestratorError};
use aws_smithy_runtime_api::client::retries::SharedRetryStrategy;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::{RuntimePlugins, StaticRuntimePlugin};
use aws_smithy_runtime_api::client::ser_de::{
    DeserializeResponse, SerializeRequest, SharedRequestSerializer, SharedResponseDeserializer,
};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::{ConfigBag, Layer};
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_types::timeout::TimeoutConfig;
use aws_types::region::SigningRegion;
use aws_types::{SdkConfig, SigningName};
use serde::{Deserialize, Serialize};

use super::errors::{DYNAMODB, port_error};
use crate::ports::PortError;

/// The version of DynamoDB's API, as requests name it.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html> (2026-11).
const API: &str = "DynamoDB_20120810";
/// Whom requests say they are from.
const USER_AGENT: &str = concat!("unique-event-batch-aggregator/", env!("CARGO_PKG_VERSION"));

/// An operation of DynamoDB: a body goes there, a body comes back. One attempt a call, in the time that one may take.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    name: &'static str,
    plugins: RuntimePlugins,
}

impl Operation {
    /// The operation with this name, where and for whom `config` says.
    pub(super) fn new(config: &SdkConfig, name: &'static str) -> Operation {
        let mut layer = Layer::new(name);
        layer.store_put(SharedRequestSerializer::new(Post {
            target: format!("{API}.{name}"),
        }));
        layer.store_put(SharedResponseDeserializer::new(Answer));
        layer.store_put(
            config
                .timeout_config()
                .cloned()
                .unwrap_or_else(TimeoutConfig::disabled),
        );
        layer.store_put(EndpointResolverParams::new(()));
        layer.store_put(AuthSchemeOptionResolverParams::new(()));
        layer.store_put(SigV4OperationSigningConfig::default());
        layer.store_put(SigningName::from_static("dynamodb"));
        if let Some(region) = config.region() {
            layer.store_put(SigningRegion::from(region.clone()));
        }
        let schemes = StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID]);
        let mut components = RuntimeComponentsBuilder::new(name)
            .with_http_client(config.http_client())
            .with_sleep_impl(Some(TokioSleep::new()))
            .with_retry_strategy(Some(SharedRetryStrategy::new(NeverRetryStrategy::new())))
            .with_endpoint_resolver(Some(SharedEndpointResolver::new(Endpoints::new(config))))
            .with_auth_scheme_option_resolver(Some(SharedAuthSchemeOptionResolver::new(schemes)))
            .with_auth_scheme(SharedAuthScheme::new(SigV4AuthScheme::new()))
            // They are those of the process, and are not fetched.
            .with_identity_cache(Some(IdentityCache::no_cache()));
        if let Some(credentials) = config.credentials_provider() {
            components.set_identity_resolver(SCHEME_ID, SharedIdentityResolver::new(credentials));
        }
        let plugin = StaticRuntimePlugin::new()
            .with_config(layer.freeze())
            .with_runtime_components(components);
        Operation {
            name,
            plugins: RuntimePlugins::new().with_client_plugin(plugin),
        }
    }

    /// Sends `body` and answers the body of the answer. `what` names the call's object (a table, an index) in errors.
    ///
    /// # Errors
    /// As the service, or what is on the way to it, has them.
    pub(super) async fn call(&self, what: &str, body: Vec<u8>) -> Result<Vec<u8>, PortError> {
        let input = Input::erase(body);
        match invoke(DYNAMODB, self.name, input, &self.plugins).await {
            Ok(answer) => Ok(answer.downcast().expect("made below")),
            Err(error) => {
                let error: SdkError<ErrorMetadata, HttpResponse> =
                    error.map_service_error(|error| error.downcast().expect("made below"));
                Err(port_error(DYNAMODB, what, &error))
            }
        }
    }
}

/// Where DynamoDB is, as its client finds it.
#[derive(Debug)]
struct Endpoints {
    resolver: DefaultResolver,
    params: Result<Params, InvalidParams>,
}

impl Endpoints {
    fn new(config: &SdkConfig) -> Endpoints {
        let region = config.region().map(ToString::to_string);
        Endpoints {
            resolver: DefaultResolver::new(),
            params: Params::builder()
                .set_region(region)
                .set_use_fips(config.use_fips())
                .set_use_dual_stack(config.use_dual_stack())
                .set_endpoint(config.endpoint_url().map(str::to_owned))
                .build(),
        }
    }
}

impl ResolveEndpoint for Endpoints {
    fn resolve_endpoint<'a>(&'a self, _: &'a EndpointResolverParams) -> EndpointFuture<'a> {
        match &self.params {
            Ok(params) => self.resolver.resolve_endpoint(params),
            Err(error) => EndpointFuture::ready(Err(error.to_string().into())),
        }
    }
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

/// Requests of an operation.
#[derive(Debug)]
struct Post {
    /// What is asked for, with the version of the API.
    target: String,
}

impl SerializeRequest for Post {
    fn serialize_input(&self, input: Input, _: &mut ConfigBag) -> Result<HttpRequest, BoxError> {
        let body: Vec<u8> = input.downcast().map_err(|_| "the input is no body")?;
        let mut request = HttpRequest::new(SdkBody::from(body));
        request.set_method("POST")?;
        let headers = request.headers_mut();
        headers.insert("content-type", "application/x-amz-json-1.0");
        headers.insert("user-agent", USER_AGENT);
        headers.insert("x-amz-target", self.target.clone());
        Ok(request)
    }
}

/// Answers of an operation: their bodies, or a failure's code and words.
#[derive(Debug)]
struct Answer;

impl DeserializeResponse for Answer {
    fn deserialize_nonstreaming_with_config(
        &self,
        response: &HttpResponse,
        _: &ConfigBag,
    ) -> Result<Output, OrchestratorError<Error>> {
        let body = response.body().bytes().unwrap_or_default();
        if response.status().is_success() {
            return Ok(Output::erase(body.to_vec()));
        }
        let header = response.headers().get("x-amzn-errortype");
        let error = Error::erase(error_metadata(header, body));
        Err(OrchestratorError::operation(error))
    }
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
    use aws_types::region::Region;
    use futures::FutureExt;

    use super::*;

    fn endpoint(config: aws_types::sdk_config::Builder) -> Result<String, BoxError> {
        let endpoints = Endpoints::new(&config.build());
        let params = EndpointResolverParams::new(());
        let found = endpoints.resolve_endpoint(&params).now_or_never();
        Ok(found.expect("nothing is waited for")?.url().to_owned())
    }

    #[test]
    fn dynamodb_is_where_its_client_would_find_it() {
        let of = |region| SdkConfig::builder().region(Region::from_static(region));
        let cases = [
            (of("eu-west-1"), "https://dynamodb.eu-west-1.amazonaws.com"),
            (
                of("cn-north-1"),
                "https://dynamodb.cn-north-1.amazonaws.com.cn",
            ),
            (
                of("us-east-2").use_fips(true),
                "https://dynamodb-fips.us-east-2.amazonaws.com",
            ),
            (
                of("eu-west-1").use_dual_stack(true),
                "https://dynamodb.eu-west-1.api.aws",
            ),
            (
                of("eu-west-1").endpoint_url("http://[::1]:1"),
                "http://[::1]:1",
            ),
        ];
        for (config, url) in cases {
            assert_eq!(endpoint(config).unwrap(), url);
        }
    }

    #[test]
    fn a_region_that_is_missing_or_none_is_said() {
        let of = |region| SdkConfig::builder().region(Region::from_static(region));
        for (config, word) in [
            (SdkConfig::builder(), "Region"),
            (of("no region"), "region"),
        ] {
            let error = endpoint(config).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
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
