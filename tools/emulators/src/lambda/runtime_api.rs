//! The Runtime API of one environment, and the part of the Extensions API that a graceful shutdown needs.
//!
//! Each environment has its own listener, which identifies the environment of a request. This file has paths, headers and
//! status codes; [`RuntimeState`] makes the decisions.
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use serde_json::json;

use super::ids::{function_arn, random_id, trace_id};
use super::invocation::InvokeResponse;
use super::limits::RESPONSE_BYTES_MAX;
use super::runtime_state::{Diagnostic, Init, NotRunning, RuntimeState};

pub(super) fn router(runtime: Arc<RuntimeState>) -> Router {
    Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route(
            "/2018-06-01/runtime/invocation/{request_id}/response",
            post(response),
        )
        .route(
            "/2018-06-01/runtime/invocation/{request_id}/error",
            post(error),
        )
        .route("/2018-06-01/runtime/init/error", post(init_error))
        .route("/2020-01-01/extension/register", post(extension_register))
        .route("/2020-01-01/extension/event/next", get(extension_next))
        .fallback(not_implemented)
        .method_not_allowed_fallback(not_implemented)
        .with_state(runtime)
}

/// Why a request is refused. The status codes are those of AWS.
enum Refusal {
    UnknownId,
    Ended,
    TooLarge,
    Broken,
}

impl From<NotRunning> for Refusal {
    fn from(reason: NotRunning) -> Refusal {
        match reason {
            NotRunning::Unknown => Refusal::UnknownId,
            NotRunning::Ended => Refusal::Ended,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, error_type) = match self {
            Refusal::UnknownId => (StatusCode::BAD_REQUEST, "InvalidRequestID"),
            Refusal::Ended => (StatusCode::FORBIDDEN, "InvalidStateTransition"),
            Refusal::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Refusal::Broken => (StatusCode::BAD_REQUEST, "BodyReadError"),
        };
        let message = match self {
            Refusal::UnknownId => "Invalid request ID",
            Refusal::Ended => "The invocation has ended",
            Refusal::TooLarge => "Exceeded maximum allowed payload size",
            Refusal::Broken => "The body ended early",
        };
        error_response(status, error_type, message)
    }
}

async fn next(State(runtime): State<Arc<RuntimeState>>) -> Response {
    let invocation = runtime.next().await;
    let deadline_ms = invocation.deadline_ms.to_string();
    let arn = function_arn(runtime.function_name());
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("lambda-runtime-deadline-ms", deadline_ms),
        ("lambda-runtime-invoked-function-arn", arn),
        ("lambda-runtime-trace-id", trace_id()),
        ("lambda-runtime-aws-request-id", invocation.request_id),
    ];
    (headers, invocation.payload).into_response()
}

async fn response(
    State(runtime): State<Arc<RuntimeState>>,
    Path(request_id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    match read(request).await {
        Ok(body) => runtime.respond(&request_id, InvokeResponse::Ok(body))?,
        Err(Refusal::TooLarge) => {
            let failed = InvokeResponse::FunctionError {
                error_type: "Function.ResponseSizeTooLarge".to_owned(),
                message: format!(
                    "Response payload size exceeded maximum allowed payload size ({RESPONSE_BYTES_MAX} bytes)."
                ),
            };
            runtime.respond(&request_id, failed)?;
            return Err(Refusal::TooLarge);
        }
        Err(refusal) => return Err(refusal),
    }
    Ok(accepted())
}

async fn error(
    State(runtime): State<Arc<RuntimeState>>,
    Path(request_id): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Refusal> {
    let diagnostic = diagnostic(&headers, &read(request).await?);
    let failed = InvokeResponse::FunctionError {
        error_type: diagnostic.error_type,
        message: diagnostic.error_message,
    };
    runtime.respond(&request_id, failed)?;
    Ok(accepted())
}

async fn init_error(
    State(runtime): State<Arc<RuntimeState>>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Refusal> {
    let body = read(request).await?;
    runtime.init_ended(Init::Failed(diagnostic(&headers, &body)));
    Ok(accepted())
}

async fn extension_register(
    State(runtime): State<Arc<RuntimeState>>,
    headers: HeaderMap,
) -> Response {
    if !headers.contains_key("lambda-extension-name") {
        let error_type = "Extension.InvalidExtensionName";
        let message = "Lambda-Extension-Name is missing";
        return error_response(StatusCode::BAD_REQUEST, error_type, message);
    }
    runtime.register_extension();
    let body = json!({"functionName": runtime.function_name(), "functionVersion": "$LATEST", "handler": "bootstrap"});
    let id = [("lambda-extension-identifier", random_id())];
    (id, json_response(StatusCode::OK, &body)).into_response()
}

/// Never returns: this host sends extensions no `INVOKE` and no `SHUTDOWN` events. An extension that must act at shutdown
/// handles SIGTERM, as `lambda_runtime` does.
async fn extension_next() -> Response {
    std::future::pending().await
}

async fn not_implemented(
    State(runtime): State<Arc<RuntimeState>>,
    method: Method,
    uri: Uri,
) -> Response {
    tracing::error!(function = runtime.function_name(), %method, %uri, "runtime api operation is not implemented");
    let message = format!("`{method} {uri}` is not implemented by this Lambda host");
    error_response(StatusCode::NOT_FOUND, "NotImplemented", &message)
}

/// Reads a whole body. A body over the limit is read to its end as well, because a client that is still writing would see a
/// broken connection in place of the error.
async fn read(request: Request) -> Result<Bytes, Refusal> {
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
    let mut stream = request.into_body().into_data_stream();
    let mut body = BytesMut::with_capacity(announced.unwrap_or(0).min(RESPONSE_BYTES_MAX));
    let mut size_bytes = 0;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| Refusal::Broken)?;
        size_bytes += chunk.len();
        if size_bytes <= RESPONSE_BYTES_MAX {
            body.extend_from_slice(&chunk);
        }
    }
    match size_bytes > RESPONSE_BYTES_MAX {
        true => Err(Refusal::TooLarge),
        false => Ok(body.freeze()),
    }
}

/// Returns the error in the body. If the body is not JSON, the type comes from the header and the message is the body.
fn diagnostic(headers: &HeaderMap, body: &[u8]) -> Diagnostic {
    let named = headers.get("lambda-runtime-function-error-type");
    let named = named.and_then(|name| name.to_str().ok());
    let mut diagnostic: Diagnostic = serde_json::from_slice(body)
        .unwrap_or_else(|_| Diagnostic::new("", String::from_utf8_lossy(body).into_owned()));
    if diagnostic.error_type.is_empty() {
        diagnostic.error_type = named.unwrap_or("Runtime.Unknown").to_owned();
    }
    diagnostic
}

fn accepted() -> Response {
    json_response(StatusCode::ACCEPTED, &json!({"status": "OK"}))
}

fn error_response(status: StatusCode, error_type: &str, message: &str) -> Response {
    let body = json!({"errorType": error_type, "errorMessage": message});
    json_response(status, &body)
}

fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (status, json, body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::super::runtime_state::InvocationOutcome;
    use super::super::runtime_state::tests::invocation;
    use super::*;

    #[tokio::test]
    async fn next_returns_an_invocation_and_response_ends_it() {
        let server = Server::start().await;
        let outcome = server.runtime.submit(invocation("id-1", b"{\"n\":1}"));
        let next = server.call("GET", "invocation/next", b"").await;
        let parts = [
            "lambda-runtime-aws-request-id: id-1\r\n",
            "lambda-runtime-deadline-ms: 1700000000000\r\n",
            "arn:aws:lambda:us-east-1:000000000000:function:echo\r\n",
            "lambda-runtime-trace-id: Root=1-",
        ];
        assert_reply(&next, 200, &parts);
        assert!(next.ends_with("\r\n\r\n{\"n\":1}"), "{next}");
        assert_eq!(*server.runtime.init().borrow(), Init::Ready);

        let reply = server.post("invocation/id-1/response", b"done").await;
        assert_reply(&reply, 202, &[]);
        match outcome.await {
            Ok(InvocationOutcome::Responded(InvokeResponse::Ok(body))) => {
                assert_eq!(&*body, b"done")
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn an_unknown_request_id_is_400_and_an_ended_one_is_403() {
        let server = Server::start().await;
        let _outcome = server.runtime.submit(invocation("id-1", b"{}"));
        server.runtime.expire("id-1");
        for operation in ["response", "error"] {
            for (id, status, error) in [
                ("id-2", 400, "InvalidRequestID"),
                ("id-1", 403, "InvalidStateTransition"),
            ] {
                let path = format!("invocation/{id}/{operation}");
                assert_reply(&server.post(&path, b"{}").await, status, &[error]);
            }
        }
    }

    #[tokio::test]
    async fn a_response_over_the_limit_is_413_and_fails_the_invocation() {
        let server = Server::start().await;
        for (size_bytes, status) in [(RESPONSE_BYTES_MAX, 202), (RESPONSE_BYTES_MAX + 1, 413)] {
            let outcome = server.runtime.submit(invocation("id", b"{}"));
            let body = vec![b'1'; size_bytes];
            let reply = server.post("invocation/id/response", &body).await;
            assert_reply(&reply, status, &[]);
            match outcome.await.unwrap() {
                InvocationOutcome::Responded(InvokeResponse::Ok(body)) => {
                    assert_eq!((body.len(), status), (size_bytes, 202))
                }
                InvocationOutcome::Responded(InvokeResponse::FunctionError {
                    error_type, ..
                }) => {
                    let expected = ("Function.ResponseSizeTooLarge", 413);
                    assert_eq!((&*error_type, status), expected);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn an_error_is_read_from_the_body_or_else_from_the_header() {
        let name = "lambda-runtime-function-error-type".parse().unwrap();
        let named = HeaderMap::from_iter([(name, "Named".parse().unwrap())]);
        let full = r#"{"errorType":"Mine","errorMessage":"broke","stackTrace":[]}"#;
        for (headers, body, error_type, message) in [
            (&named, full, "Mine", "broke"),
            (&named, "oops", "Named", "oops"),
            (&HeaderMap::new(), "oops", "Runtime.Unknown", "oops"),
        ] {
            let expected = Diagnostic::new(error_type, message);
            assert_eq!(diagnostic(headers, body.as_bytes()), expected);
        }
    }

    #[tokio::test]
    async fn an_init_error_fails_the_init_phase_once() {
        let server = Server::start().await;
        let body = br#"{"errorType":"Config","errorMessage":"no table"}"#;
        assert_reply(&server.post("init/error", body).await, 202, &[]);
        server.runtime.init_ended(Init::Ready);
        let failed = Init::Failed(Diagnostic::new("Config", "no table"));
        assert_eq!(*server.runtime.init().borrow(), failed);
    }

    #[tokio::test]
    async fn an_unsupported_operation_is_named_in_a_404() {
        let server = Server::start().await;
        let restore = server.call("GET", "restore/next", b"").await;
        let expected = "`GET /2018-06-01/runtime/restore/next` is not implemented";
        assert_reply(&restore, 404, &[expected]);
        let method = server.call("DELETE", "invocation/next", b"").await;
        assert_reply(&method, 404, &["`DELETE "]);
    }

    fn assert_reply(reply: &str, status: u16, texts: &[&str]) {
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{reply}");
        for text in texts {
            assert!(reply.contains(text), "{text}: {reply}");
        }
    }

    struct Server {
        runtime: Arc<RuntimeState>,
        address: std::net::SocketAddr,
    }

    impl Server {
        async fn start() -> Server {
            let runtime = RuntimeState::new("echo".into());
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(axum::serve(listener, router(runtime.clone())).into_future());
            Server { runtime, address }
        }

        async fn post(&self, path: &str, body: &[u8]) -> String {
            self.call("POST", path, body).await
        }

        async fn call(&self, method: &str, path: &str, body: &[u8]) -> String {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let length = body.len();
            let head = format!(
                "{method} /2018-06-01/runtime/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(body).await.unwrap();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).await.unwrap();
            reply
        }
    }
}
