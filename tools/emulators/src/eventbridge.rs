//! An EventBridge server that takes events and keeps them. It has no rules and no targets: what was put on a bus can be read
//! by [`EventBridge::events`], or by a `GET` of the endpoint, one JSON object a line.
//!
//! The operation is PutEvents; every other operation gets the error `NotImplemented`. Signatures are not verified.
//! Source: <https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html> (2026-11).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::locked::locked;

const ENTRIES_MAX: usize = 10;
/// Maximum size of an entry, as EventBridge computes it: source, detail type, detail, and 14 bytes for the time.
/// Source: <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html> (2026-11).
const ENTRY_BYTES_MAX: usize = 262_144;
const TIME_BYTES: usize = 14;

/// An event that was put on a bus.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BusEvent {
    /// The name or ARN of the bus.
    pub event_bus_name: String,
    /// Who put the event there.
    pub source: String,
    /// The kind of event.
    pub detail_type: String,
    /// The content, as JSON.
    pub detail: String,
    /// When it happened, in seconds since 1970.
    pub time: Option<serde_json::Number>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PutEvents {
    entries: Vec<Value>,
}

#[derive(Default)]
struct Kept {
    events: Vec<BusEvent>,
    /// Error codes for the entries of the next requests, one a request.
    failures: VecDeque<String>,
}

/// A running EventBridge server. Dropping it stops it.
pub struct EventBridge {
    address: SocketAddr,
    kept: Arc<Mutex<Kept>>,
    /// The task that accepts connections; ends when it is dropped.
    _accepting: JoinSet<()>,
}

impl EventBridge {
    /// Starts a server on a free loopback port.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn start() -> anyhow::Result<EventBridge> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let kept = Arc::<Mutex<Kept>>::default();
        let app = Router::new()
            .route("/", get(list).post(put_events))
            .layer(DefaultBodyLimit::max(4 << 20))
            .with_state(Arc::clone(&kept));
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            // This ends only when the task is aborted.
            let _ = axum::serve(listener, app).await;
        });
        Ok(EventBridge {
            address,
            kept,
            _accepting: accepting,
        })
    }

    /// Returns the URL of the server, which clients use as their endpoint URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the events on all buses, in the order in which they came.
    pub fn events(&self) -> Vec<BusEvent> {
        locked(&self.kept).events.clone()
    }

    /// Lets every entry of the next request fail with this code, although the request itself succeeds.
    pub fn fail_next(&self, code: &str) {
        locked(&self.kept).failures.push_back(code.to_owned());
    }
}

async fn list(State(kept): State<Arc<Mutex<Kept>>>) -> String {
    let events = locked(&kept).events.clone().into_iter();
    let lines = events.filter_map(|event| serde_json::to_string(&event).ok());
    lines.map(|line| line + "\n").collect()
}

async fn put_events(
    State(kept): State<Arc<Mutex<Kept>>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let target = headers.get("x-amz-target").and_then(|t| t.to_str().ok());
    if target != Some("AWSEvents.PutEvents") {
        let text = format!("not implemented: got `{target:?}`, expected `AWSEvents.PutEvents`");
        return refused("NotImplemented", &text);
    }
    let request: PutEvents = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return refused("SerializationException", &error.to_string()),
    };
    if request.entries.is_empty() || request.entries.len() > ENTRIES_MAX {
        return refused("ValidationException", "Entries: 1 to 10 are allowed");
    }
    let mut kept = locked(&kept);
    let failure = kept.failures.pop_front();
    let mut failed_count = 0;
    let mut results = Vec::new();
    for entry in request.entries {
        let put = match &failure {
            Some(code) => Err((code.as_str(), "by the stand-in".to_owned())),
            None => checked(entry),
        };
        results.push(match put {
            Ok(event) => {
                kept.events.push(event);
                json!({ "EventId": uuid::Uuid::now_v7().to_string() })
            }
            Err((code, message)) => {
                failed_count += 1;
                json!({ "ErrorCode": code, "ErrorMessage": message })
            }
        });
    }
    let body = json!({ "FailedEntryCount": failed_count, "Entries": results });
    (StatusCode::OK, body.to_string()).into_response()
}

/// Returns the event of an entry, or the code and the message with which EventBridge refuses it.
fn checked(entry: Value) -> Result<BusEvent, (&'static str, String)> {
    let event: Result<BusEvent, _> = serde_json::from_value(entry);
    let event = event.map_err(|error| ("InvalidArgument", error.to_string()))?;
    if serde_json::from_str::<serde_json::Map<String, Value>>(&event.detail).is_err() {
        return Err(("MalformedDetail", "Detail is malformed".to_owned()));
    }
    let bytes = TIME_BYTES + event.source.len() + event.detail_type.len() + event.detail.len();
    if bytes > ENTRY_BYTES_MAX {
        let message = format!("the entry has {bytes} bytes, at most {ENTRY_BYTES_MAX} are allowed");
        return Err(("InvalidArgument", message));
    }
    Ok(event)
}

fn refused(code: &str, message: &str) -> Response {
    let body = json!({ "__type": code, "message": message });
    (StatusCode::BAD_REQUEST, body.to_string()).into_response()
}
