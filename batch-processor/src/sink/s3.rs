use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use serde::Serialize;
use shared::aws::Sdk;
use shared::config::bucket_name;
use shared::ids::{BatchId, BatchKey, SourceArn};
use tracing::info;

use super::file::rejects_name;
use super::format::write_rejects;
use super::rendering::Content;
use super::service::{status, told};
use super::{Part, Receipt, Rendering, Sink, SinkError, directory_of, encoded, unwritten};

/// For one object from its first byte to its last. The part's own time limit usually ends it earlier.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// User metadata in all; what else we put there takes less than 100 bytes.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html> (2026-08).
const USER_METADATA_BYTES_MAX: usize = 2_048;
/// Room for the batch key, encoded; the manifest has it whole in any case.
const BATCH_KEY_BYTES_MAX: usize = USER_METADATA_BYTES_MAX - 256;
/// A name has at most 1,024 bytes, and what we put behind the prefix less than 100.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html> (2026-08).
const PREFIX_BYTES_MAX: usize = 800;

/// User metadata: hash of the content, before it was compressed.
const CONTENT_HASH: &str = "content-hash";
/// User metadata: the batch key, percent-encoded.
const BATCH_KEY: &str = "batch-key";

/// Bucket and prefix of what follows `s3:`.
pub(super) fn parse(rest: &str) -> Option<(String, String)> {
    let rest = rest.strip_prefix("//")?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let steps = prefix.is_empty() && !rest.ends_with("//")
        || prefix.len() <= PREFIX_BYTES_MAX
            && prefix.split('/').all(|step| !step.is_empty())
            && !prefix.contains(char::is_control);
    (bucket_name(bucket).is_some() && steps).then(|| (bucket.to_owned(), prefix.to_owned()))
}

/// An object for each part, `<prefix>/<batchId>/<part>.<ext>`; then the list of what could not be written, if there is
/// any, `<part>.rejects`; and last, when all of it is there, `<part>.manifest.json`. None of them is ever replaced.
#[derive(Debug)]
pub struct S3Sink {
    objects: Objects,
    rendering: Rendering,
}

/// What is said about a part, once it is there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'p> {
    batch_id: BatchId,
    part: usize,
    /// The name of the part's object.
    key: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_key: Option<&'p BatchKey>,
    source: &'p SourceArn,
    format: &'static str,
    compression: &'static str,
    /// Records of the part, the rejected ones among them.
    count: usize,
    rejected: usize,
    /// Of the content, before it was compressed.
    bytes: u64,
    /// As `bytes`: blake3, in hexadecimal.
    hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_sent_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_sent_at: Option<u64>,
}

impl<'p> Manifest<'p> {
    fn of(part: &'p Part, key: &'p str, rendering: &Rendering, content: &Content) -> Manifest<'p> {
        let sent = || part.items.iter().map(|item| item.sent_at.as_ms());
        Manifest {
            batch_id: part.batch_id,
            part: part.number,
            key,
            batch_key: part.batch_key.as_ref(),
            source: &part.source,
            format: rendering.format.name(),
            compression: rendering.compression.name(),
            count: part.items.len(),
            rejected: content.rejects.len(),
            bytes: content.bytes,
            hash: content.hash.to_string(),
            first_sent_at: sent().min(),
            last_sent_at: sent().max(),
        }
    }
}

impl S3Sink {
    /// Objects in a bucket.
    pub fn new(sdk: &Sdk, bucket: &str, prefix: &str, rendering: Rendering) -> S3Sink {
        let objects = Objects::new(sdk, bucket, prefix);
        S3Sink { objects, rendering }
    }
}

impl Sink for S3Sink {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let (bytes, content) = self.rendering.write(part, Vec::new()).map_err(unwritten)?;
        let put = self
            .objects
            .put_content(part, &self.rendering, bytes, &content);
        let (key, repeated) = put.await?;
        if !content.rejects.is_empty() {
            let mut list = Vec::new();
            write_rejects(part, &content.rejects, &mut list).map_err(unwritten)?;
            self.objects.put_rejects(part, list).await?;
        }
        let manifest = Manifest::of(part, &key, &self.rendering, &content);
        self.objects.put_manifest(part, &manifest).await?;
        let (items, rejected) = (part.items.len(), content.rejects.len());
        info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %content.hash, repeated, "part written");
        Ok(Receipt {
            text: format!("blake3:{}", content.hash),
            rejected: rejected as u64,
        })
    }
}

/// Compressed objects are what their names say, not a text in transit: nothing shall unpack them on the way.
fn content_type(rendering: &Rendering) -> &'static str {
    match rendering.compression {
        super::Compression::None => rendering.format.content_type(),
        super::Compression::Gzip => "application/gzip",
        super::Compression::Zstd => "application/zstd",
    }
}

/// Objects of batches in a bucket, below a prefix.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) client: Client,
    pub(super) bucket: String,
    pub(super) prefix: String,
}

struct Object<'k> {
    key: &'k str,
    bytes: Vec<u8>,
    hash: blake3::Hash,
    content_type: &'static str,
}

impl Objects {
    pub(super) fn new(sdk: &Sdk, bucket: &str, prefix: &str) -> Objects {
        Objects {
            client: sdk.s3(REQUEST_TIMEOUT),
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        }
    }

    fn key(&self, part: &Part, name: &str) -> String {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        let directory = directory_of(part.batch_id, part.batch_key.as_ref());
        format!("{}{slash}{directory}/{name}", self.prefix)
    }

    /// Writes the object of a part; answers its key, and whether it was there already.
    pub(super) async fn put_content(
        &self,
        part: &Part,
        rendering: &Rendering,
        bytes: Vec<u8>,
        content: &Content,
    ) -> Result<(String, bool), SinkError> {
        let key = self.key(part, &rendering.name(part.number));
        let object = Object {
            key: &key,
            bytes,
            hash: content.hash,
            content_type: content_type(rendering),
        };
        let repeated = self.put(part, object).await?;
        Ok((key, repeated))
    }

    /// Keeps the reject list of a part.
    pub(super) async fn put_rejects(&self, part: &Part, list: Vec<u8>) -> Result<(), SinkError> {
        let key = self.key(part, &rejects_name(part));
        let object = Object {
            key: &key,
            hash: blake3::hash(&list),
            bytes: list,
            content_type: "application/x-ndjson",
        };
        self.put(part, object).await.map(|_| ())
    }

    async fn put_manifest(&self, part: &Part, manifest: &Manifest<'_>) -> Result<(), SinkError> {
        let mut bytes = serde_json::to_vec(manifest).map_err(|error| SinkError::Permanent {
            reason: format!("manifest of part {}: {error}", part.key()),
        })?;
        bytes.push(b'\n');
        let key = self.key(part, &format!("{}.manifest.json", part.number));
        let object = Object {
            key: &key,
            hash: blake3::hash(&bytes),
            bytes,
            content_type: "application/json",
        };
        self.put(part, object).await.map(|_| ())
    }

    /// Writes an object if its name is free; answers whether one with the same content had it already.
    async fn put(&self, part: &Part, object: Object<'_>) -> Result<bool, SinkError> {
        let Object { key, hash, .. } = object;
        let mut metadata = HashMap::from([(CONTENT_HASH.to_owned(), hash.to_string())]);
        let batch_key = part.batch_key.as_ref().map(encoded);
        if let Some(key) = batch_key.filter(|key| key.len() <= BATCH_KEY_BYTES_MAX) {
            metadata.insert(BATCH_KEY.to_owned(), key);
        }
        let sent = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(key)
            // A name that is taken is answered with 412, whatever is there.
            .if_none_match("*")
            .content_type(object.content_type)
            .set_metadata(Some(metadata))
            .body(ByteStream::from(object.bytes))
            .send()
            .await;
        match sent {
            Ok(_) => Ok(false),
            Err(error) if status(&error) == Some(412) => {
                self.compare(key, hash).await.map(|()| true)
            }
            Err(error) => Err(told(&self.uri(key), &error, may_pass)),
        }
    }

    /// Compares what has the name with what should have it.
    async fn compare(&self, key: &str, hash: blake3::Hash) -> Result<(), SinkError> {
        let head = self
            .client
            .head_object()
            .bucket(&self.bucket)
            .key(key)
            .send()
            .await;
        let head = head.map_err(|error| match status(&error) {
            // It was there a moment ago.
            Some(404) => SinkError::Retryable {
                reason: self.words(key, "it exists, and does not"),
            },
            Some(_) | None => told(&self.uri(key), &error, may_pass),
        })?;
        let before = head.metadata().and_then(|data| data.get(CONTENT_HASH));
        match before {
            Some(before) if *before == hash.to_string() => Ok(()),
            Some(before) => Err(SinkError::Permanent {
                reason: self.words(
                    key,
                    &format!("exists with other content: hash {before}, ours is {hash}"),
                ),
            }),
            None => Err(SinkError::Permanent {
                reason: self.words(key, "exists, and was not written by this service"),
            }),
        }
    }

    fn uri(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.bucket)
    }

    fn words(&self, key: &str, words: &str) -> String {
        format!("`{}`: {words}", self.uri(key))
    }
}

/// Whether a call that S3 answered with an error may succeed later.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html> (2026-08).
fn may_pass(code: Option<&str>, status: Option<u16>) -> bool {
    match code {
        // Statuses of 400 and 403, but of this connection, this moment or these credentials.
        Some(
            "RequestTimeout"
            | "IncompleteBody"
            | "BadDigest"
            | "ExpiredToken"
            | "RequestTimeTooSkewed"
            | "KMS.ThrottlingException"
            | "ThrottlingException",
        ) => true,
        // 409: somebody writes the same name at this moment.
        Some("ConditionalRequestConflict" | "OperationAborted") => true,
        Some(_) | None => matches!(status, Some(307 | 408 | 409 | 429 | 500..)),
    }
}

#[cfg(feature = "http")]
#[cfg(test)]
mod tests {
    use super::super::tests_support::part;
    use super::super::{Compression, Format, stand_in::StandIn};
    use super::*;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    fn sink(s3: &StandIn, prefix: &str, format: Format, compression: Compression) -> S3Sink {
        let client = s3.s3_client();
        S3Sink {
            objects: Objects {
                client,
                bucket: "bucket".to_owned(),
                prefix: prefix.to_owned(),
            },
            rendering: Rendering {
                format,
                compression,
            },
        }
    }

    fn bodies(s3: &StandIn, prefix: &str) -> S3Sink {
        sink(s3, prefix, Format::Body, Compression::None)
    }

    fn reason(error: SinkError, permanent: bool) -> String {
        match error {
            SinkError::Permanent { reason } if permanent => reason,
            SinkError::Retryable { reason } if !permanent => reason,
            other => panic!("{other}"),
        }
    }

    #[tokio::test]
    async fn a_part_is_an_object_then_its_rejects_and_last_a_manifest() {
        let s3 = StandIn::start().await;
        let mut part = part(1, &["a", "b\n", "c"]);
        part.batch_key = Some("Zoë/1".parse().unwrap());
        let receipt = bodies(&s3, "in/daily").deliver(&part).await.unwrap();
        assert_eq!(receipt.rejected, 1);
        assert_eq!(receipt.text, format!("blake3:{}", blake3::hash(b"a\nc\n")));
        // As a request's path has it.
        let base = format!("/bucket/in/daily/Zo%21C3%21AB%212F1/{BATCH}/1");
        let puts: Vec<String> = s3.requests().into_iter().map(|each| each.path).collect();
        assert_eq!(
            puts,
            [".txt", ".rejects", ".manifest.json"].map(|end| format!("{base}{end}"))
        );
        let object = s3.object(&format!("{base}.txt")).unwrap();
        assert_eq!(object.body, "a\nc\n");
        assert_eq!(object.headers["if-none-match"], "*");
        assert_eq!(object.headers["content-type"], "text/plain; charset=utf-8");
        assert_eq!(object.headers["x-amz-meta-batch-key"], "Zo%C3%AB%2F1");
        let list = s3.object(&format!("{base}.rejects")).unwrap();
        assert!(list.body.starts_with("{\"batchId\"".as_bytes()), "{list:?}");
        let manifest = s3.object(&format!("{base}.manifest.json")).unwrap();
        let expected = format!(
            "{{\"batchId\":\"{BATCH}\",\"part\":1,\"key\":\"in/daily/Zo!C3!AB!2F1/{BATCH}/1.txt\",\"batchKey\":\"Zoë/1\",\
             \"source\":\"arn:q\",\"format\":\"body\",\"compression\":\"none\",\"count\":3,\"rejected\":1,\"bytes\":4,\
             \"hash\":\"{}\",\"firstSentAt\":7,\"lastSentAt\":7}}\n",
            blake3::hash(b"a\nc\n")
        );
        assert_eq!(manifest.body, expected);
    }

    #[tokio::test]
    async fn a_part_delivered_again_is_recognised_by_its_hash_and_nothing_is_replaced() {
        let s3 = StandIn::start().await;
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let sink = sink(&s3, "", Format::Envelope, compression);
            let first = sink.deliver(&part(0, &["a", "b"])).await.unwrap();
            let again = sink.deliver(&part(0, &["a", "b"])).await;
            assert_eq!(first, again.unwrap());
            // The next one has another name for the part, but not for the manifest.
            s3.remove(&format!("/bucket/{BATCH}/0.manifest.json"))
                .unwrap();
        }
        bodies(&s3, "").deliver(&part(0, &["a"])).await.unwrap();
        let error = bodies(&s3, "").deliver(&part(0, &["b"])).await.unwrap_err();
        assert!(reason(error, true).contains("exists with other content"));
        let kept = s3.object(&format!("/bucket/{BATCH}/0.txt")).unwrap();
        assert_eq!(kept.body, "a\n");
    }

    #[tokio::test]
    async fn what_somebody_else_put_there_is_not_taken_for_the_part() {
        let s3 = StandIn::start().await;
        s3.put(&format!("/bucket/{BATCH}/0.txt"), "a\n");
        let error = bodies(&s3, "").deliver(&part(0, &["a"])).await.unwrap_err();
        assert!(reason(error, true).contains("was not written by this service"));
    }

    #[tokio::test]
    async fn errors_that_may_pass_are_told_from_those_that_will_not() {
        for (status, code, permanent) in [
            (403, "AccessDenied", true),
            (404, "NoSuchBucket", true),
            (400, "InvalidRequest", true),
            (301, "PermanentRedirect", true),
            (400, "RequestTimeout", false),
            (400, "ExpiredToken", false),
            (409, "ConditionalRequestConflict", false),
            (500, "InternalError", false),
            (503, "SlowDown", false),
        ] {
            let s3 = StandIn::start().await;
            s3.answer(
                status,
                &format!("<Error><Code>{code}</Code><Message>words</Message></Error>"),
            );
            let error = bodies(&s3, "").deliver(&part(0, &["a"])).await.unwrap_err();
            let reason = reason(error, permanent);
            assert!(
                reason.contains(&format!("HTTP status {status}: {code}: words")),
                "{reason}"
            );
            assert!(
                reason.contains(&format!("`s3://bucket/{BATCH}/0.txt`")),
                "{reason}"
            );
        }
    }

    #[tokio::test]
    async fn an_endpoint_that_is_not_there_may_come_back() {
        let s3 = StandIn::start().await;
        let sink = bodies(&s3, "");
        s3.stop().await;
        reason(sink.deliver(&part(0, &["a"])).await.unwrap_err(), false);
    }

    #[tokio::test]
    async fn a_batch_key_that_metadata_has_no_room_for_is_in_the_manifest_alone() {
        let s3 = StandIn::start().await;
        let mut part = part(0, &["a"]);
        part.batch_key = Some("ä".repeat(500).parse().unwrap());
        bodies(&s3, "").deliver(&part).await.unwrap();
        let directory = directory_of(part.batch_id, part.batch_key.as_ref());
        // As a request's path has it.
        let directory = directory.replace('!', "%21");
        let object = s3.object(&format!("/bucket/{directory}/0.txt")).unwrap();
        assert!(!object.headers.contains_key("x-amz-meta-batch-key"));
        let manifest = s3
            .object(&format!("/bucket/{directory}/0.manifest.json"))
            .unwrap();
        assert!(String::from_utf8_lossy(&manifest.body).contains(&"ä".repeat(500)));
    }
}
