//! Where batches go: one trait, and the sinks that ship.

mod file;
mod format;
mod log;

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::str::FromStr;

use shared::ids::{BatchId, BatchKey, SourceArn};
use shared::ports::StoredEvent;

pub use file::FileSink;
pub use format::{Format, RenderError};
pub use log::LogSink;

/// One numbered delivery of a batch. Its content and its key are the same at every attempt.
#[derive(Debug)]
pub struct Part {
    /// The batch.
    pub batch_id: BatchId,
    /// Number of the part in its batch, from 0.
    pub number: usize,
    /// Where the events came from.
    pub source: SourceArn,
    /// What the events have in common, where `BATCH_KEY` is set.
    pub batch_key: Option<BatchKey>,
    /// The events, in seq order.
    pub items: Vec<StoredEvent>,
}

impl Part {
    /// The idempotency key, `<batchId>/<part>`: a sink that honours it sees each part exactly once.
    pub fn key(&self) -> String {
        format!("{}/{}", self.batch_id, self.number)
    }
}

/// Hash over what identifies every item, in order: seq, event id, message id, and the hash of its body.
pub fn content_hash(items: &[StoredEvent]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for item in items {
        hasher.update(&item.seq.to_be_bytes());
        for text in [item.event_id.as_str(), item.sqs_message_id.as_str()] {
            hasher.update(&(text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.update(item.body_hash.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// What a sink answers for a part it has; kept in the batch record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt(pub String);

/// Why a sink does not have a part.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Not now, or not known: the same part is delivered again, with the same key.
    #[error("sink failed for now: {reason}")]
    Retryable {
        /// Why.
        reason: String,
    },
    /// Never: the batch waits for an operator.
    #[error("sink refused for good: {reason}")]
    Permanent {
        /// Why.
        reason: String,
    },
}

/// Where parts are delivered.
///
/// `deliver` may be called again with the same part, after an error, after a crash, or by another process at the same
/// time; same key means same content. `Ok` means the part is safely there and stays there.
pub trait Sink: Send + Sync + 'static {
    /// Delivers a part.
    fn deliver(&self, part: &Part) -> impl Future<Output = Result<Receipt, SinkError>> + Send;
}

/// The `SINK` variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkUri {
    /// `log:` counts in the log, and delivers nowhere.
    Log,
    /// `file:///directory`.
    File(PathBuf),
}

impl FromStr for SinkUri {
    type Err = String;

    fn from_str(text: &str) -> Result<SinkUri, String> {
        match text.split_once(':') {
            Some(("log", "")) => Ok(SinkUri::Log),
            Some(("file", path)) if path.starts_with("///") && path.len() > 3 => {
                Ok(SinkUri::File(PathBuf::from(&path[2..])))
            }
            Some(_) | None => Err("expected `log:` or `file:///directory`".to_owned()),
        }
    }
}

impl fmt::Display for SinkUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SinkUri::Log => f.write_str("log:"),
            SinkUri::File(path) => write!(f, "file://{}", path.display()),
        }
    }
}

/// The sinks that ship.
#[derive(Debug)]
pub enum BuiltInSink {
    /// `log:`.
    Log(LogSink),
    /// `file:`.
    File(FileSink),
}

impl BuiltInSink {
    /// The sink that `SINK` names.
    pub fn new(uri: &SinkUri, format: Format) -> BuiltInSink {
        match uri {
            SinkUri::Log => BuiltInSink::Log(LogSink),
            SinkUri::File(directory) => BuiltInSink::File(FileSink::new(directory.clone(), format)),
        }
    }
}

impl Sink for BuiltInSink {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        match self {
            BuiltInSink::Log(sink) => sink.deliver(part).await,
            BuiltInSink::File(sink) => sink.deliver(part).await,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests_support {
    use std::sync::Arc;

    use shared::ids::{BodyHash, Seat};
    use shared::time::Timestamp;

    use super::*;

    pub(crate) fn part(number: usize, bodies: &[&str]) -> Part {
        let batch_id: BatchId = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let item = |(seq, body): (usize, &&str)| StoredEvent {
            event_id: format!("e{seq}").parse().unwrap(),
            sqs_message_id: format!("m{seq}").parse().unwrap(),
            body_hash: BodyHash::of(body.as_bytes()),
            shard: Seat {
                batch: batch_id,
                seq: seq as u32,
                shards: 10,
            }
            .shard(),
            seq: seq as u32,
            body: Arc::<str>::from(*body),
            source: "arn:q".parse().unwrap(),
            sent_at: Timestamp::from_ms(7),
        };
        Part {
            batch_id,
            number,
            source: "arn:q".parse().unwrap(),
            batch_key: None,
            items: bodies.iter().enumerate().map(item).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_uri_reads_back_what_it_shows_and_others_are_refused() {
        for text in ["log:", "file:///data/batches"] {
            assert_eq!(text.parse::<SinkUri>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "log",
            "log:x",
            "file:",
            "file://host/x",
            "file:///",
            "s3",
        ] {
            assert!(
                wrong
                    .parse::<SinkUri>()
                    .unwrap_err()
                    .contains("file:///directory"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn the_content_hash_sees_every_item_and_its_place() {
        let hash = |bodies: &[&str]| content_hash(&tests_support::part(0, bodies).items);
        assert_eq!(hash(&["a", "b"]), hash(&["a", "b"]));
        assert_ne!(hash(&["a", "b"]), hash(&["b", "a"]));
        assert_ne!(hash(&["a", "b"]), hash(&["a"]));
        assert_eq!(
            tests_support::part(3, &[]).key(),
            "0190163d-8694-739b-aea5-966c26f8ad91/3"
        );
    }
}
