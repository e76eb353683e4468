//! The event as Lambda hands it over: of every message what is needed of it, read in place.
//!
//! An event of SQS is mostly text that nobody asks for: receipt handles, checksums, counters. It is skipped without
//! being kept, and so checked only for its shape; the types of `aws_lambda_events` would have a string of each.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aws_lambda_events::event::sqs::SqsMessageAttribute;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// The payload is no SQS event: where, and why.
#[derive(Debug, thiserror::Error)]
#[error("payload is no SQS event: {0}")]
pub struct MalformedEvent(#[source] serde_path_to_error::Error<serde_json::Error>);

/// The messages of one invocation.
#[derive(Debug, Deserialize)]
pub struct Event<'a> {
    /// One for each message, in order.
    #[serde(borrow, rename = "Records")]
    pub records: Vec<Message<'a>>,
}

impl<'a> Event<'a> {
    /// Reads an event.
    ///
    /// # Errors
    /// [`MalformedEvent`], with the path to what is wrong; the same text fails every time.
    pub fn parse(json: &'a str) -> Result<Event<'a>, MalformedEvent> {
        // To know the path costs more than to read the event: only one that is wrong is read that way.
        serde_json::from_str(json).or_else(|_| {
            let mut json = serde_json::Deserializer::from_str(json);
            let event = serde_path_to_error::deserialize(&mut json).map_err(MalformedEvent)?;
            Ok(event)
        })
    }
}

/// One message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message<'a> {
    /// What it is answered with.
    #[serde(borrow)]
    pub message_id: Option<Text<'a>>,
    /// What it carries.
    pub body: Option<Body>,
    /// What SQS says about it.
    pub attributes: Option<Attributes>,
    /// What its sender says about it.
    pub message_attributes: Option<BTreeMap<String, SqsMessageAttribute>>,
    /// The queue it was in.
    #[serde(borrow, rename = "eventSourceARN")]
    pub event_source_arn: Option<Text<'a>>,
}

/// A string, borrowed unless it has escapes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Text<'_> {
    /// The string itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A body: a string that is kept, made once.
#[derive(Debug)]
pub struct Body(pub Arc<str>);

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Body, D::Error> {
        struct Copied;

        impl Visitor<'_> for Copied {
            type Value = Body;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Body, E> {
                Ok(Body(text.into()))
            }
        }

        deserializer.deserialize_str(Copied)
    }
}

/// What SQS says about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// When it was sent, if that is a number.
    pub sent_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(field_identifier)]
enum AttributeName {
    SentTimestamp,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Attributes, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = Attributes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Attributes, A::Error> {
                let mut sent_ms = None;
                while let Some(name) = map.next_key()? {
                    match name {
                        AttributeName::SentTimestamp => {
                            sent_ms = map.next_value::<Text<'de>>()?.as_str().parse().ok();
                        }
                        AttributeName::Other => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(Attributes { sent_ms })
            }
        }

        deserializer.deserialize_map(Names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_of_a_message_is_read_and_the_rest_is_skipped() {
        let json = r#"{"Records":[{
            "messageId":"m0","receiptHandle":7,"body":"{\"a\":\"\u00e9\"}","md5OfBody":null,
            "attributes":{"SenderId":[],"SentTimestamp":"1","SentTimestamp":"2"},
            "messageAttributes":{"n":{"stringValue":"v","dataType":"String"}},"eventSourceARN":"arn:q","new":{}
        },{"attributes":null,"messageAttributes":null,"body":null}],"more":1e999}"#;
        let event = Event::parse(json).unwrap();
        let [first, second] = &event.records[..] else {
            panic!("two messages");
        };
        assert_eq!(first.message_id.as_ref().unwrap().as_str(), "m0");
        assert!(matches!(first.message_id, Some(Text(Cow::Borrowed(_)))));
        assert_eq!(&*first.body.as_ref().unwrap().0, "{\"a\":\"\u{e9}\"}");
        assert_eq!(first.attributes, Some(Attributes { sent_ms: Some(2) }));
        let attribute = &first.message_attributes.as_ref().unwrap()["n"];
        assert_eq!(attribute.string_value.as_deref(), Some("v"));
        assert_eq!(first.event_source_arn.as_ref().unwrap().as_str(), "arn:q");
        assert!(second.message_id.is_none() && second.body.is_none());
        assert!(second.attributes.is_none() && second.message_attributes.is_none());
    }

    #[test]
    fn what_is_no_event_is_refused_with_the_place_of_what_is_wrong() {
        for (json, words) in [
            ("{}", "missing field `Records`"),
            ("[", "EOF while parsing"),
            (r#"{"Records":null}"#, "Records: invalid type: null"),
            (
                r#"{"Records":[{},{"body":5}]}"#,
                "Records[1].body: invalid type: integer `5`, expected a string at line 1 column 25",
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
            let error = Event::parse(json).map(|_| ()).unwrap_err().to_string();
            assert!(error.starts_with("payload is no SQS event: "), "{error}");
            assert!(error.contains(words), "{words} in {error}");
        }
    }
}
