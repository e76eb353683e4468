//! Where batches go: one trait, and the sinks that ship.

mod columns;
mod compression;
mod csv;
mod file;
mod format;
#[cfg(feature = "http")]
mod http;
mod log;
#[cfg(feature = "http")]
mod rejects;
mod rendering;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "http")]
#[cfg(test)]
mod stand_in;

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::str::FromStr;

use shared::aws::Sdk;
use shared::ids::{BatchId, BatchKey, SourceArn};
use shared::ports::StoredEvent;

use crate::config::Config;

pub use columns::{Column, Columns, ColumnsError, FixedColumn};
pub use compression::Compression;
pub use file::FileSink;
pub use format::{Format, Reject, RejectReason, write_rejects};
#[cfg(feature = "http")]
pub use http::HttpSink;
pub use log::LogSink;
#[cfg(feature = "http")]
pub use rejects::RejectStore;
pub use rendering::Rendering;
#[cfg(feature = "s3")]
pub use s3::S3Sink;

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

/// What a sink answers for a part it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its words, kept in the batch record.
    pub text: String,
    /// How many of the part's records it has only in the reject list.
    pub rejected: u64,
}

impl Receipt {
    /// For a part of which nothing was rejected.
    pub fn new(text: impl Into<String>) -> Receipt {
        Receipt {
            text: text.into(),
            rejected: 0,
        }
    }
}

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

/// The `SINK` variable, and `SINK_REJECTS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkUri {
    /// `log:` counts in the log, and delivers nowhere.
    Log,
    /// `file:///directory`.
    File(PathBuf),
    /// `s3://bucket/prefix`.
    #[cfg(feature = "s3")]
    S3 {
        /// The bucket.
        bucket: String,
        /// What the names of objects begin with, without the slash after it; may be empty.
        prefix: String,
    },
    /// `https://host/path`, or `http://` to this machine.
    #[cfg(feature = "http")]
    Http(String),
}

impl FromStr for SinkUri {
    type Err = String;

    fn from_str(text: &str) -> Result<SinkUri, String> {
        match text.split_once(':') {
            Some(("log", "")) => Ok(SinkUri::Log),
            Some(("file", path)) if path.starts_with("///") && path.len() > 3 => {
                Ok(SinkUri::File(PathBuf::from(&path[2..])))
            }
            Some(("s3", rest)) => s3_uri(rest),
            Some(("https", _)) => http_uri(text),
            Some(_) if text.starts_with("http://") => http_uri(text),
            Some(_) | None => Err(
                "expected `log:`, `file:///directory`, `s3://bucket/prefix` or `https://host/path`"
                    .to_owned(),
            ),
        }
    }
}

#[cfg(feature = "s3")]
fn s3_uri(rest: &str) -> Result<SinkUri, String> {
    s3::parse(rest)
        .map(|(bucket, prefix)| SinkUri::S3 { bucket, prefix })
        .ok_or_else(|| {
            "expected `s3://bucket/prefix`: a bucket of 3 to 63 of `a-z 0-9 . -`, and a prefix of at most 800 bytes \
             without empty steps"
                .to_owned()
        })
}

#[cfg(not(feature = "s3"))]
fn s3_uri(_: &str) -> Result<SinkUri, String> {
    Err("the executable was built without the cargo feature `s3`".to_owned())
}

#[cfg(feature = "http")]
fn http_uri(text: &str) -> Result<SinkUri, String> {
    http::parse(text).map(SinkUri::Http)
}

#[cfg(not(feature = "http"))]
fn http_uri(_: &str) -> Result<SinkUri, String> {
    Err("the executable was built without the cargo feature `http`".to_owned())
}

impl fmt::Display for SinkUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SinkUri::Log => f.write_str("log:"),
            SinkUri::File(path) => write!(f, "file://{}", path.display()),
            #[cfg(feature = "s3")]
            SinkUri::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            #[cfg(feature = "s3")]
            SinkUri::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            #[cfg(feature = "http")]
            SinkUri::Http(url) => f.write_str(url),
        }
    }
}

/// A batch key where there is room for letters, digits and a few signs only.
#[cfg(any(feature = "s3", feature = "http"))]
fn encoded(key: &BatchKey) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(key.as_str(), ENCODED).to_string()
}

/// The sinks that ship.
#[derive(Debug)]
pub enum BuiltInSink {
    /// `log:`.
    Log(LogSink),
    /// `file:`.
    File(FileSink),
    /// `s3:`.
    #[cfg(feature = "s3")]
    S3(S3Sink),
    /// `https:`.
    #[cfg(feature = "http")]
    Http(HttpSink),
}

impl BuiltInSink {
    /// The sink that `SINK` names.
    pub fn new(config: &Config, sdk: &Sdk) -> BuiltInSink {
        let rendering = config.rendering.clone();
        match &config.sink {
            SinkUri::Log => BuiltInSink::Log(LogSink),
            SinkUri::File(directory) => {
                BuiltInSink::File(FileSink::new(directory.clone(), rendering))
            }
            #[cfg(feature = "s3")]
            SinkUri::S3 { bucket, prefix } => {
                BuiltInSink::S3(S3Sink::new(sdk, bucket, prefix, rendering))
            }
            #[cfg(feature = "http")]
            SinkUri::Http(url) => {
                let rejects = config.rejects.as_ref();
                let rejects = rejects.and_then(|uri| RejectStore::new(sdk, uri));
                let timeout = config.sink_timeout;
                BuiltInSink::Http(HttpSink::new(url, rendering, timeout, rejects))
            }
        }
    }
}

impl Sink for BuiltInSink {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        match self {
            BuiltInSink::Log(sink) => sink.deliver(part).await,
            BuiltInSink::File(sink) => sink.deliver(part).await,
            #[cfg(feature = "s3")]
            BuiltInSink::S3(sink) => sink.deliver(part).await,
            #[cfg(feature = "http")]
            BuiltInSink::Http(sink) => sink.deliver(part).await,
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
            overflow: None,
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
            "arn:aws:s3:::bucket",
            "http:",
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

    #[cfg(feature = "s3")]
    #[test]
    fn a_bucket_may_come_with_a_prefix() {
        for text in ["s3://bucket", "s3://my.bucket-1/a/b c"] {
            assert_eq!(text.parse::<SinkUri>().unwrap().to_string(), text);
        }
        assert_eq!("s3://bucket/".parse(), "s3://bucket".parse::<SinkUri>());
        assert_eq!("s3://bucket/a/".parse(), "s3://bucket/a".parse::<SinkUri>());
        for wrong in [
            "s3:bucket",
            "s3://",
            "s3://b",
            "s3://Bucket",
            "s3://bucket//",
            "s3://bucket/a//b",
            "s3:///a",
        ] {
            let error = wrong.parse::<SinkUri>().unwrap_err();
            assert!(error.contains("a bucket of 3 to 63"), "{wrong}: {error}");
        }
    }

    #[cfg(feature = "http")]
    #[test]
    fn only_this_machine_may_be_spoken_to_in_the_clear() {
        for text in [
            "https://host/path?x=y",
            "https://host",
            "http://localhost:8080/",
            "http://127.0.0.1/in",
            "http://[::1]:8080",
        ] {
            assert_eq!(text.parse::<SinkUri>().unwrap().to_string(), text);
        }
        for wrong in [
            "http://host/",
            "http://127.0.0.1.example/",
            "http://10.0.0.1",
            "http://localhost.example:80",
        ] {
            let error = wrong.parse::<SinkUri>().unwrap_err();
            assert!(
                error.contains("`http://` only to `localhost`"),
                "{wrong}: {error}"
            );
        }
        for wrong in [
            "https:",
            "https://",
            "https:///path",
            "https://user:word@host/",
            "https://ho st/",
        ] {
            let error = wrong.parse::<SinkUri>().unwrap_err();
            assert!(error.contains("`https://host/path`"), "{wrong}: {error}");
        }
    }

    #[cfg(not(feature = "s3"))]
    #[test]
    fn a_sink_that_was_not_built_names_its_feature() {
        let error = "s3://bucket".parse::<SinkUri>().unwrap_err();
        assert!(error.contains("cargo feature `s3`"), "{error}");
    }

    #[cfg(any(feature = "s3", feature = "http"))]
    #[test]
    fn a_batch_key_is_encoded_to_letters_digits_and_a_few_signs() {
        let key: BatchKey = "Zoë/2026-11|%".parse().unwrap();
        assert_eq!(encoded(&key), "Zo%C3%AB%2F2026-11%7C%25");
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
