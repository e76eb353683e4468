//! Writes the JSON of Lambda's SQS event, record by record, into one buffer.
//!
//! The size limit is exact to the byte: a record that would exceed it is removed again, for the caller to put into the next
//! event.
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;

use crate::sqs::{Message, MessageAttribute};

const HEAD: &[u8] = br#"{"Records":["#;
const TAIL: &[u8] = b"]}";

/// The fields that all records of one queue share.
#[derive(Debug)]
pub(super) struct EventSource {
    arn: String,
    /// Whether a record without message attributes has `"md5OfMessageAttributes": null`.
    md5_is_null: bool,
}

impl EventSource {
    /// Makes the source of a queue, for a mapping with this batching window.
    ///
    /// On AWS, the record of a message without message attributes has no `md5OfMessageAttributes`, but has it as null if the
    /// mapping has a window. The source is in `tests/lambda_host/aws_snapshots.rs`.
    pub(super) fn new(queue_arn: &str, window: Duration) -> EventSource {
        EventSource {
            arn: queue_arn.to_owned(),
            md5_is_null: !window.is_zero(),
        }
    }

    fn record<'a>(&'a self, message: &'a Message) -> Record<'a> {
        let attributes = message.message_attributes.iter();
        let md5 = message.md5_of_message_attributes.as_deref();
        Record {
            message_id: &message.message_id,
            receipt_handle: &message.receipt_handle,
            body: &message.body,
            attributes: message.system_attributes(),
            message_attributes: attributes
                .map(|(name, attribute)| (name.as_str(), Attribute::of(attribute)))
                .collect(),
            md5_of_message_attributes: (md5.is_some() || self.md5_is_null).then_some(md5),
            md5_of_body: &message.md5_of_body,
            event_source: "aws:sqs",
            event_source_arn: &self.arn,
            // The fourth field of the ARN.
            aws_region: self.arn.split(':').nth(3).unwrap_or_default(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    message_id: &'a str,
    receipt_handle: &'a str,
    body: &'a str,
    attributes: BTreeMap<&'static str, String>,
    message_attributes: BTreeMap<&'a str, Attribute<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    md5_of_message_attributes: Option<Option<&'a str>>,
    md5_of_body: &'a str,
    event_source: &'static str,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: &'a str,
    aws_region: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Attribute<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    string_value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary_value: Option<String>,
    string_list_values: [(); 0],
    binary_list_values: [(); 0],
    data_type: &'a str,
}

impl Attribute<'_> {
    fn of(attribute: &MessageAttribute) -> Attribute<'_> {
        let binary_value = attribute.binary_value.as_ref();
        Attribute {
            string_value: attribute.string_value.as_deref(),
            binary_value: binary_value.map(|bytes| STANDARD.encode(bytes)),
            string_list_values: [],
            binary_list_values: [],
            data_type: &attribute.data_type,
        }
    }
}

/// The error for a record that would exceed the size limit. The event is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record does not fit the event: got {record_bytes} bytes")]
pub(super) struct DoesNotFit {
    record_bytes: usize,
}

/// An event that is being written.
#[derive(Debug)]
pub(super) struct EventWriter {
    json: Vec<u8>,
    records_count: usize,
    bytes_max: usize,
}

impl EventWriter {
    /// Makes an event without records, of at most `bytes_max` bytes when finished. `capacity` is the expected size, which saves
    /// reallocations.
    pub(super) fn new(bytes_max: usize, capacity: usize) -> EventWriter {
        let mut json = Vec::with_capacity(capacity.min(bytes_max).max(HEAD.len()));
        json.extend_from_slice(HEAD);
        EventWriter {
            json,
            records_count: 0,
            bytes_max,
        }
    }

    /// Appends a record.
    ///
    /// # Errors
    /// [`DoesNotFit`] if the finished event would exceed its limit. The record is not appended.
    pub(super) fn push(
        &mut self,
        source: &EventSource,
        message: &Message,
    ) -> Result<(), DoesNotFit> {
        let end = self.json.len();
        if self.records_count > 0 {
            self.json.push(b',');
        }
        let start = self.json.len();
        serde_json::to_writer(&mut self.json, &source.record(message))
            .expect("texts serialize, and a vector takes every write");
        if self.json.len() + TAIL.len() > self.bytes_max {
            let record_bytes = self.json.len() - start;
            self.json.truncate(end);
            return Err(DoesNotFit { record_bytes });
        }
        self.records_count += 1;
        Ok(())
    }

    /// Returns the number of records so far.
    pub(super) fn records_count(&self) -> usize {
        self.records_count
    }

    /// Returns the complete JSON.
    pub(super) fn finish(mut self) -> Bytes {
        self.json.extend_from_slice(TAIL);
        Bytes::from(self.json)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    const ARN: &str = "arn:aws:sqs:eu-central-1:000000000000:input-queue";

    #[test]
    fn a_record_has_every_field_lambda_sends() {
        let mut message = message("say \"hi\"\n\u{1F980}\u{1}");
        message.message_group_id = Some("tenant-1".into());
        message.trace_header = Some("Root=1-1-1".into());
        message.dead_letter_source_arn =
            Some("arn:aws:sqs:eu-central-1:000000000000:source".into());
        message.md5_of_message_attributes = Some("cafe".into());
        let blob = MessageAttribute::binary(*b"any carnal pleas");
        let name = MessageAttribute::string("v\"1");
        let attributes = [("blob".to_owned(), blob), ("name".to_owned(), name)];
        message.message_attributes = Arc::new(attributes.into());
        let expected = json!({"Records": [{
            "messageId": "m-1",
            "receiptHandle": "r-1",
            "body": "say \"hi\"\n\u{1F980}\u{1}",
            "attributes": {
                "ApproximateReceiveCount": "2",
                "SentTimestamp": "1700000000000",
                "SenderId": "AIDA",
                "ApproximateFirstReceiveTimestamp": "1700000000500",
                "MessageGroupId": "tenant-1",
                "AWSTraceHeader": "Root=1-1-1",
                "DeadLetterQueueSourceArn": "arn:aws:sqs:eu-central-1:000000000000:source",
            },
            "messageAttributes": {
                "blob": {"binaryValue": "YW55IGNhcm5hbCBwbGVhcw==", "stringListValues": [], "binaryListValues": [], "dataType": "Binary"},
                "name": {"stringValue": "v\"1", "stringListValues": [], "binaryListValues": [], "dataType": "String"},
            },
            "md5OfMessageAttributes": "cafe",
            "md5OfBody": "beef",
            "eventSource": "aws:sqs",
            "eventSourceARN": ARN,
            "awsRegion": "eu-central-1",
        }]});
        let event = written(&[message]);
        assert_eq!(serde_json::from_slice::<Value>(&event).unwrap(), expected);
    }

    #[test]
    fn the_crate_aws_lambda_events_reads_the_event() {
        let mut message = message("x");
        let blob = MessageAttribute::binary([0, 255]);
        message.message_attributes = Arc::new([("blob".to_owned(), blob)].into());
        let event: aws_lambda_events::sqs::SqsEvent =
            serde_json::from_slice(&written(&[message])).unwrap();
        let record = &event.records[0];
        assert_eq!(record.message_id.as_deref(), Some("m-1"));
        assert_eq!(record.attributes["ApproximateReceiveCount"], "2");
        let blob = record.message_attributes["blob"].binary_value.as_ref();
        assert_eq!(blob.unwrap().0, [0, 255]);
    }

    #[test]
    fn the_limit_is_exact_to_the_byte() {
        let source = EventSource::new(ARN, Duration::ZERO);
        // The quote takes two bytes when escaped.
        let messages = [message("one \""), message("two")];
        let exact = written(&messages).len();
        for (bytes_max, fits) in [(exact, true), (exact - 1, false)] {
            let mut event = EventWriter::new(bytes_max, 0);
            event.push(&source, &messages[0]).unwrap();
            assert_eq!(event.push(&source, &messages[1]).is_ok(), fits);
            let finished = event.finish();
            assert!(finished.len() <= bytes_max);
            let read: Value = serde_json::from_slice(&finished).unwrap();
            let records = read["Records"].as_array().unwrap().len();
            assert_eq!(records, if fits { 2 } else { 1 });
        }
    }

    #[test]
    fn the_error_of_a_record_that_exceeds_the_limit_has_its_size() {
        let source = EventSource::new(ARN, Duration::ZERO);
        let alone = written(&[message("x")]).len();
        let mut event = EventWriter::new(alone - 1, 0);
        let refused = event.push(&source, &message("x")).unwrap_err();
        assert_eq!(refused.record_bytes, alone - HEAD.len() - TAIL.len());
        assert_eq!(event.records_count(), 0);
        assert_eq!(&*event.finish(), br#"{"Records":[]}"#);
    }

    fn written(messages: &[Message]) -> Bytes {
        let source = EventSource::new(ARN, Duration::ZERO);
        let mut event = EventWriter::new(usize::MAX, 0);
        for message in messages {
            event.push(&source, message).unwrap();
        }
        event.finish()
    }

    fn message(body: &str) -> Message {
        Message {
            message_id: "m-1".into(),
            receipt_handle: "r-1".into(),
            body: body.into(),
            md5_of_body: "beef".into(),
            receive_count: 2,
            sent_ms: 1_700_000_000_000,
            first_receive_ms: 1_700_000_000_500,
            sender_id: "AIDA".into(),
            ..Message::default()
        }
    }
}
