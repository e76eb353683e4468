use protocol::ids::{BatchId, BatchKey, SourceArn};
use serde::Serialize;
use shared::aws::Sdk;

use crate::compression::Compression;
use crate::format::Format;
use crate::part::Part;
use crate::reject::Reject;
use crate::rejects::{RejectStore, keep};
use crate::rendering::Content;
use crate::rendering::Rendering;
use crate::s3::Objects;
use crate::sink::{SinkError, unwritten};
use crate::uri::SinkUri;
use shared::config::MAX_PART_BYTES;

use crate::config::{SINK_PAYLOADS, SinkConfig};

/// What makes a part the payload of a call: its content where it fits, and where it does not, or is compressed, an
/// object with it below `SINK_PAYLOADS`.
#[derive(Debug)]
pub struct Payloads {
    pub(crate) rendering: Rendering,
    pub(crate) objects: Option<Objects>,
    pub(crate) rejects: Option<RejectStore>,
}

/// A part as JSON. The same part is the same bytes, every time.
pub(crate) struct Payload {
    pub(crate) json: Vec<u8>,
    /// Of the content, before it was compressed.
    pub(crate) hash: blake3::Hash,
    /// What the format cannot carry, and the payload therefore does not.
    pub(crate) rejects: Vec<Reject>,
}

/// What every payload begins with.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'p> {
    key: String,
    batch_id: BatchId,
    part: usize,
    source: &'p SourceArn,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_key: Option<&'p BatchKey>,
    /// Records of the part, the rejected ones among them.
    count: usize,
    rejected: usize,
    format: &'static str,
    compression: &'static str,
    hash: String,
}

/// Where the content is that the payload does not have.
#[derive(Serialize)]
struct Place<'p> {
    bucket: &'p str,
    key: &'p str,
    /// Before they were compressed: another version of a compressor may make others of the same content, and the
    /// payload must not change with it.
    bytes: u64,
}

impl Payloads {
    /// As `SINK_FORMAT`, `SINK_COMPRESSION`, `SINK_PAYLOADS` and `SINK_REJECTS` say.
    pub fn new(sdk: &Sdk, config: &SinkConfig) -> Payloads {
        let objects = match &config.payloads {
            Some(SinkUri::S3 { bucket, prefix }) => Some(Objects::new(sdk, bucket, prefix)),
            Some(_) | None => None,
        };
        let rejects = config.rejects.as_ref();
        Payloads {
            rendering: config.rendering.clone(),
            objects,
            rejects: rejects.and_then(|uri| RejectStore::new(sdk, uri)),
        }
    }

    /// The payload of a part, of at most so many bytes. Where it needs an object, that has been written.
    pub(crate) async fn of(&self, part: &Part, bytes_max: usize) -> Result<Payload, SinkError> {
        let (bytes, content) = self.rendering.write(part, Vec::new()).map_err(unwritten)?;
        if self.rejects.is_none() {
            // Refused for want of a store, before anything is called.
            keep(None, part, &content.rejects).await?;
        }
        let head = self.head(part, &content)?;
        let json = match (self.rendering.compression, &self.objects) {
            // It only grows: quotes, names, escapes.
            (Compression::None, Some(_)) if bytes.len() > bytes_max => None,
            (Compression::None, _) => Some(self.inline(part, head.clone(), &bytes)?),
            (Compression::Gzip | Compression::Zstd, _) => None,
        };
        let json = match (json, &self.objects) {
            (Some(json), _) if json.len() <= bytes_max => json,
            (_, Some(objects)) => {
                let put = objects.put_content(part, &self.rendering, bytes, &content);
                let (key, _) = put.await?;
                let place = Place {
                    bucket: &objects.bucket,
                    key: &key,
                    bytes: content.bytes,
                };
                with(head, "object", &encoded(part, &place)?)
            }
            (json, None) => {
                return Err(self.too_large(part, json.map(|json| json.len()), bytes_max));
            }
        };
        Ok(Payload {
            json,
            hash: content.hash,
            rejects: content.rejects,
        })
    }

    /// Keeps the reject list of a part, if there is anything on it.
    pub(crate) async fn keep(&self, part: &Part, rejects: &[Reject]) -> Result<(), SinkError> {
        keep(self.rejects.as_ref(), part, rejects).await
    }

    fn head(&self, part: &Part, content: &Content) -> Result<Vec<u8>, SinkError> {
        let head = Head {
            key: part.key(),
            batch_id: part.batch_id,
            part: part.number,
            source: &part.source,
            batch_key: part.batch_key.as_ref(),
            count: part.items.len(),
            rejected: content.rejects.len(),
            format: self.rendering.format.name(),
            compression: self.rendering.compression.name(),
            hash: content.hash.to_string(),
        };
        encoded(part, &head)
    }

    /// The payload with the content in it.
    fn inline(&self, part: &Part, head: Vec<u8>, content: &[u8]) -> Result<Vec<u8>, SinkError> {
        match self.rendering.format {
            Format::Envelope => {
                // JSON has no line breaks but those between its lines.
                let lines = content.strip_suffix(b"\n").unwrap_or(content);
                let mut list = Vec::with_capacity(lines.len() + 2);
                list.push(b'[');
                list.extend(lines.iter().map(|byte| match byte {
                    b'\n' => b',',
                    other => *other,
                }));
                list.push(b']');
                Ok(with(head, "items", &list))
            }
            Format::Body | Format::Csv { .. } | Format::FixedWidth(_) => {
                let text = std::str::from_utf8(content).map_err(|error| SinkError::Permanent {
                    reason: format!("content of part {}: {error}", part.key()),
                })?;
                let value = serde_json::to_vec(text).map_err(|error| unwritten(error.into()))?;
                Ok(with(head, "content", &value))
            }
        }
    }

    fn too_large(&self, part: &Part, bytes: Option<usize>, bytes_max: usize) -> SinkError {
        let key = part.key();
        let words = match bytes {
            Some(bytes) => format!(
                "part {key} has a payload of {bytes} bytes, and at most {bytes_max} can be sent: a smaller `{MAX_PART_BYTES}`, or"
            ),
            None => {
                let compression = self.rendering.compression.name();
                format!("part {key} is compressed by `{compression}`, which no payload can carry:")
            }
        };
        SinkError::Permanent {
            reason: format!("{words} `{SINK_PAYLOADS}` is needed, `s3://bucket/prefix`"),
        }
    }
}

/// An object with one field more, which is JSON already.
fn with(mut object: Vec<u8>, name: &str, value: &[u8]) -> Vec<u8> {
    object.reserve(name.len() + value.len() + 5);
    // The brace that closes it.
    object.pop();
    object.extend_from_slice(b",\"");
    object.extend_from_slice(name.as_bytes());
    object.extend_from_slice(b"\":");
    object.extend_from_slice(value);
    object.push(b'}');
    object
}

fn encoded(part: &Part, value: &impl Serialize) -> Result<Vec<u8>, SinkError> {
    serde_json::to_vec(value).map_err(|error| SinkError::Permanent {
        reason: format!("payload of part {}: {error}", part.key()),
    })
}

#[cfg(feature = "http")]
#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::stand_in::StandIn;
    use crate::tests_support::part;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    pub(crate) fn payloads(format: Format, s3: Option<&StandIn>) -> Payloads {
        Payloads {
            rendering: Rendering {
                format,
                compression: Compression::None,
            },
            objects: s3.map(|s3| Objects {
                client: s3.s3_client(),
                bucket: "bucket".to_owned(),
                prefix: "parts".to_owned(),
            }),
            rejects: None,
        }
    }

    async fn json(payloads: &Payloads, part: &Part, bytes_max: usize) -> Value {
        let payload = payloads.of(part, bytes_max).await.unwrap();
        let again = payloads.of(part, bytes_max).await.unwrap();
        assert_eq!(payload.json, again.json, "the same at every attempt");
        assert!(payload.json.len() <= bytes_max);
        serde_json::from_slice(&payload.json).unwrap()
    }

    #[tokio::test]
    async fn envelopes_are_the_items_of_a_payload() {
        let mut part = part(2, &["a", "b\n"]);
        part.batch_key = Some("Zoë".parse().unwrap());
        let item = |seq: usize, body: &str| {
            json!({
                "batchId": BATCH, "part": 2, "seq": seq, "eventId": format!("e{seq}"),
                "sqsMessageId": format!("m{seq}"), "source": "arn:q", "sentAt": 7, "body": body,
            })
        };
        let hash = {
            let mut lines = Vec::new();
            Format::Envelope.write(&part, &mut lines).unwrap();
            blake3::hash(&lines).to_string()
        };
        let payload = json(&payloads(Format::Envelope, None), &part, 10_000).await;
        assert_eq!(
            payload,
            json!({
                "key": format!("{BATCH}/2"), "batchId": BATCH, "part": 2, "source": "arn:q", "batchKey": "Zoë",
                "count": 2, "rejected": 0, "format": "envelope", "compression": "none", "hash": hash,
                "items": [item(0, "a"), item(1, "b\n")],
            })
        );
        part.batch_key = None;
        part.items.clear();
        let payload = json(&payloads(Format::Envelope, None), &part, 10_000).await;
        assert_eq!(payload["items"], json!([]));
        assert_eq!(payload.get("batchKey"), None);
    }

    #[tokio::test]
    async fn other_formats_are_a_text_without_what_they_reject() {
        let directory = tempfile::tempdir().unwrap();
        let mut payloads = payloads(Format::Body, None);
        let part = part(0, &["\"a\"", "b\n", "c"]);
        let Err(SinkError::Permanent { reason }) = payloads.of(&part, 10_000).await else {
            panic!("nothing can keep the reject");
        };
        assert!(reason.contains("`SINK_REJECTS` is not set"), "{reason}");
        payloads.rejects = Some(RejectStore::below(directory.path()));
        let payload = json(&payloads, &part, 10_000).await;
        assert_eq!(payload["content"], "\"a\"\nc\n");
        assert_eq!(
            (&payload["count"], &payload["rejected"]),
            (&json!(3), &json!(1))
        );
        assert_eq!(payload["hash"], blake3::hash(b"\"a\"\nc\n").to_string());
    }

    #[tokio::test]
    async fn what_is_too_large_is_an_object_or_an_error_with_both_numbers() {
        let s3 = StandIn::start().await;
        let part = part(1, &[&"a".repeat(200), &"b".repeat(300)]);
        let whole = payloads(Format::Body, None)
            .of(&part, 10_000)
            .await
            .unwrap();
        let size = whole.json.len();
        json(&payloads(Format::Body, None), &part, size).await;
        let Err(SinkError::Permanent { reason }) =
            payloads(Format::Body, None).of(&part, size - 1).await
        else {
            panic!("a byte too large");
        };
        for words in [
            format!(
                "part {BATCH}/1 has a payload of {size} bytes, and at most {} can be sent",
                size - 1
            ),
            "`SINK_PAYLOADS` is needed, `s3://bucket/prefix`".to_owned(),
        ] {
            assert!(reason.contains(&words), "{words} in {reason}");
        }
        // Once with content that would fit alone, and once with more.
        for bytes_max in [size - 1, 500] {
            let payload = json(&payloads(Format::Body, Some(&s3)), &part, bytes_max).await;
            let key = format!("parts/{BATCH}/1.txt");
            let expected = json!({"bucket": "bucket", "key": key, "bytes": 502});
            assert_eq!(payload["object"], expected);
            assert_eq!(payload.get("content"), None);
        }
        let object = s3.object(&format!("/bucket/parts/{BATCH}/1.txt")).unwrap();
        assert_eq!(object.body.len(), 502);
    }

    #[tokio::test]
    async fn what_is_compressed_is_an_object_however_small() {
        let s3 = StandIn::start().await;
        let mut payloads = payloads(Format::Body, Some(&s3));
        payloads.rendering.compression = Compression::Gzip;
        let payload = json(&payloads, &part(0, &["a"]), 10_000).await;
        let key = format!("parts/{BATCH}/0.txt.gz");
        let expected = json!({"bucket": "bucket", "key": key, "bytes": 2});
        assert_eq!(payload["object"], expected);
        assert_eq!(payload["compression"], "gzip");
        payloads.objects = None;
        let Err(SinkError::Permanent { reason }) = payloads.of(&part(0, &["a"]), 10_000).await
        else {
            panic!("nowhere to put it");
        };
        assert!(reason.contains("`SINK_PAYLOADS` is needed"), "{reason}");
    }
}
