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
mod stand_in;
#[cfg(feature = "states")]
mod states;

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
#[cfg(feature = "http")]
pub use secret::{Secret, SecretConfig, SecretHeader, SecretName, SecretReader};
#[cfg(feature = "states")]
pub use states::StatesSink;

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

/// The `SINK` variable, `SINK_REJECTS` and `SINK_PAYLOADS`.
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
    /// `postgres://user@host/database`.
    #[cfg(feature = "postgres")]
    Postgres(String),
    /// `arn:<partition>:lambda:<region>:<account>:function:<name>[:<qualifier>]`.
    #[cfg(feature = "lambda")]
    Lambda {
        /// All of it.
        arn: String,
        /// Its region.
        region: String,
    },
    /// `arn:<partition>:states:<region>:<account>:stateMachine:<name>[:<qualifier>]`.
    #[cfg(feature = "states")]
    States {
        /// All of it.
        arn: String,
        /// Its region.
        region: String,
    },
}

impl SinkUri {
    /// What a message about a variable calls this kind of sink.
    pub const fn kind(&self) -> &'static str {
        match self {
            SinkUri::Log => "log:",
            SinkUri::File(_) => "file:",
            #[cfg(feature = "s3")]
            SinkUri::S3 { .. } => "s3:",
            #[cfg(feature = "http")]
            SinkUri::Http(_) => "https:",
            #[cfg(feature = "postgres")]
            SinkUri::Postgres(_) => "postgres:",
            #[cfg(feature = "lambda")]
            SinkUri::Lambda { .. } => "arn:…:lambda:…",
            #[cfg(feature = "states")]
            SinkUri::States { .. } => "arn:…:states:…",
        }
    }
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
            Some(("postgres" | "postgresql", _)) => postgres_uri(text),
            Some(("arn", rest)) if rest.split(':').nth(1) == Some("lambda") => lambda_uri(text),
            Some(("arn", rest)) if rest.split(':').nth(1) == Some("states") => states_uri(text),
            Some(_) | None => Err(
                "expected `log:`, `file:///directory`, `s3://bucket/prefix`, `https://host/path`, \
                 `postgres://user@host/database`, or the ARN of a Lambda function or of a state machine"
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

#[cfg(feature = "postgres")]
fn postgres_uri(text: &str) -> Result<SinkUri, String> {
    postgres::parse(text).map(SinkUri::Postgres)
}

#[cfg(not(feature = "postgres"))]
fn postgres_uri(_: &str) -> Result<SinkUri, String> {
    Err("the executable was built without the cargo feature `postgres`".to_owned())
}

#[cfg(feature = "lambda")]
fn lambda_uri(text: &str) -> Result<SinkUri, String> {
    lambda::parse(text).ok_or_else(|| {
        "expected `arn:<partition>:lambda:<region>:<account>:function:<name>`, with `:<version or alias>` behind it \
         if need be"
            .to_owned()
    })
}

#[cfg(not(feature = "lambda"))]
fn lambda_uri(_: &str) -> Result<SinkUri, String> {
    Err("the executable was built without the cargo feature `lambda`".to_owned())
}

#[cfg(feature = "states")]
fn states_uri(text: &str) -> Result<SinkUri, String> {
    states::parse(text).ok_or_else(|| {
        "expected `arn:<partition>:states:<region>:<account>:stateMachine:<name>`, with `:<version or alias>` behind it \
         if need be"
            .to_owned()
    })
}

#[cfg(not(feature = "states"))]
fn states_uri(_: &str) -> Result<SinkUri, String> {
    Err("the executable was built without the cargo feature `states`".to_owned())
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
            #[cfg(feature = "postgres")]
            SinkUri::Postgres(url) => f.write_str(url),
            #[cfg(feature = "lambda")]
            SinkUri::Lambda { arn, .. } => f.write_str(arn),
            #[cfg(feature = "states")]
            SinkUri::States { arn, .. } => f.write_str(arn),
        }
    }
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
    /// `postgres:`.
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresSink>),
    /// A Lambda function.
    #[cfg(feature = "lambda")]
    Lambda(LambdaSink),
    /// A state machine.
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
        Ok(match &config.sink {
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
                let sink = HttpSink::new(url, rendering, timeout, rejects);
                BuiltInSink::Http(match &config.secret {
                    Some(secret) => {
                        let token = sdk.session_token();
                        let reader = SecretReader::new(&secret.name, secret.port, token);
                        sink.with_secret(secret.header.clone(), reader)
                    }
                    None => sink,
                })
            }
            #[cfg(feature = "lambda")]
            SinkUri::Lambda { arn, region } => {
                let client = sdk.lambda(region, config.sink_timeout);
                BuiltInSink::Lambda(LambdaSink::new(client, arn, Payloads::new(sdk, config)))
            }
            #[cfg(feature = "states")]
            SinkUri::States { arn, region } => {
                let client = sdk.step_functions(region, config.sink_timeout);
                BuiltInSink::States(StatesSink::new(client, arn, Payloads::new(sdk, config)))
            }
            #[cfg(feature = "postgres")]
            SinkUri::Postgres(url) => {
                let sink = PostgresSink::new(url, &config.database, config.sink_timeout);
                let sink = sink.map_err(|words| format!("`SINK` is `{url}`: {words}"))?;
                BuiltInSink::Postgres(Box::new(sink))
            }
        })
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
            #[cfg(feature = "postgres")]
            BuiltInSink::Postgres(sink) => sink.deliver(part).await,
            #[cfg(feature = "lambda")]
            BuiltInSink::Lambda(sink) => sink.deliver(part).await,
            #[cfg(feature = "states")]
            BuiltInSink::States(sink) => sink.deliver(part).await,
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

    #[cfg(feature = "lambda")]
    #[cfg(feature = "states")]
    #[test]
    fn functions_and_state_machines_are_named_by_their_arns() {
        const LAMBDA: &str = "arn:aws:lambda:eu-west-1:123456789012:function:f";
        const STATES: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:m";
        for text in [LAMBDA, STATES] {
            for text in [text.to_owned(), format!("{text}:live")] {
                assert_eq!(text.parse::<SinkUri>().unwrap().to_string(), text);
            }
            let error = format!("{text}:a:b").parse::<SinkUri>().unwrap_err();
            assert!(error.contains("<region>:<account>"), "{error}");
        }
    }

    #[test]
    fn a_sink_that_was_not_built_names_its_feature() {
        for (built, feature, text) in [
            (cfg!(feature = "s3"), "s3", "s3://bucket"),
            (cfg!(feature = "lambda"), "lambda", "arn:aws:lambda:x"),
            (cfg!(feature = "states"), "states", "arn:aws:states:x"),
        ] {
            if built {
                continue;
            }
            let error = text.parse::<SinkUri>().unwrap_err();
            let words = format!("cargo feature `{feature}`");
            assert!(error.contains(&words), "{error}");
        }
    }

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
