//! Legacy systems behind AWS services, as good ones would be: a function and a state machine that are called with parts.
//! Content under a key is kept once; the same again changes nothing, and another is refused.
//!
//! What is kept are files, `<directory>/<key>.<ext>`, whether the content came in the call or was pointed at.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::faults::Delivery;
use crate::receiver::{Keeping, Kept, Receiver};

/// What `SINK` says for the function.
pub const FUNCTION: &str = "arn:aws:lambda:us-east-1:000000000000:function:legacy";
/// What `SINK` says for the state machine.
pub const STATE_MACHINE: &str = "arn:aws:states:us-east-1:000000000000:stateMachine:legacy";

/// A part, as the sinks send it.
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

/// `StartExecution`, as far as it matters.
#[derive(Deserialize)]
struct StartExecution {
    name: String,
    input: String,
}

/// What is kept, and where objects are that payloads point at.
struct Called {
    kept: Arc<Kept>,
    objects: PathBuf,
}

/// What became of a part.
enum Taken {
    Kept(Keeping),
    NotNow,
}

impl Receiver {
    /// Starts both on a loopback port of their own; `objects` holds the buckets that payloads point into.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub async fn start_services(kept: Kept, objects: PathBuf) -> anyhow::Result<Receiver> {
        let called = Called {
            kept: Arc::new(kept),
            objects,
        };
        let app = Router::new()
            .route("/2015-03-31/functions/{function}/invocations", post(invoke))
            .route("/", post(start_execution))
            .layer(DefaultBodyLimit::max(emulators::OBJECT_BYTES_MAX))
            .with_state(Arc::new(called));
        Receiver::serve(app).await
    }
}

/// Source: <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html> (2026-11).
async fn invoke(State(called): State<Arc<Called>>, body: Bytes) -> Response {
    match called.take(&body).await {
        Ok(Taken::Kept(Keeping::New | Keeping::Again)) => (StatusCode::OK, "null").into_response(),
        Ok(Taken::Kept(Keeping::Other)) => {
            let refusal = json!({ "refused": "other content was kept under this key" });
            (StatusCode::OK, refusal.to_string()).into_response()
        }
        Ok(Taken::NotNow) => {
            let mut headers = HeaderMap::new();
            headers.insert(
                "x-amzn-errortype",
                axum::http::HeaderValue::from_static("ServiceException"),
            );
            (StatusCode::SERVICE_UNAVAILABLE, headers, "{}").into_response()
        }
        Err(error) => failed(&error),
    }
}

/// Source: <https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html> (2026-11).
async fn start_execution(State(called): State<Arc<Called>>, body: Bytes) -> Response {
    let start: StartExecution = match serde_json::from_slice(&body) {
        Ok(start) => start,
        Err(error) => return failed(&error.into()),
    };
    let error = |status, kind: &str| {
        let body = json!({ "__type": kind, "message": "by the stand-in" });
        (status, body.to_string()).into_response()
    };
    match called.take(start.input.as_bytes()).await {
        Ok(Taken::Kept(Keeping::New)) => {
            let arn =
                format!("{STATE_MACHINE}:{}", start.name).replace("stateMachine", "execution");
            let body = json!({ "executionArn": arn, "startDate": 1_700_000_000 });
            (StatusCode::OK, body.to_string()).into_response()
        }
        Ok(Taken::Kept(Keeping::Again)) => error(StatusCode::BAD_REQUEST, "ExecutionAlreadyExists"),
        // The service would not tell; the run shall not pass.
        Ok(Taken::Kept(Keeping::Other)) => error(StatusCode::BAD_REQUEST, "InvalidExecutionInput"),
        Ok(Taken::NotNow) => error(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> Response {
    (StatusCode::BAD_REQUEST, format!("{error:#}")).into_response()
}

impl Called {
    async fn take(&self, body: &[u8]) -> anyhow::Result<Taken> {
        let payload: Payload<'_> = serde_json::from_slice(body).context("no payload of a part")?;
        self.kept.deliveries.attempted(&payload.key, body);
        let delivery = self.kept.errors.next();
        if delivery == Delivery::FailsBefore {
            return Ok(Taken::NotNow);
        }
        let content = self.content(&payload)?;
        let extension = match (payload.format.as_str(), payload.compression.as_str()) {
            ("envelope", "none") => "jsonl",
            ("envelope", "gzip") => "jsonl.gz",
            ("envelope", "zstd") => "jsonl.zst",
            ("csv", "none") => "csv",
            (_, _) => "txt",
        };
        let kept = Arc::clone(&self.kept);
        let keeping =
            tokio::task::spawn_blocking(move || kept.keep(&payload.key, extension, &content));
        let keeping = keeping.await??;
        Ok(match delivery {
            Delivery::FailsAfter => Taken::NotNow,
            Delivery::Answered | Delivery::FailsBefore => Taken::Kept(keeping),
        })
    }

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
            _ => anyhow::bail!("a payload has one of `items`, `content` and `object`"),
        }
    }
}
