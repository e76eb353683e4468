//! A legacy system that takes batches by HTTP, as a good one would: the first body under an `Idempotency-Key` is kept, the
//! same again changes nothing, and another one is refused.
//!
//! Bodies are files `<directory>/<key>.<ext>`, as they came: the extension tells the type, and the encoding if there is
//! one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use axum::serve::ListenerExt;
use emulators::files::Files;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::deliveries::Deliveries;
use crate::faults::{Delivery, SinkErrors};

/// The header that says which delivery this is.
/// Source: <https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/> (2026-10).
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A running receiver; it ends when this is dropped.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Receiver {
    /// Starts one on a loopback port of its own. What it is sent is taken in by `deliveries`, and may fail.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub async fn start(
        directory: PathBuf,
        deliveries: Arc<Deliveries>,
        errors: Arc<SinkErrors>,
    ) -> anyhow::Result<Receiver> {
        let kept = Arc::new(Kept::new(directory, deliveries, errors));
        let app = Router::new()
            .route("/", post(take))
            .route("/{*path}", post(take))
            .layer(DefaultBodyLimit::max(emulators::OBJECT_BYTES_MAX))
            .with_state(kept);
        Receiver::serve(app).await
    }

    pub(crate) async fn serve(app: Router) -> anyhow::Result<Receiver> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        // A connection whose options cannot be set has been closed by its peer, and says so when it is read.
        let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
        let accepting = tokio::spawn(async move {
            // Accepting never ends by itself; the task is aborted.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Receiver { address, accepting })
    }

    /// Where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// What was kept so far.
#[derive(Debug)]
pub struct Kept {
    files: Files,
    hashes: Mutex<BTreeMap<String, blake3::Hash>>,
    pub(crate) deliveries: Arc<Deliveries>,
    pub(crate) errors: Arc<SinkErrors>,
}

/// What came of content under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// It is kept now.
    New,
    /// It was kept before.
    Again,
    /// Other content was kept before.
    Other,
}

type Answer = (StatusCode, String);

async fn take(State(kept): State<Arc<Kept>>, headers: HeaderMap, body: Bytes) -> Answer {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(key) = text(IDEMPOTENCY_KEY) else {
        return (StatusCode::BAD_REQUEST, format!("no `{IDEMPOTENCY_KEY}`"));
    };
    let extension = extension(
        text(header::CONTENT_TYPE.as_str()),
        text(header::CONTENT_ENCODING.as_str()),
    );
    if let Err(error) = kept.files.path(key) {
        return (StatusCode::BAD_REQUEST, error.to_string());
    }
    let unavailable = || (StatusCode::SERVICE_UNAVAILABLE, "try again".to_owned());
    kept.deliveries.attempted(key, &body);
    let delivery = kept.errors.next();
    if delivery == Delivery::FailsBefore {
        return unavailable();
    }
    let key = key.to_owned();
    let keeping = tokio::task::spawn_blocking(move || {
        let keeping = kept.keep(&key, &extension, &body);
        (key, keeping)
    });
    let answer = match keeping.await {
        Ok((_, Ok(Keeping::New))) => (StatusCode::CREATED, "kept".to_owned()),
        Ok((_, Ok(Keeping::Again))) => (StatusCode::OK, "kept before".to_owned()),
        Ok((key, Ok(Keeping::Other))) => {
            let words = format!("another body was kept under `{key}`");
            (StatusCode::CONFLICT, words)
        }
        Ok((_, Err(error))) => failed(error.as_ref()),
        Err(error) => failed(&error),
    };
    match delivery {
        Delivery::FailsAfter => unavailable(),
        Delivery::Answered | Delivery::FailsBefore => answer,
    }
}

impl Kept {
    /// Keeps content below `directory`; what comes is taken in by `deliveries`, and may fail.
    pub fn new(directory: PathBuf, deliveries: Arc<Deliveries>, errors: Arc<SinkErrors>) -> Kept {
        Kept {
            files: Files::new(directory),
            hashes: Mutex::default(),
            deliveries,
            errors,
        }
    }

    /// Keeps the first content under a key, as the file `<key>.<extension>`.
    pub(crate) fn keep(&self, key: &str, extension: &str, body: &[u8]) -> anyhow::Result<Keeping> {
        let hash = blake3::hash(body);
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = hashes.get(key) {
            return Ok(match *before == hash {
                true => Keeping::Again,
                false => Keeping::Other,
            });
        }
        let file = self.files.path(&format!("{key}.{extension}"))?;
        self.files.replace(&file, body)?;
        hashes.insert(key.to_owned(), hash);
        Ok(Keeping::New)
    }
}

fn failed(error: &dyn std::error::Error) -> Answer {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// What a body's file ends in.
fn extension(content_type: Option<&str>, content_encoding: Option<&str>) -> String {
    let content_type = content_type.unwrap_or_default();
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let of_type = match media {
        "text/csv" => "csv",
        "text/plain" => "txt",
        json if json.contains("json") => "jsonl",
        _ => "bin",
    };
    match content_encoding {
        None | Some("identity") => of_type.to_owned(),
        Some("gzip") => format!("{of_type}.gz"),
        Some("zstd") => format!("{of_type}.zst"),
        Some(other) => format!(
            "{of_type}.{}",
            other.replace(|c: char| !c.is_alphanumeric(), "-")
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::faults::{FaultOptions, Percent};

    fn kept(directory: &Path, error_rate: Percent) -> Arc<Kept> {
        let options = FaultOptions {
            sink_error_rate: error_rate,
            ..FaultOptions::default()
        };
        let errors = Arc::new(SinkErrors::new(&options));
        Arc::new(Kept::new(directory.to_owned(), Arc::default(), errors))
    }

    async fn post(kept: &Arc<Kept>, key: &str, body: &'static str) -> u16 {
        let headers = HeaderMap::from_iter([
            (
                header::CONTENT_TYPE,
                "application/x-ndjson".parse().unwrap(),
            ),
            (IDEMPOTENCY_KEY.parse().unwrap(), key.parse().unwrap()),
        ]);
        let answer = take(State(Arc::clone(kept)), headers, body.into()).await;
        answer.0.as_u16()
    }

    #[tokio::test]
    async fn the_first_body_under_a_key_is_kept_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let kept = kept(directory.path(), Percent::default());
        assert_eq!(post(&kept, "b/0", "first").await, 201);
        assert_eq!(post(&kept, "b/0", "first").await, 200);
        assert_eq!(post(&kept, "b/0", "other").await, 409);
        assert_eq!(post(&kept, "../b/0", "first").await, 400);
        let file = directory.path().join("b/0.jsonl");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "first");
        let report = kept.deliveries.report();
        assert_eq!((report.parts, report.attempts, report.differing), (1, 3, 1));
    }

    #[tokio::test]
    async fn a_body_without_a_key_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        let kept = kept(directory.path(), Percent::default());
        let answer = take(State(Arc::clone(&kept)), HeaderMap::new(), "x".into()).await;
        assert_eq!(answer.0, StatusCode::BAD_REQUEST);
        assert_eq!(kept.deliveries.report().attempts, 0);
    }

    #[tokio::test]
    async fn deliveries_fail_before_and_after_they_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let kept = kept(directory.path(), Percent::ALL);
        for part in 0..20 {
            assert_eq!(post(&kept, &format!("b/{part}"), "body").await, 503);
        }
        let there = std::fs::read_dir(directory.path().join("b"))
            .unwrap()
            .count();
        assert!((1..20).contains(&there), "{there}");
        assert_eq!(kept.deliveries.report().attempts, 20);
    }

    #[test]
    fn an_extension_tells_the_type_and_the_encoding() {
        for (content_type, encoding, expected) in [
            (Some("application/x-ndjson"), None, "jsonl"),
            (
                Some("application/json; charset=utf-8"),
                Some("gzip"),
                "jsonl.gz",
            ),
            (Some("text/csv"), Some("zstd"), "csv.zst"),
            (Some("text/plain;charset=utf-8"), Some("identity"), "txt"),
            (None, Some("../x"), "bin.---x"),
        ] {
            assert_eq!(extension(content_type, encoding), expected);
        }
    }
}
