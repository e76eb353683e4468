//! Where batches go: one trait, and the sinks that ship.

#[cfg(any(feature = "lambda", feature = "states"))]
mod arn;
mod columns;
mod compression;
mod csv;
mod file;
mod format;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "lambda")]
mod lambda;
mod log;
mod manifest;
#[cfg(any(feature = "lambda", feature = "states"))]
mod payload;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "http", feature = "lambda", feature = "states"))]
mod rejects;
mod rendering;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "http")]
mod secret;
#[cfg(feature = "s3")]
mod service;
#[cfg(feature = "http")]
#[cfg(test)]
pub(crate) mod stand_in;
#[cfg(feature = "states")]
mod states;
mod uri;

use std::future::Future;
use std::time::Duration;

use protocol::ids::{BatchId, BatchKey, SourceArn};
use protocol::planted::{Bug, planted};
use shared::aws::Sdk;
use shared::ports::StoredEvent;

use crate::config::Config;

pub use columns::{Column, Columns, ColumnsError, FixedColumn};
pub use compression::Compression;
pub use file::FileSink;
pub use format::{Format, Reject, RejectReason, write_rejects};
#[cfg(feature = "http")]
pub use http::HttpSink;
#[cfg(feature = "lambda")]
pub use lambda::LambdaSink;
pub use log::LogSink;
#[cfg(any(feature = "lambda", feature = "states"))]
pub use payload::Payloads;
#[cfg(feature = "postgres")]
pub use postgres::{Database, PostgresSink, TableName};
#[cfg(any(feature = "http", feature = "lambda", feature = "states"))]
pub use rejects::RejectStore;
pub use rendering::Rendering;
#[cfg(feature = "s3")]
pub use s3::S3Sink;
#[cfg(feature = "s3")]
pub(crate) use s3::read as read_object;
#[cfg(feature = "http")]
pub use secret::{Secret, SecretConfig, SecretHeader, SecretName, SecretReader};
#[cfg(feature = "states")]
pub use states::StatesSink;
pub use uri::{SinkKind, SinkUri};

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
    // Many items at once: the hash of much is made several times as fast as that of little after little.
    const BYTES_AT_ONCE: usize = 64 * 1_024;
    let mut hasher = blake3::Hasher::new();
    let mut bytes = Vec::new();
    for item in items {
        bytes.extend_from_slice(&item.seq.to_be_bytes());
        for text in [item.event_id.as_str(), item.sqs_message_id.as_str()] {
            bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        if !planted(Bug::BodyHashLeftOut) {
            bytes.extend_from_slice(item.body_hash.as_bytes());
        }
        if bytes.len() >= BYTES_AT_ONCE {
            hasher.update(&bytes);
            bytes.clear();
        }
    }
    *hasher.update(&bytes).finalize().as_bytes()
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
    /// Not now, and the sink said for how long: as [`Retryable`](Self::Retryable), but not before that.
    #[error("sink is busy for `{}` s: {reason}", retry_after.as_secs())]
    Busy {
        /// Why.
        reason: String,
        /// The earliest time for another attempt, from now.
        retry_after: Duration,
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
    /// Returns where parts go and what they look like there, in words, without secrets; at most
    /// [`FINGERPRINT_BYTES_MAX`](protocol::limits::FINGERPRINT_BYTES_MAX) of it are kept.
    ///
    /// It is stored with every part before the part is delivered. While a part is undelivered and this differs from what
    /// was stored, the part is not delivered: an operator decides. A sink whose destination or content can be changed by
    /// configuration must say so here; one that cannot keeps the default.
    fn fingerprint(&self) -> String {
        "a sink of its own".to_owned()
    }

    /// Delivers a part.
    fn deliver(&self, part: &Part) -> impl Future<Output = Result<Receipt, SinkError>> + Send;
}

/// The longest name that a batch key gives a directory, so that an object's name has room for the prefix as well.
const KEY_NAME_BYTES_MAX: usize = 128;

/// Where the files or objects of a batch stand, below the place of its sink: `<batchId>`, or with `BATCH_KEY`
/// `<batch key>/<batchId>`.
///
/// Of the key, everything but letters of ASCII, digits and `-._` is encoded, and a dot at the beginning too: as `!` and two
/// hexadecimal digits for each byte, for a percent sign is one of the characters that S3 advises against. Of a key that
/// is longer than 128 bytes then, the first 110 are followed by `!-` and 16 hexadecimal digits of its blake3.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html> (2026-08).
pub fn directory_of(batch_id: BatchId, batch_key: Option<&BatchKey>) -> String {
    let Some(key) = batch_key else {
        return batch_id.to_string();
    };
    let mut name = percent_encoded(key.as_str())
        .replace('~', "%7E")
        .replace('%', "!");
    if name.starts_with('.') {
        name.replace_range(..1, "!2E");
    }
    if name.len() > KEY_NAME_BYTES_MAX {
        let hash = blake3::hash(key.as_str().as_bytes()).to_hex();
        name.truncate(KEY_NAME_BYTES_MAX - 18);
        name = format!("{name}!-{}", &hash[..16]);
    }
    format!("{name}/{batch_id}")
}

/// How much of an answer that refuses a part is kept.
#[cfg(any(feature = "http", feature = "lambda"))]
const ANSWER_BYTES_MAX: usize = 200;

/// The first bytes of an answer, for an error.
#[cfg(any(feature = "http", feature = "lambda"))]
fn beginning(answer: &[u8]) -> String {
    let bytes = &answer[..answer.len().min(ANSWER_BYTES_MAX)];
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

/// Whether a host is this machine, to which nothing needs to be encrypted.
#[cfg(feature = "http")]
fn is_loopback(host: &str) -> bool {
    let ip = host.parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

/// The error of a part or a list that could not be written to memory.
#[cfg(any(feature = "http", feature = "s3"))]
fn unwritten(error: std::io::Error) -> SinkError {
    SinkError::Retryable {
        reason: error.to_string(),
    }
}

/// A batch key where there is room for letters, digits and a few signs only.
fn encoded(key: &BatchKey) -> String {
    percent_encoded(key.as_str())
}

fn percent_encoded(text: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, ENCODED).to_string()
}

/// The sink that `SINK` names.
#[derive(Debug)]
pub struct BuiltInSink {
    kind: BuiltIn,
    fingerprint: String,
}

#[derive(Debug)]
enum BuiltIn {
    Log(LogSink),
    File(FileSink),
    #[cfg(feature = "s3")]
    S3(S3Sink),
    #[cfg(feature = "http")]
    Http(HttpSink),
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresSink>),
    #[cfg(feature = "lambda")]
    Lambda(LambdaSink),
    #[cfg(feature = "states")]
    States(StatesSink),
}

impl BuiltInSink {
    /// The sink that `SINK` names.
    ///
    /// # Errors
    /// What this machine lacks for it.
    pub fn new(config: &Config, sdk: &Sdk) -> Result<BuiltInSink, String> {
        let rendering = config.rendering.clone();
        let kind = match &config.sink {
            SinkUri::Log => BuiltIn::Log(LogSink),
            SinkUri::File(directory) => BuiltIn::File(FileSink::new(directory.clone(), rendering)),
            #[cfg(feature = "s3")]
            SinkUri::S3 { bucket, prefix } => {
                BuiltIn::S3(S3Sink::new(sdk, bucket, prefix, rendering))
            }
            #[cfg(feature = "http")]
            SinkUri::Http(url) => {
                let rejects = config.rejects.as_ref();
                let rejects = rejects.and_then(|uri| RejectStore::new(sdk, uri));
                let timeout = config.sink_timeout;
                let sink = HttpSink::new(url, rendering, timeout, rejects);
                BuiltIn::Http(match &config.secret {
                    Some(secret) => sink.with_secret(secret.header.clone(), secret.reader(sdk)),
                    None => sink,
                })
            }
            #[cfg(feature = "lambda")]
            SinkUri::Lambda { arn, region } => {
                let client = sdk.lambda(region, config.sink_timeout);
                BuiltIn::Lambda(LambdaSink::new(client, arn, Payloads::new(sdk, config)))
            }
            #[cfg(feature = "states")]
            SinkUri::States { arn, region } => {
                let client = sdk.step_functions(region, config.sink_timeout);
                BuiltIn::States(StatesSink::new(client, arn, Payloads::new(sdk, config)))
            }
            #[cfg(feature = "postgres")]
            SinkUri::Postgres(url) => {
                let sink = PostgresSink::new(url, &config.database, config.sink_timeout);
                let sink = sink.map_err(|words| format!("`SINK` is `{url}`: {words}"))?;
                BuiltIn::Postgres(Box::new(match &config.secret {
                    Some(secret) => sink.with_secret(secret.reader(sdk)),
                    None => sink,
                }))
            }
        };
        Ok(BuiltInSink {
            kind,
            fingerprint: config.sink_fingerprint.clone(),
        })
    }
}

impl Sink for BuiltInSink {
    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        match &self.kind {
            BuiltIn::Log(sink) => sink.deliver(part).await,
            BuiltIn::File(sink) => sink.deliver(part).await,
            #[cfg(feature = "s3")]
            BuiltIn::S3(sink) => sink.deliver(part).await,
            #[cfg(feature = "http")]
            BuiltIn::Http(sink) => sink.deliver(part).await,
            #[cfg(feature = "postgres")]
            BuiltIn::Postgres(sink) => sink.deliver(part).await,
            #[cfg(feature = "lambda")]
            BuiltIn::Lambda(sink) => sink.deliver(part).await,
            #[cfg(feature = "states")]
            BuiltIn::States(sink) => sink.deliver(part).await,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests_support {
    use std::sync::Arc;

    use protocol::ids::{BodyHash, Seat};
    use protocol::time::Timestamp;

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
    fn a_batch_key_is_encoded_to_letters_digits_and_a_few_signs() {
        let key: BatchKey = "Zoë/2026-11|%".parse().unwrap();
        assert_eq!(encoded(&key), "Zo%C3%AB%2F2026-11%7C%25");
    }

    #[test]
    fn a_batch_key_is_one_step_of_a_path_and_other_keys_are_others() {
        let id = tests_support::part(0, &[]).batch_id;
        let name = |key: &str| {
            let directory = directory_of(id, Some(&key.parse().unwrap()));
            let name = directory.strip_suffix(&format!("/{id}")).unwrap();
            name.to_owned()
        };
        assert_eq!(directory_of(id, None), id.to_string());
        assert_eq!(name("Zoë & Co."), "Zo!C3!AB!20!26!20Co.");
        assert_eq!(
            ["a_b-c", "~!%", ".", "..", "../x"].map(name),
            ["a_b-c", "!7E!21!25", "!2E", "!2E.", "!2E.!2Fx"]
        );
        let long = [
            "x".repeat(128),
            "x".repeat(129),
            format!("{}y", "x".repeat(128)),
            "é".repeat(500),
        ];
        let names = long.each_ref().map(|key| name(key));
        assert_eq!(names[0], long[0]);
        assert!(
            names
                .iter()
                .all(|name| name.len() == 128 && !name.contains('/')),
            "{names:?}"
        );
        assert_eq!(std::collections::BTreeSet::from(names).len(), long.len());
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
