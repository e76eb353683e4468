//! Writes the JSON of Lambda's SQS event, record by record, into one buffer.
//!
//! The size limit is exact to the byte: a record that would exceed it is removed again, for the caller to put into the next
//! event. `serde_json` escapes the strings.
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;

use crate::sqs::{Message, MessageAttribute};

const HEAD: &[u8] = br#"{"Records":["#;
const TAIL: &[u8] = b"]}";

/// The fields that all records of one queue share.
#[derive(Clone, Debug)]
pub struct EventSource {
    /// Whether a record without message attributes has `"md5OfMessageAttributes": null`.
    md5_is_null: bool,
    /// JSON of the fields `eventSource`, `eventSourceARN` and `awsRegion`, with the closing brace of the record.
    record_end: Vec<u8>,
}

impl EventSource {
    /// Makes the source of a queue, for a mapping with this batching window. The region is the fourth field of the ARN.
    ///
    /// On AWS, the record of a message without message attributes has no `md5OfMessageAttributes`, but has it as null if the
    /// mapping has a window. The source is in `tests/lambda_host/aws_snapshots.rs`.
    pub fn new(queue_arn: &str, window: Duration) -> EventSource {
        let region = queue_arn.split(':').nth(3).unwrap_or_default();
        let mut record_end = br#","eventSource":"aws:sqs","eventSourceARN":"#.to_vec();
        string(&mut record_end, queue_arn);
        record_end.extend_from_slice(br#","awsRegion":"#);
        string(&mut record_end, region);
        record_end.push(b'}');
        EventSource {
            md5_is_null: !window.is_zero(),
            record_end,
        }
    }
}

/// The error for a record that would exceed the size limit. The event is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record does not fit the event: got {record_bytes} bytes")]
pub struct DoesNotFit {
    /// Size of the record.
    pub record_bytes: usize,
}

/// An event that is being written.
#[derive(Debug)]
pub struct EventWriter {
    json: Vec<u8>,
    records_count: usize,
    bytes_max: usize,
}

impl EventWriter {
    /// Makes an event without records, of at most `bytes_max` bytes when finished. `capacity` is the expected size, which saves
    /// reallocations.
    pub fn new(bytes_max: usize, capacity: usize) -> EventWriter {
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
    pub fn push(&mut self, source: &EventSource, message: &Message) -> Result<(), DoesNotFit> {
        let before = self.json.len();
        if self.records_count > 0 {
            self.json.push(b',');
        }
        record(&mut self.json, message, source.md5_is_null);
        self.json.extend_from_slice(&source.record_end);
        if self.json.len() + TAIL.len() > self.bytes_max {
            let record_bytes = self.json.len() - before - usize::from(self.records_count > 0);
            self.json.truncate(before);
            return Err(DoesNotFit { record_bytes });
        }
        self.records_count += 1;
        Ok(())
    }

    /// Returns the number of records so far.
    pub fn records_count(&self) -> usize {
        self.records_count
    }

    /// Returns the complete JSON.
    pub fn finish(mut self) -> Bytes {
        self.json.extend_from_slice(TAIL);
        Bytes::from(self.json)
    }
}

fn record(json: &mut Vec<u8>, message: &Message, md5_is_null: bool) {
    json.extend_from_slice(br#"{"messageId":"#);
    string(json, &message.message_id);
    json.extend_from_slice(br#","receiptHandle":"#);
    string(json, &message.receipt_handle);
    json.extend_from_slice(br#","body":"#);
    string(json, &message.body);
    json.extend_from_slice(br#","attributes":{"ApproximateReceiveCount":""#);
    value(json, &message.receive_count);
    json.extend_from_slice(br#"","SentTimestamp":""#);
    value(json, &message.sent_ms);
    json.extend_from_slice(br#"","SenderId":"#);
    string(json, &message.sender_id);
    json.extend_from_slice(br#","ApproximateFirstReceiveTimestamp":""#);
    value(json, &message.first_receive_ms);
    json.push(b'"');
    let optional: [(&[u8], &Option<String>); 3] = [
        (br#","MessageGroupId":"#, &message.message_group_id),
        (br#","AWSTraceHeader":"#, &message.trace_header),
        (
            br#","DeadLetterQueueSourceArn":"#,
            &message.dead_letter_source_arn,
        ),
    ];
    for (name, attribute) in optional {
        if let Some(attribute) = attribute {
            json.extend_from_slice(name);
            string(json, attribute);
        }
    }
    json.extend_from_slice(br#"},"messageAttributes":{"#);
    for (position, (name, attribute)) in message.message_attributes.iter().enumerate() {
        if position > 0 {
            json.push(b',');
        }
        message_attribute(json, name, attribute);
    }
    json.push(b'}');
    if let Some(md5) = &message.md5_of_message_attributes {
        json.extend_from_slice(br#","md5OfMessageAttributes":"#);
        string(json, md5);
    } else if md5_is_null {
        json.extend_from_slice(br#","md5OfMessageAttributes":null"#);
    }
    json.extend_from_slice(br#","md5OfBody":"#);
    string(json, &message.md5_of_body);
}

fn message_attribute(json: &mut Vec<u8>, name: &str, attribute: &MessageAttribute) {
    string(json, name);
    json.extend_from_slice(b":{");
    if let Some(text) = &attribute.string_value {
        json.extend_from_slice(br#""stringValue":"#);
        string(json, text);
        json.push(b',');
    }
    if let Some(bytes) = &attribute.binary_value {
        json.extend_from_slice(br#""binaryValue":"#);
        string(json, &STANDARD.encode(bytes));
        json.push(b',');
    }
    json.extend_from_slice(br#""stringListValues":[],"binaryListValues":[],"dataType":"#);
    string(json, &attribute.data_type);
    json.push(b'}');
}

/// Writes a string with its quotes.
fn string(json: &mut Vec<u8>, text: &str) {
    value(json, text);
}

fn value<T: Serialize + ?Sized>(json: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(json, value)
        .expect("strings and integers serialize, and a vector takes every write");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
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
        message.message_attributes = Arc::new(BTreeMap::from([
            (
                "blob".to_owned(),
                attribute("Binary", None, Some(b"any carnal pleas")),
            ),
            ("name".to_owned(), attribute("String", Some("v\"1"), None)),
        ]));
        let event = written(&[message]);
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
        assert_eq!(serde_json::from_slice::<Value>(&event).unwrap(), expected);
    }

    #[test]
    fn the_crate_aws_lambda_events_reads_the_event() {
        let mut message = message("x");
        message.message_attributes = Arc::new(BTreeMap::from([(
            "blob".to_owned(),
            attribute("Binary", None, Some(&[0, 255])),
        )]));
        let event: aws_lambda_events::sqs::SqsEvent =
            serde_json::from_slice(&written(&[message])).unwrap();
        let record = &event.records[0];
        assert_eq!(record.message_id.as_deref(), Some("m-1"));
        assert_eq!(record.attributes["ApproximateReceiveCount"], "2");
        assert_eq!(
            record.message_attributes["blob"]
                .binary_value
                .as_ref()
                .unwrap()
                .0,
            [0, 255]
        );
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
            let records = serde_json::from_slice::<Value>(&finished).unwrap()["Records"]
                .as_array()
                .unwrap()
                .len();
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
        assert_eq!(
            (event.records_count(), &*event.finish()),
            (0, &br#"{"Records":[]}"#[..])
        );
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
            message_attributes: Arc::default(),
            md5_of_message_attributes: None,
            receive_count: 2,
            sent_ms: 1_700_000_000_000,
            first_receive_ms: 1_700_000_000_500,
            sender_id: "AIDA".into(),
            message_group_id: None,
            trace_header: None,
            dead_letter_source_arn: None,
        }
    }

    fn attribute(data_type: &str, text: Option<&str>, bytes: Option<&[u8]>) -> MessageAttribute {
        MessageAttribute {
            data_type: data_type.into(),
            string_value: text.map(str::to_owned),
            binary_value: bytes.map(<[u8]>::to_vec),
        }
    }
}
