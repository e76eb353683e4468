//! Bodies that are written and read here, while the SDK does the rest of a call: endpoint, credentials, signature, timeouts,
//! transport, and every error on that way.
//!
//! The SDK keeps an item as a map of owned names to owned values, in both directions; at 25 or 100 items a request that was a
//! third of what a message cost. Here an item's texts are borrowed from the candidate or from the answer.
//!
//! It hooks in where the SDK lets interceptors look at its configuration: before serialisation. The operation's serialiser is
//! wrapped, and still makes the headers; its deserialiser is replaced.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeSerializationInterceptorContextMut, Error, Input, Output,
};
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::client::ser_de::{
    DeserializeResponse, SerializeRequest, SharedRequestSerializer, SharedResponseDeserializer,
};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use aws_smithy_types::error::ErrorMetadata;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::errors::DYNAMODB;
use crate::ports::PortError;

/// The body of the answer to one call, once the call has succeeded.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer(Arc<Mutex<Vec<u8>>>);

impl Answer {
    /// The body, as it came.
    pub(super) fn take(self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// For one call: sends `request` as its body, if there is one, and keeps the body of its answer.
#[derive(Debug)]
pub(super) struct Bodies {
    request: Option<Bytes>,
    answer: Answer,
    ends: Ends,
}

/// What the SDK is told of an answer, in the operation's own types.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// A success, with nothing in it.
    pub(super) output: fn() -> Output,
    /// A failure.
    pub(super) error: fn(ErrorMetadata) -> Error,
}

impl Bodies {
    /// Keeps the answer's body.
    pub(super) fn answer(answer: &Answer, ends: Ends) -> Bodies {
        Bodies {
            request: None,
            answer: answer.clone(),
            ends,
        }
    }

    /// Sends this instead of what the operation's input says, too.
    pub(super) fn with_request(mut self, body: Vec<u8>) -> Bodies {
        self.request = Some(body.into());
        self
    }
}

#[dyn_dispatch_hint]
impl Intercept for Bodies {
    fn name(&self) -> &'static str {
        "Bodies"
    }

    fn modify_before_serialization(
        &self,
        _context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(body) = &self.request {
            let inner = config
                .load::<SharedRequestSerializer>()
                .ok_or("the operation has no serializer")?
                .clone();
            let body = body.clone();
            config
                .interceptor_state()
                .store_put(SharedRequestSerializer::new(OwnRequest { inner, body }));
        }
        config
            .interceptor_state()
            .store_put(SharedResponseDeserializer::new(OwnAnswer {
                answer: self.answer.clone(),
                ends: self.ends,
            }));
        Ok(())
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

#[derive(Debug)]
struct OwnRequest {
    inner: SharedRequestSerializer,
    body: Bytes,
}

impl SerializeRequest for OwnRequest {
    fn serialize_input(
        &self,
        input: Input,
        config: &mut ConfigBag,
    ) -> Result<HttpRequest, BoxError> {
        let mut request = self.inner.serialize_input(input, config)?;
        request
            .headers_mut()
            .insert("content-length", self.body.len().to_string());
        *request.body_mut() = SdkBody::from(self.body.clone());
        Ok(request)
    }
}

#[derive(Debug)]
struct OwnAnswer {
    answer: Answer,
    ends: Ends,
}

impl DeserializeResponse for OwnAnswer {
    fn deserialize_nonstreaming_with_config(
        &self,
        response: &HttpResponse,
        _config: &ConfigBag,
    ) -> Result<Output, OrchestratorError<Error>> {
        let body = response.body().bytes().unwrap_or_default();
        if response.status().is_success() {
            let mut answer = self.answer.0.lock().unwrap_or_else(PoisonError::into_inner);
            *answer = body.to_vec();
            return Ok((self.ends.output)());
        }
        let header = response.headers().get("x-amzn-errortype");
        let error = (self.ends.error)(error_metadata(header, body));
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
    use super::*;

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
