//! Takes spans by OTLP over HTTP, as a collector does, and writes them to a file.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use loadgen::{TraceLog, TracedRequest};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;

use super::producer;
use crate::locked::locked;
use crate::receiver::Receiver;

/// Requests of the burst that are written in one line.
const REQUESTS_IN_LINE: usize = 256;

/// A running collector. Dropping it stops it.
#[derive(Debug)]
pub struct Collector {
    receiver: Receiver,
    spans: Arc<SpanFile>,
}

/// The file, and the requests of the burst that are not in it yet.
#[derive(Debug)]
struct SpanFile {
    file: Mutex<File>,
    /// The name of the queue that the burst is sent to.
    queue: &'static str,
    requests: Mutex<Vec<TracedRequest>>,
}

impl Collector {
    /// Starts a collector on a free loopback port. It replaces the file. `queue` is the name of the queue that the burst is sent
    /// to.
    pub async fn start(path: &Path, queue: &'static str) -> anyhow::Result<Collector> {
        let file = File::create(path).with_context(|| format!("`--traces {}`", path.display()))?;
        let spans = Arc::new(SpanFile {
            file: Mutex::new(file),
            queue,
            requests: Mutex::default(),
        });
        let app = Router::new()
            .route("/v1/traces", post(receive))
            .with_state(Arc::clone(&spans));
        let receiver = Receiver::serve(app).await?;
        Ok(Collector { receiver, spans })
    }

    /// Returns the value of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        self.receiver.endpoint()
    }

    /// Returns what writes the spans of a burst to the file.
    pub fn log(&self) -> TraceLog {
        let spans = Arc::clone(&self.spans);
        TraceLog(Arc::new(move |request| {
            let mut requests = locked(&spans.requests);
            requests.push(request);
            if requests.len() >= REQUESTS_IN_LINE {
                spans.write_requests(&mut requests);
            }
        }))
    }

    /// Writes the last spans of a burst.
    pub fn end_burst(&self) {
        self.spans.write_requests(&mut locked(&self.spans.requests));
    }
}

impl SpanFile {
    fn write(&self, spans: &ExportTraceServiceRequest) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(spans)?;
        line.push(b'\n');
        Ok(locked(&self.file).write_all(&line)?)
    }

    fn write_requests(&self, requests: &mut Vec<TracedRequest>) {
        if requests.is_empty() {
            return;
        }
        if let Err(error) = self.write(&producer::spans(self.queue, requests)) {
            eprintln!("spans not written: {error:#}");
        }
        requests.clear();
    }
}

/// Takes an export.
/// Source: <https://opentelemetry.io/docs/specs/otlp/#otlphttp> (2026-11).
async fn receive(
    State(spans): State<Arc<SpanFile>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let content_type = headers.get(header::CONTENT_TYPE);
    let read = match content_type.and_then(|value| value.to_str().ok()) {
        Some("application/x-protobuf") => {
            ExportTraceServiceRequest::decode(body).map_err(anyhow::Error::from)
        }
        Some("application/json") => serde_json::from_slice(&body).map_err(anyhow::Error::from),
        _ => return (StatusCode::UNSUPPORTED_MEDIA_TYPE, String::new()),
    };
    let request = match read {
        Ok(request) => request,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()),
    };
    match spans.write(&request) {
        // An empty response is one without fields.
        Ok(()) => (StatusCode::OK, String::new()),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")),
    }
}
