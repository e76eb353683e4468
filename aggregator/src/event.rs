//! The event as Lambda hands it over: of every message what is needed of it.
//!
//! An event of SQS is mostly text that nobody asks for: receipt handles, checksums, counters. It is skipped, and so
//! checked only for being JSON; the types of `aws_lambda_events` would make a string of each. Of what is kept, every
//! string is made once, and the source once for all messages that have the same.
//!
//! [`crate::payload`] sees to it that the event can be read here, and not by `lambda_runtime`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aws_lambda_events::event::sqs::SqsMessageAttribute;
use protocol::ids::{SourceArn, SqsMessageId};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The messages of one invocation.
#[derive(Debug, Deserialize)]
pub struct Event {
    #[serde(rename = "Records")]
    records: Records,
}

/// The payload is no SQS event: where, and why.
#[derive(Debug, thiserror::Error)]
#[error("payload is no SQS event: {0}")]
pub struct MalformedEvent(#[source] serde_path_to_error::Error<serde_json::Error>);

impl Event {
    /// Reads an event.
    ///
    /// # Errors
    /// [`MalformedEvent`], with the path to what is wrong; the same payload fails every time.
    pub fn parse(payload: &[u8]) -> Result<Event, MalformedEvent> {
        // Text by text, or with the path to where it is, it costs more: only one that is wrong is read that way.
        let text = std::str::from_utf8(payload).ok();
        if let Some(event) = text.and_then(|text| serde_json::from_str(text).ok()) {
            return Ok(event);
        }
        let mut json = serde_json::Deserializer::from_slice(payload);
        serde_path_to_error::deserialize(&mut json).map_err(MalformedEvent)
    }

    /// The messages, in order.
    pub fn into_messages(self) -> Vec<Message> {
        self.records.0
    }
}

/// One message.
#[derive(Debug, Default)]
pub struct Message {
    /// What it is answered with, if that is an id.
    pub sqs_message_id: Option<SqsMessageId>,
    /// The queue it was in, if that is an ARN.
    pub source: Option<SourceArn>,
    /// What it carries.
    pub body: Option<Arc<str>>,
    /// When it was sent, in milliseconds, if that is a number.
    pub sent_ms: Option<u64>,
    /// What its sender says about it.
    pub attributes: BTreeMap<String, SqsMessageAttribute>,
}

#[derive(Debug)]
struct Records(Vec<Message>);

impl<'de> Deserialize<'de> for Records {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Records, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Records;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Records, A::Error> {
                let mut messages = Vec::new();
                let mut source = None;
                while let Some(message) = list.next_element_seed(OneMessage(&mut source))? {
                    messages.push(message);
                }
                Ok(Records(messages))
            }
        }

        deserializer.deserialize_seq(List)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    MessageId,
    Body,
    Attributes,
    MessageAttributes,
    #[serde(rename = "eventSourceARN")]
    EventSourceArn,
    #[serde(other)]
    Other,
}

/// Reads a message, beside the source of the one before it.
struct OneMessage<'s>(&'s mut Option<SourceArn>);

impl<'de> DeserializeSeed<'de> for OneMessage<'_> {
    type Value = Message;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Message, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OneMessage<'_> {
    type Value = Message;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Message, A::Error> {
        let OneMessage(last) = self;
        let mut message = Message::default();
        while let Some(field) = map.next_key()? {
            match field {
                Field::MessageId => {
                    let id = map.next_value_seed(text(|id| SqsMessageId::try_from(id).ok()))?;
                    message.sqs_message_id = id.flatten();
                }
                Field::Body => message.body = map.next_value_seed(text(|body| body.into()))?,
                Field::EventSourceArn => {
                    let source = map.next_value_seed(text(|arn| source(arn, last)))?;
                    message.source = source.flatten();
                }
                Field::Attributes => {
                    let SentTimestamp(sent_ms) = map.next_value()?;
                    message.sent_ms = sent_ms;
                }
                Field::MessageAttributes => {
                    message.attributes = map.next_value::<Option<_>>()?.unwrap_or_default();
                }
                Field::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(message)
    }
}

/// As a rule the messages of an event are of one queue.
fn source(arn: &str, last: &mut Option<SourceArn>) -> Option<SourceArn> {
    if let Some(last) = last
        && last.as_str() == arn
    {
        return Some(last.clone());
    }
    *last = SourceArn::try_from(arn).ok();
    last.clone()
}

/// Makes something of a string; nothing of a null.
fn text<T, F: FnOnce(&str) -> T>(make: F) -> Text<F> {
    Text(make)
}

struct Text<F>(F);

impl<'de, T, F: FnOnce(&str) -> T> DeserializeSeed<'de> for Text<F> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<T, F: FnOnce(&str) -> T> Visitor<'_> for Text<F> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<T>, E> {
        Ok(Some(self.0(text)))
    }
}

/// The one of the attributes by SQS that is needed.
struct SentTimestamp(Option<u64>);

#[derive(Deserialize)]
#[serde(field_identifier)]
enum Attribute {
    SentTimestamp,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for SentTimestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SentTimestamp, D::Error> {
        struct Attributes;

        impl<'de> Visitor<'de> for Attributes {
            type Value = SentTimestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_unit<E>(self) -> Result<SentTimestamp, E> {
                Ok(SentTimestamp(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SentTimestamp, A::Error> {
                let mut sent_ms = None;
                while let Some(attribute) = map.next_key()? {
                    match attribute {
                        Attribute::SentTimestamp => {
                            let sent = map.next_value_seed(text(|text| text.parse().ok()))?;
                            sent_ms = sent.flatten();
                        }
                        Attribute::Other => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(SentTimestamp(sent_ms))
            }
        }

        deserializer.deserialize_any(Attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(json: &str) -> Result<Vec<Message>, String> {
        let event = Event::parse(json.as_bytes());
        event
            .map(Event::into_messages)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_needed_of_a_message_is_read_and_the_rest_is_skipped() {
        let json = r#"{"Records":[{
            "messageId":"m0","receiptHandle":7,"body":"{\"a\":\"\u00e9\"}","md5OfBody":null,
            "attributes":{"SenderId":[],"SentTimestamp":"1","SentTimestamp":"2"},
            "messageAttributes":{"n":{"stringValue":"v","dataType":"String"}},"eventSourceARN":"arn:q","new":{}
        },{"attributes":null,"messageAttributes":null,"body":null,"messageId":null,"eventSourceARN":null},{},
        {"attributes":{"SentTimestamp":"soon"},"messageId":"","eventSourceARN":""}],"more":1e999}"#;
        let messages = messages(json).unwrap();
        assert_eq!(messages.len(), 4);
        let first = &messages[0];
        assert_eq!(first.sqs_message_id, "m0".parse().ok());
        assert_eq!(first.source, "arn:q".parse().ok());
        assert_eq!(first.body.as_deref(), Some("{\"a\":\"\u{e9}\"}"));
        assert_eq!(first.sent_ms, Some(2));
        assert_eq!(first.attributes["n"].string_value.as_deref(), Some("v"));
        for message in &messages[1..] {
            let nothing = format!("{:?}", Message::default());
            assert_eq!(format!("{message:?}"), nothing);
        }
    }

    #[test]
    fn messages_of_one_queue_share_its_name_and_others_have_their_own() {
        let records = ["q1", "q1", "q2", "", "q1"]
            .map(|arn| format!(r#"{{"eventSourceARN":"{arn}"}}"#))
            .join(",");
        let messages = messages(&format!(r#"{{"Records":[{records}]}}"#)).unwrap();
        let sources: Vec<_> = messages
            .iter()
            .map(|message| message.source.as_ref().map(SourceArn::as_str))
            .collect();
        assert_eq!(
            sources,
            [Some("q1"), Some("q1"), Some("q2"), None, Some("q1")]
        );
        let text = |index: usize| messages[index].source.as_ref().unwrap().as_str();
        assert!(std::ptr::eq(text(0), text(1)));
    }

    #[test]
    fn what_is_no_event_is_refused_with_the_place_of_what_is_wrong() {
        for (json, words) in [
            ("{}", "missing field `Records`"),
            ("[", "EOF while parsing"),
            (
                r#"{"Records":null}"#,
                "Records: invalid type: null, expected a list of messages",
            ),
            (
                r#"{"Records":[{},{"body":5}]}"#,
                "Records[1].body: invalid type: integer `5`, expected a string at line 1 column 24",
            ),
            (
                r#"{"Records":[{"attributes":{"SentTimestamp":1}}]}"#,
                "Records[0].attributes.SentTimestamp: invalid type",
            ),
            (
                r#"{"Records":[{"messageId":"\ud800"}]}"#,
                "Records[0].messageId: unexpected end of hex escape",
            ),
        ] {
            let error = messages(json).unwrap_err();
            assert!(error.contains(words), "{words} in {error}");
        }
    }
}
