//! The HTTP server: the AWS JSON 1.0 protocol, with one path for all requests and the operation in the header `X-Amz-Target`.
//!
//! Signatures are not verified.
//! Source: <https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html>, and for the `x-amzn-query-error` header
//! <https://smithy.io/2.0/aws/protocols/aws-query-protocol.html#awsquerycompatible-trait>.

use std::future::Future;
use std::io;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::serve::ListenerExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio::sync::watch;
use uuid::Uuid;

use super::engine::Sqs;
use super::error::SqsError;
use super::limits;
use super::operations::Operations;
use super::wire::ReceivedMessages;

const TARGET: &str = "x-amz-target";
const TARGET_PREFIX: &str = "AmazonSQS.";
const QUERY_ERROR: &str = "x-amzn-query-error";
const REQUEST_ID: &str = "x-amzn-requestid";
/// Header with which an instrumented client passes on its X-Ray trace.
const TRACE_ID: &str = "x-amzn-trace-id";
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");

#[derive(Clone)]
struct Server {
    operations: Operations,
    /// Becomes `true` when the server shuts down.
    closing: watch::Receiver<bool>,
}

impl Sqs {
    /// Serves the queues over HTTP until `shutdown` resolves. Long polls then return without messages, and other requests are
    /// completed.
    ///
    /// Queue URLs are `http://<address of the listener>/000000000000/<name>`. The queues stay usable after the
    /// shutdown, and several servers may serve one set of queues.
    ///
    /// # Errors
    /// The listener failed.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let url_prefix = format!("http://{}/{}/", listener.local_addr()?, limits::ACCOUNT);
        let (close, closing) = watch::channel(false);
        let server = Server {
            operations: Operations {
                sqs: self,
                url_prefix,
            },
            closing,
        };
        let app = axum::Router::new()
            .fallback(respond)
            .layer(DefaultBodyLimit::max(limits::REQUEST_BYTES_MAX))
            .with_state(server);
        // Fails if the client has closed the connection already; reading from it then fails too.
        let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
        let shutdown = async move {
            shutdown.await;
            close.send_replace(true);
        };
        axum::serve(listener, app)
            .with_graceful_shutdown(shutdown)
            .await
    }
}

async fn respond(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let target = headers.get(TARGET).and_then(|target| target.to_str().ok());
    let result = match target.and_then(|target| target.strip_prefix(TARGET_PREFIX)) {
        Some(operation) => {
            let trace_header = headers.get(TRACE_ID).and_then(|value| value.to_str().ok());
            server.dispatch(operation, &body, trace_header).await
        }
        None => Err(SqsError::NotImplemented {
            what: format!(
                "request with `{TARGET}: {}`, only `{TARGET_PREFIX}*` is served",
                target.unwrap_or_default()
            ),
        }),
    };
    let (status, body, query_error) = match result {
        Ok(body) => (StatusCode::OK, body, None),
        Err(error) => {
            tracing::debug!(operation = target, %error, "request refused");
            let code = error.wire_code();
            let body = serde_json::json!({ "__type": code.shape, "message": error.to_string() });
            let status = StatusCode::from_u16(code.status).unwrap_or(StatusCode::BAD_REQUEST);
            let query_error = format!("{};Sender", code.query);
            (status, body.to_string().into_bytes(), Some(query_error))
        }
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, CONTENT_TYPE);
    insert_text(headers, REQUEST_ID, &Uuid::now_v7().to_string());
    if let Some(query_error) = query_error {
        insert_text(headers, QUERY_ERROR, &query_error);
    }
    response
}

impl Server {
    async fn dispatch(
        &self,
        operation: &str,
        body: &[u8],
        trace_header: Option<&str>,
    ) -> Result<Vec<u8>, SqsError> {
        let on = &self.operations;
        match operation {
            "CreateQueue" => call(body, |request| on.create_queue(request)),
            "GetQueueUrl" => call(body, |request| on.get_queue_url(request)),
            "GetQueueAttributes" => call(body, |request| on.get_queue_attributes(request)),
            "SetQueueAttributes" => call(body, |request| on.set_queue_attributes(request)),
            "ListQueues" => call(body, |request| on.list_queues(request)),
            "DeleteQueue" => call(body, |request| on.delete_queue(request)),
            "PurgeQueue" => call(body, |request| on.purge_queue(request)),
            "SendMessage" => call(body, |request| on.send_message(request, trace_header)),
            "SendMessageBatch" => call(body, |request| on.send_message_batch(request)),
            "ReceiveMessage" => {
                let mut closing = self.closing.clone();
                let received = tokio::select! {
                    // Checked first: a receive that is ready has put messages in flight, so they must be returned.
                    biased;
                    received = on.receive_message(parse(body)?) => received?,
                    _ = closing.wait_for(|closing| *closing) => ReceivedMessages { messages: Vec::new() },
                };
                Ok(write(&received))
            }
            "DeleteMessage" => call(body, |request| on.delete_message(request)),
            "DeleteMessageBatch" => call(body, |request| on.delete_message_batch(request)),
            "ChangeMessageVisibility" => {
                call(body, |request| on.change_message_visibility(request))
            }
            "ChangeMessageVisibilityBatch" => {
                call(body, |request| on.change_message_visibility_batch(request))
            }
            "StartMessageMoveTask" => call(body, |request| on.start_message_move_task(request)),
            "CancelMessageMoveTask" => call(body, |request| on.cancel_message_move_task(request)),
            "ListMessageMoveTasks" => call(body, |request| on.list_message_move_tasks(request)),
            "ListDeadLetterSourceQueues" => {
                call(body, |request| on.list_dead_letter_source_queues(request))
            }
            _ => Err(SqsError::NotImplemented {
                what: format!("operation `{operation}`"),
            }),
        }
    }
}

fn call<Request: DeserializeOwned, Reply: Serialize>(
    body: &[u8],
    operation: impl FnOnce(Request) -> Result<Reply, SqsError>,
) -> Result<Vec<u8>, SqsError> {
    operation(parse(body)?).map(|reply| write(&reply))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, SqsError> {
    serde_json::from_slice(body).map_err(|error| SqsError::Malformed {
        reason: error.to_string(),
    })
}

fn write(reply: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(reply).expect("responses are structs of strings, which always serialize")
}

fn insert_text(headers: &mut HeaderMap, name: &'static str, text: &str) {
    headers.insert(
        name,
        HeaderValue::from_str(text).expect("ids and codes are printable ASCII"),
    );
}
