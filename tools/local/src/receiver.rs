//! Stands in for a legacy system that takes batches by HTTP and honours the `Idempotency-Key`: it stores the first body
//! under a key, accepts the same body again, and refuses another one.
//!
//! Bodies are stored unchanged as files `<directory>/<key>.<ext>`. The extension tells the content type, and the encoding
//! if there is one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use axum::serve::ListenerExt;
use emulators::StoreOutcome;
use emulators::files::Files;
use loadgen::Deliveries;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::faults::SinkErrors;
use crate::locked::locked;

/// The header with the idempotency key.
/// Source: <https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/> (2026-10).
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A running receiver. Dropping it stops it.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Receiver {
    /// Starts a receiver on a free loopback port. It stores bodies below `directory`, and records every attempt in
    /// `deliveries`. `errors` decides which attempts fail.
    pub async fn start(
        directory: PathBuf,
        deliveries: Arc<Deliveries>,
        errors: Arc<SinkErrors>,
    ) -> anyhow::Result<Receiver> {
        let store = Arc::new(ContentStore::new(directory, deliveries, errors));
        let app = Router::new()
            .route("/", post(receive))
            .route("/{*path}", post(receive))
            .layer(DefaultBodyLimit::max(emulators::OBJECT_BYTES_MAX))
            .with_state(store);
        Receiver::serve(app).await
    }

    /// Serves `app` on a free loopback port.
    pub(crate) async fn serve(app: Router) -> anyhow::Result<Receiver> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        // Setting the option fails only if the peer has closed the connection, and then the next read fails too.
        let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
        let accepting = tokio::spawn(async move {
            // This ends only when the task is aborted.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Receiver { address, accepting })
    }

    /// Returns the URL of the receiver.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Stores the first content under each key, as a file.
#[derive(Debug)]
pub struct ContentStore {
    files: Files,
    hashes: Mutex<BTreeMap<String, blake3::Hash>>,
    pub(crate) deliveries: Arc<Deliveries>,
    pub(crate) errors: Arc<SinkErrors>,
}

/// The result of storing content under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The key was free. The content is stored now.
    New,
    /// The key has the same content already.
    Same,
    /// The key has other content, which stays.
    Conflict,
}

type HttpReply = (StatusCode, String);

async fn receive(
    State(store): State<Arc<ContentStore>>,
    headers: HeaderMap,
    body: Bytes,
) -> HttpReply {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(key) = text(IDEMPOTENCY_KEY) else {
        return (
            StatusCode::BAD_REQUEST,
            format!("header `{IDEMPOTENCY_KEY}`: missing"),
        );
    };
    let extension = extension(
        text(header::CONTENT_TYPE.as_str()),
        text(header::CONTENT_ENCODING.as_str()),
    );
    if let Err(error) = store.files.path(key) {
        return (StatusCode::BAD_REQUEST, error.to_string());
    }
    let unavailable = || (StatusCode::SERVICE_UNAVAILABLE, "try again".to_owned());
    store.deliveries.attempted(key, &body);
    let outcome = store.errors.next();
    if outcome == StoreOutcome::FailsBeforeStoring {
        return unavailable();
    }
    let key = key.to_owned();
    let stored = tokio::task::spawn_blocking(move || {
        let stored = store.store(&key, &extension, &body);
        (key, stored)
    });
    let reply = match stored.await {
        Ok((_, Ok(Stored::New))) => (StatusCode::CREATED, "stored".to_owned()),
        Ok((_, Ok(Stored::Same))) => (StatusCode::OK, "stored before".to_owned()),
        Ok((key, Ok(Stored::Conflict))) => {
            let words = format!("key `{key}`: conflict: it has another body");
            (StatusCode::CONFLICT, words)
        }
        Ok((_, Err(error))) => failed(error.as_ref()),
        Err(error) => failed(&error),
    };
    match outcome {
        StoreOutcome::FailsAfterStoring => unavailable(),
        StoreOutcome::Normal | StoreOutcome::FailsBeforeStoring => reply,
    }
}

impl ContentStore {
    /// Returns a store below `directory`. Receivers record attempts in `deliveries`, and ask `errors` which of them fail.
    pub fn new(
        directory: PathBuf,
        deliveries: Arc<Deliveries>,
        errors: Arc<SinkErrors>,
    ) -> ContentStore {
        ContentStore {
            files: Files::new(directory),
            hashes: Mutex::default(),
            deliveries,
            errors,
        }
    }

    /// Stores content under a key as the file `<key>.<extension>`, unless the key has content already.
    pub(crate) fn store(&self, key: &str, extension: &str, body: &[u8]) -> anyhow::Result<Stored> {
        let hash = blake3::hash(body);
        let mut hashes = locked(&self.hashes);
        if let Some(before) = hashes.get(key) {
            return Ok(match *before == hash {
                true => Stored::Same,
                false => Stored::Conflict,
            });
        }
        let file = self.files.path(&format!("{key}.{extension}"))?;
        self.files.replace(&file, body)?;
        hashes.insert(key.to_owned(), hash);
        Ok(Stored::New)
    }
}

fn failed(error: &dyn std::error::Error) -> HttpReply {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// Returns the extension of the file of a body.
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

    fn store(directory: &Path, sink_error_rate: Percent) -> Arc<ContentStore> {
        let options = FaultOptions {
            sink_error_rate,
            ..FaultOptions::default()
        };
        let errors = Arc::new(SinkErrors::new(&options));
        let store = ContentStore::new(directory.to_owned(), Arc::default(), errors);
        Arc::new(store)
    }

    async fn post(store: &Arc<ContentStore>, key: &str, body: &'static str) -> u16 {
        let headers = HeaderMap::from_iter([
            (
                header::CONTENT_TYPE,
                "application/x-ndjson".parse().unwrap(),
            ),
            (IDEMPOTENCY_KEY.parse().unwrap(), key.parse().unwrap()),
        ]);
        let reply = receive(State(Arc::clone(store)), headers, body.into()).await;
        reply.0.as_u16()
    }

    #[tokio::test]
    async fn the_first_body_under_a_key_is_stored_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path(), Percent::default());
        assert_eq!(post(&store, "b/0", "first").await, 201);
        assert_eq!(post(&store, "b/0", "first").await, 200);
        assert_eq!(post(&store, "b/0", "other").await, 409);
        assert_eq!(post(&store, "../b/0", "first").await, 400);
        let file = directory.path().join("b/0.jsonl");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "first");
        let report = store.deliveries.report();
        assert_eq!((report.parts, report.attempts, report.differing), (1, 3, 1));
    }

    #[tokio::test]
    async fn a_body_without_a_key_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path(), Percent::default());
        let reply = receive(State(Arc::clone(&store)), HeaderMap::new(), "x".into()).await;
        assert_eq!(reply.0, StatusCode::BAD_REQUEST);
        assert_eq!(store.deliveries.report().attempts, 0);
    }

    #[tokio::test]
    async fn deliveries_fail_before_and_after_they_are_stored() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path(), Percent::ALL);
        for part in 0..20 {
            assert_eq!(post(&store, &format!("b/{part}"), "body").await, 503);
        }
        let there = std::fs::read_dir(directory.path().join("b")).unwrap();
        let there = there.count();
        assert!((1..20).contains(&there), "{there}");
        assert_eq!(store.deliveries.report().attempts, 20);
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
