//! Stands in for legacy systems behind AWS services: a function and a state machine that are called with parts. They store
//! the first content under a key, accept the same content again, and refuse other content.
//!
//! Content is stored as files `<directory>/<key>.<ext>`, whether it was in the call or in an object that the call names.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use emulators::StoreOutcome;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::receiver::{ContentStore, Receiver, Stored};

/// The ARN of the function, for `SINK`.
pub const FUNCTION: &str = "arn:aws:lambda:us-east-1:000000000000:function:legacy";
/// The ARN of the state machine, for `SINK`.
pub const STATE_MACHINE: &str = "arn:aws:states:us-east-1:000000000000:stateMachine:legacy";

/// The payload in which the sinks send a part.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'p> {
    key: String,
    format: String,
    compression: String,
    #[serde(borrow)]
    items: Option<Vec<&'p RawValue>>,
    content: Option<String>,
    object: Option<Object>,
}

#[derive(Deserialize)]
struct Object {
    bucket: String,
    key: String,
}

/// The fields of a `StartExecution` request that the stand-in reads.
#[derive(Deserialize)]
struct StartExecution {
    #[serde(default)]
    name: String,
    input: String,
}

/// The state of both stand-ins.
struct ServicesState {
    store: Arc<ContentStore>,
    /// The directory of the buckets in which payloads name objects.
    objects: PathBuf,
}

impl Receiver {
    /// Starts both stand-ins on one free loopback port. `objects` is the directory of the buckets in which payloads name
    /// objects.
    pub async fn start_services(store: ContentStore, objects: PathBuf) -> anyhow::Result<Receiver> {
        let state = ServicesState {
            store: Arc::new(store),
            objects,
        };
        let app = Router::new()
            .route("/2015-03-31/functions/{function}/invocations", post(invoke))
            .route("/", post(start_execution))
            .layer(DefaultBodyLimit::max(emulators::OBJECT_BYTES_MAX))
            .with_state(Arc::new(state));
        Receiver::serve(app).await
    }
}

/// Takes a part as the function.
/// Source: <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html> (2026-11).
async fn invoke(
    State(state): State<Arc<ServicesState>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let kind = headers.get("x-amz-invocation-type");
    if kind.is_some_and(|kind| kind == "DryRun") {
        return StatusCode::NO_CONTENT.into_response();
    }
    match state.receive(&body).await {
        Ok(Some(Stored::New | Stored::Same)) => (StatusCode::OK, "null").into_response(),
        Ok(Some(Stored::Conflict)) => {
            let refusal = json!({ "refused": "key: conflict: it has other content" });
            (StatusCode::OK, refusal.to_string()).into_response()
        }
        Ok(None) => {
            let kind = [("x-amzn-errortype", "ServiceException")];
            (StatusCode::SERVICE_UNAVAILABLE, kind, "{}").into_response()
        }
        Err(error) => failed(&error),
    }
}

/// Takes a part as the state machine.
/// Source: <https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html> (2026-11).
async fn start_execution(State(state): State<Arc<ServicesState>>, body: Bytes) -> Response {
    let start: StartExecution = match serde_json::from_slice(&body) {
        Ok(start) => start,
        Err(error) => return failed(&error.into()),
    };
    let error = |status, kind: &str| {
        let body = json!({ "__type": kind, "message": "by the stand-in" });
        (status, body.to_string()).into_response()
    };
    if start.input == "{" {
        return error(StatusCode::BAD_REQUEST, "InvalidExecutionInput");
    }
    match state.receive(start.input.as_bytes()).await {
        Ok(Some(Stored::New)) => {
            let arn =
                format!("{STATE_MACHINE}:{}", start.name).replace("stateMachine", "execution");
            let body = json!({ "executionArn": arn, "startDate": 1_700_000_000 });
            (StatusCode::OK, body.to_string()).into_response()
        }
        Ok(Some(Stored::Same)) => error(StatusCode::BAD_REQUEST, "ExecutionAlreadyExists"),
        // Step Functions would return `ExecutionAlreadyExists` here too, and the sink would take the part for delivered.
        // The stand-in returns another error, so that the run fails.
        Ok(Some(Stored::Conflict)) => error(StatusCode::BAD_REQUEST, "InvalidExecutionInput"),
        Ok(None) => error(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> Response {
    (StatusCode::BAD_REQUEST, format!("{error:#}")).into_response()
}

impl ServicesState {
    /// Stores the content of a payload, and records the attempt. Returns `None` if a fault makes the call fail.
    async fn receive(&self, body: &[u8]) -> anyhow::Result<Option<Stored>> {
        let payload: Payload<'_> =
            serde_json::from_slice(body).context("payload of a part: malformed")?;
        self.store.deliveries.attempted(&payload.key, body);
        let outcome = self.store.errors.next();
        if outcome == StoreOutcome::FailsBeforeStoring {
            return Ok(None);
        }
        let content = self.content(&payload)?;
        let extension = match (payload.format.as_str(), payload.compression.as_str()) {
            ("envelope", "none") => "jsonl",
            ("envelope", "gzip") => "jsonl.gz",
            ("envelope", "zstd") => "jsonl.zst",
            ("csv", "none") => "csv",
            (_, _) => "txt",
        };
        let store = Arc::clone(&self.store);
        let stored =
            tokio::task::spawn_blocking(move || store.store(&payload.key, extension, &content));
        let stored = stored.await??;
        Ok(match outcome {
            StoreOutcome::FailsAfterStoring => None,
            StoreOutcome::Normal | StoreOutcome::FailsBeforeStoring => Some(stored),
        })
    }

    /// Returns the content of a part: the items of the payload as lines, its text, or the object that it names.
    fn content(&self, payload: &Payload<'_>) -> anyhow::Result<Vec<u8>> {
        match (&payload.items, &payload.content, &payload.object) {
            (Some(items), None, None) => {
                let mut lines = Vec::new();
                for item in items {
                    lines.extend_from_slice(item.get().as_bytes());
                    lines.push(b'\n');
                }
                Ok(lines)
            }
            (None, Some(content), None) => Ok(content.clone().into_bytes()),
            (None, None, Some(Object { bucket, key })) => {
                let path = self.objects.join(bucket).join(key);
                std::fs::read(&path).with_context(|| format!("read {}", path.display()))
            }
            _ => anyhow::bail!(
                "payload: wrong content: got none or several of `items`, `content` and `object`, expected one of them"
            ),
        }
    }
}
