use aws::Sdk;
use protocol::ids::{BatchId, BatchKey, SourceArn};
use serde::Serialize;
use shared::config::{MAX_PART_BYTES, Text, Unset, Variable};

use crate::kind::SinkConfig;
use crate::rejects::{RejectStore, store_rejects};
use crate::s3::{Objects, PartObjects};
use crate::sink::{SinkError, render_failed};
use crate::store::{self, Store as _};
use forms::Format;
use forms::Part;
use forms::Reject;
use forms::{Content, Rendering};

/// Where parts go that are too large or compressed for a call.
pub(crate) const SINK_PAYLOADS: Variable<Text> = Variable {
    name: "SINK_PAYLOADS",
    key: Some("sink.payloads"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "`s3://bucket/prefix`",
    },
    meaning: "With `arn:`, where parts go that are compressed, in another encoding than `utf-8`, or too large for a call.",
};

/// Makes the payloads of calls: a payload contains the part's content. If the content is too large or compressed, it is
/// written as an object below `SINK_PAYLOADS`, and the payload names the object.
#[derive(Debug)]
pub struct Payloads {
    pub(crate) rendering: Rendering,
    pub(crate) objects: Option<Objects>,
    pub(crate) rejects: Option<RejectStore>,
}

/// A part as JSON. The same part gives the same bytes at every attempt.
pub(crate) struct Payload {
    pub(crate) json: Vec<u8>,
    /// The hash of the content before compression.
    pub(crate) hash: blake3::Hash,
    /// The records that the format cannot carry. They are not in the payload.
    pub(crate) rejects: Vec<Reject>,
}

/// The first fields of every payload.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'p> {
    key: String,
    batch_id: BatchId,
    part: usize,
    source: &'p SourceArn,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_key: Option<&'p BatchKey>,
    /// The number of records of the part, including the rejected ones.
    count: usize,
    rejected: usize,
    format: &'static str,
    compression: &'static str,
    hash: String,
}

/// The S3 object that has the content.
#[derive(Serialize)]
struct ObjectReference<'p> {
    bucket: &'p str,
    key: &'p str,
    /// The length before compression: another version of the compressor may give another compressed length, and the
    /// payload must be the same at every attempt.
    bytes: u64,
}

impl Payloads {
    /// Reads `SINK_FORMAT`, `SINK_COMPRESSION`, `SINK_PAYLOADS` and `SINK_REJECTS` from the configuration.
    pub fn new(sdk: &Sdk, config: &SinkConfig) -> Payloads {
        let objects = config.payloads.as_ref();
        let rejects = config.rejects.as_ref();
        Payloads {
            rendering: config.rendering.clone(),
            objects: objects.map(|place| Objects::new(sdk, place)),
            rejects: rejects.map(|place| RejectStore::new(sdk, place)),
        }
    }

    /// Tries out whether objects and reject lists can be written.
    pub(crate) async fn dry_run(&self) -> Result<(), SinkError> {
        if let Some(objects) = &self.objects {
            objects.dry_run().await?;
        }
        match &self.rejects {
            Some(rejects) => rejects.dry_run().await,
            None => Ok(()),
        }
    }

    /// Returns the payload of a part, at most `bytes_max` long. If the content needs an object, writes the object first.
    ///
    /// # Errors
    /// Permanent if the content needs an object and `SINK_PAYLOADS` is not set.
    pub(crate) async fn payload(
        &self,
        part: &Part,
        bytes_max: usize,
    ) -> Result<Payload, SinkError> {
        let written = self.rendering.write(part, Vec::new());
        let (bytes, content) = written.map_err(render_failed)?;
        if self.rejects.is_none() {
            // Without a store for rejects, the part must be refused before the call.
            store_rejects(None, part, &content.rejects).await?;
        }
        let head = self.head(part, &content)?;
        let json = match (self.rendering.is_text(), &self.objects) {
            // The JSON is never shorter than the content, so building it would be in vain.
            (true, Some(_)) if bytes.len() > bytes_max => None,
            (true, _) => Some(self.inline(part, head.clone(), &bytes)?),
            (false, _) => None,
        };
        let json = match (json, &self.objects) {
            (Some(json), _) if json.len() <= bytes_max => json,
            (_, Some(objects)) => {
                let files = PartObjects { objects, part };
                let name = store::records_name(part, &self.rendering)?;
                store::put_records(&files, &name, &self.rendering, bytes, &content).await?;
                let key = files.path(&name);
                let reference = ObjectReference {
                    bucket: &objects.bucket,
                    key: &key,
                    bytes: content.bytes,
                };
                with_field(head, "object", &to_json(part, &reference)?)
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

    fn head(&self, part: &Part, content: &Content) -> Result<Vec<u8>, SinkError> {
        let head = Head {
            key: part.key(),
            batch_id: part.batch_id,
            part: part.part_index,
            source: &part.source,
            batch_key: part.batch_key.as_ref(),
            count: part.items.len(),
            rejected: content.rejects.len(),
            format: self.rendering.format.name(),
            compression: self.rendering.compression.name(),
            hash: content.hash.to_string(),
        };
        to_json(part, &head)
    }

    /// Returns the payload that contains the content itself.
    fn inline(&self, part: &Part, head: Vec<u8>, content: &[u8]) -> Result<Vec<u8>, SinkError> {
        match self.rendering.format {
            Format::Envelope => {
                // A JSON string has no raw line breaks, so each line break separates two envelopes.
                let lines = content.strip_suffix(b"\n").unwrap_or(content);
                let mut list = Vec::with_capacity(lines.len() + 2);
                list.push(b'[');
                list.extend(lines.iter().map(|byte| match byte {
                    b'\n' => b',',
                    other => *other,
                }));
                list.push(b']');
                Ok(with_field(head, "items", &list))
            }
            Format::Body | Format::Csv { .. } | Format::FixedWidth(_) | Format::Parquet(_) => {
                let text = std::str::from_utf8(content).map_err(|error| SinkError::Permanent {
                    reason: format!("content of part {}: {error}", part.key()),
                })?;
                let value =
                    serde_json::to_vec(text).map_err(|error| render_failed(error.into()))?;
                Ok(with_field(head, "content", &value))
            }
        }
    }

    fn too_large(&self, part: &Part, bytes: Option<usize>, bytes_max: usize) -> SinkError {
        let key = part.key();
        let set = format!("set `{SINK_PAYLOADS}` to `s3://bucket/prefix`");
        let reason = match bytes {
            Some(bytes) => format!(
                "part {key}: payload too large: got {bytes} bytes, expected at most {bytes_max}; {set}, or lower `{MAX_PART_BYTES}`"
            ),
            None => format!(
                "part {key}: a payload contains only text: got the compression `{}` and the encoding `{}`, expected `none` and `utf-8`; {set}",
                self.rendering.compression.name(),
                self.rendering.layout.encoding.name()
            ),
        };
        SinkError::Permanent { reason }
    }
}

/// Appends a field to a JSON object; `value` is JSON already.
fn with_field(mut object: Vec<u8>, name: &str, value: &[u8]) -> Vec<u8> {
    object.reserve(name.len() + value.len() + 5);
    // Remove the closing brace.
    object.pop();
    object.extend_from_slice(b",\"");
    object.extend_from_slice(name.as_bytes());
    object.extend_from_slice(b"\":");
    object.extend_from_slice(value);
    object.push(b'}');
    object
}

fn to_json(part: &Part, value: &impl Serialize) -> Result<Vec<u8>, SinkError> {
    serde_json::to_vec(value).map_err(|error| SinkError::Permanent {
        reason: format!("payload of part {}: {error}", part.key()),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::stand_in::StandIn;
    use crate::tests_support::{BATCH, assert_has, part, reason, rendering};
    use forms::Compression;

    pub(crate) fn payloads(format: Format, s3: Option<&StandIn>) -> Payloads {
        let place = "s3://bucket/parts".parse().unwrap();
        Payloads {
            rendering: rendering(format, Compression::None),
            objects: s3.map(|s3| Objects::new(&s3.sdk(), &place)),
            rejects: None,
        }
    }

    async fn json(payloads: &Payloads, part: &Part, bytes_max: usize) -> Value {
        let payload = payloads.payload(part, bytes_max).await.unwrap();
        let again = payloads.payload(part, bytes_max).await.unwrap();
        assert_eq!(payload.json, again.json, "the same at every attempt");
        assert!(payload.json.len() <= bytes_max);
        serde_json::from_slice(&payload.json).unwrap()
    }

    /// Returns why a part has no payload, and never will have.
    async fn refusal(payloads: &Payloads, part: &Part, bytes_max: usize) -> String {
        let refused = payloads.payload(part, bytes_max).await;
        reason(refused.err().unwrap(), true)
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
    async fn the_other_formats_are_one_string_without_the_rejected_records() {
        let directory = tempfile::tempdir().unwrap();
        let mut payloads = payloads(Format::Body, None);
        let part = part(0, &["\"a\"", "b\n", "c"]);
        let reason = refusal(&payloads, &part, 10_000).await;
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
    async fn too_large_content_is_an_object_or_an_error_with_size_and_limit() {
        let s3 = StandIn::start().await;
        let part = part(1, &[&"a".repeat(200), &"b".repeat(300)]);
        let inline = payloads(Format::Body, None);
        let whole = inline.payload(&part, 10_000).await.unwrap();
        let size = whole.json.len();
        json(&inline, &part, size).await;
        let reason = refusal(&inline, &part, size - 1).await;
        let words = format!(
            "part {BATCH}/1: payload too large: got {size} bytes, expected at most {};",
            size - 1
        );
        assert_has(&reason, &[&words]);
        assert_has(&reason, &["set `SINK_PAYLOADS` to `s3://bucket/prefix`"]);
        // Once the content alone would fit, and once not even the content.
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
    async fn compressed_content_is_an_object_whatever_its_size() {
        let s3 = StandIn::start().await;
        let mut payloads = payloads(Format::Body, Some(&s3));
        payloads.rendering.compression = Compression::Gzip;
        let payload = json(&payloads, &part(0, &["a"]), 10_000).await;
        let key = format!("parts/{BATCH}/0.txt.gz");
        let expected = json!({"bucket": "bucket", "key": key, "bytes": 2});
        assert_eq!(payload["object"], expected);
        assert_eq!(payload["compression"], "gzip");
        payloads.objects = None;
        let reason = refusal(&payloads, &part(0, &["a"]), 10_000).await;
        assert!(reason.contains("set `SINK_PAYLOADS`"), "{reason}");
    }
}
