//! Reading an SQS event: every message by itself, a bad one alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage, SqsMessageAttribute};
use jmespath::{Rcvar, Variable};
use shared::ids::{BatchKey, BodyHash, EventId, IdError, SourceArn, SqsMessageId};
use shared::limits::DYNAMODB_ITEM_BYTES_MAX;
use shared::protocol::allocator::Slot;
use shared::protocol::claim::Candidate;
use shared::time::Timestamp;

use crate::config::Config;
use crate::event_id::{EventIdRule, ExpressionError};

/// What is wrong with a message that can never be claimed.
#[derive(Debug, thiserror::Error)]
pub enum BadRecord {
    /// No body.
    #[error("message has no body")]
    NoBody,
    /// JSON is needed for the event id or the batch key.
    #[error("body is not JSON, which `{needed_by}` needs: {message}")]
    NotJson {
        /// The variable that needs it.
        needed_by: &'static str,
        /// What the parser says.
        message: String,
    },
    /// The attribute that should hold the event id is missing.
    #[error("message has no attribute `{name}` with a string value, which `EVENT_ID` needs")]
    NoAttribute {
        /// Its name.
        name: String,
    },
    /// The expression for the event id or the batch key finds no text.
    #[error("`{needed_by}`: {source}")]
    Expression {
        /// The variable that has the expression.
        needed_by: &'static str,
        #[source]
        /// What it found.
        source: ExpressionError,
    },
    /// The text found cannot be an id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Larger than an item of the lock table may be.
    #[error("message needs an item of `{bytes}` bytes, at most {max} can be stored")]
    TooLarge {
        /// What it would need.
        bytes: usize,
        /// What there is.
        max: usize,
    },
}

/// The event names nothing that could be answered for: not an SQS event, or a message without an id.
#[derive(Debug, thiserror::Error)]
#[error(
    "record {index} of the event has no message id; nothing can be reported for it, so the event fails whole"
)]
pub struct NoMessageId {
    /// Its position in the event.
    pub index: usize,
}

/// One message of the event.
#[derive(Debug)]
pub struct Record {
    /// Its id: what is answered with.
    pub sqs_message_id: SqsMessageId,
    /// Where it came from.
    pub source: SourceArn,
    /// What it carries.
    pub content: Result<Good, Bad>,
}

/// A message that can be claimed.
#[derive(Debug)]
pub struct Good {
    /// The event.
    pub candidate: Candidate,
    /// Whose batch it goes into.
    pub slot: Slot,
}

/// A message that cannot.
#[derive(Debug)]
pub struct Bad {
    /// What is wrong.
    pub reason: BadRecord,
    /// Its event id, if that much could be read.
    pub event_id: Option<EventId>,
    /// Its body.
    pub body: Arc<str>,
}

/// Reads every message of an event.
///
/// # Errors
/// [`NoMessageId`] when a message cannot be named in the answer: then only failing the whole event loses nothing.
pub fn read(event: SqsEvent, config: &Config, now: Timestamp) -> Result<Vec<Record>, NoMessageId> {
    event
        .records
        .into_iter()
        .enumerate()
        .map(|(index, message)| read_one(index, message, config, now))
        .collect()
}

fn read_one(
    index: usize,
    message: SqsMessage,
    config: &Config,
    now: Timestamp,
) -> Result<Record, NoMessageId> {
    let id = message
        .message_id
        .as_deref()
        .and_then(|id| SqsMessageId::try_from(id).ok());
    let sqs_message_id = id.ok_or(NoMessageId { index })?;
    // A direct invocation may leave the ARN out; such records share the batches of one nameless source.
    let arn = message.event_source_arn.as_deref().unwrap_or("unknown");
    let source = SourceArn::try_from(arn).unwrap_or_else(|_| {
        SourceArn::try_from("unknown").expect("a short constant is a valid source")
    });
    let body: Arc<str> = message.body.as_deref().unwrap_or_default().into();
    let mut event_id = None;
    let content = content(
        &message,
        &sqs_message_id,
        &source,
        &body,
        config,
        now,
        &mut event_id,
    )
    .map_err(|reason| Bad {
        reason,
        event_id,
        body,
    });
    Ok(Record {
        sqs_message_id,
        source,
        content,
    })
}

fn content(
    message: &SqsMessage,
    sqs_message_id: &SqsMessageId,
    source: &SourceArn,
    body: &Arc<str>,
    config: &Config,
    now: Timestamp,
    event_id_read: &mut Option<EventId>,
) -> Result<Good, BadRecord> {
    if message.body.is_none() {
        return Err(BadRecord::NoBody);
    }
    let body_hash = BodyHash::of(body.as_bytes());
    let json = JsonBody::new(body);
    let id = match &config.event_id {
        EventIdRule::MessageId => sqs_message_id.to_string(),
        EventIdRule::BodyHash => body_hash.to_string(),
        EventIdRule::Attribute(name) => message
            .message_attributes
            .get(name)
            .and_then(|attribute| attribute.string_value.clone())
            .ok_or_else(|| BadRecord::NoAttribute { name: name.clone() })?,
        EventIdRule::Json(expression) => json.find(expression, crate::config::EVENT_ID)?,
    };
    // The check for emptiness comes before the prefix: a prefix alone would be one id for every nameless event.
    let event_id = match EventId::try_from(id)? {
        id if config.event_id_prefix.is_empty() => id,
        id => EventId::try_from(format!("{}{id}", config.event_id_prefix))?,
    };
    *event_id_read = Some(event_id.clone());
    let key = match &config.batch_key {
        None => None,
        Some(expression) => Some(BatchKey::try_from(
            json.find(expression, crate::config::BATCH_KEY)?,
        )?),
    };
    let sent = message
        .attributes
        .get("SentTimestamp")
        .and_then(|text| text.parse().ok());
    let candidate = Candidate {
        event_id,
        sqs_message_id: sqs_message_id.clone(),
        body_hash,
        body: body.clone(),
        source: source.clone(),
        sent_at: sent.map_or(now, Timestamp::from_ms),
        attributes: attributes_text(&message.message_attributes),
    };
    let bytes = candidate.item_bytes();
    if bytes > DYNAMODB_ITEM_BYTES_MAX {
        return Err(BadRecord::TooLarge {
            bytes,
            max: DYNAMODB_ITEM_BYTES_MAX,
        });
    }
    Ok(Good {
        candidate,
        slot: Slot {
            source: source.clone(),
            key,
        },
    })
}

/// A body that is parsed at most once, and only if somebody asks.
struct JsonBody<'a> {
    text: &'a str,
    parsed: std::cell::OnceCell<Result<Rcvar, String>>,
}

impl<'a> JsonBody<'a> {
    fn new(text: &'a str) -> JsonBody<'a> {
        JsonBody {
            text,
            parsed: std::cell::OnceCell::new(),
        }
    }

    fn find(
        &self,
        expression: &crate::event_id::Expression,
        needed_by: &'static str,
    ) -> Result<String, BadRecord> {
        let parsed = self
            .parsed
            .get_or_init(|| Variable::from_json(self.text).map(Rcvar::new));
        match parsed {
            Ok(body) => expression
                .text(body)
                .map_err(|source| BadRecord::Expression { needed_by, source }),
            Err(message) => Err(BadRecord::NotJson {
                needed_by,
                message: message.clone(),
            }),
        }
    }
}

fn attributes_text(attributes: &HashMap<String, SqsMessageAttribute>) -> Option<Arc<str>> {
    if attributes.is_empty() {
        return None;
    }
    let sorted: BTreeMap<&String, &SqsMessageAttribute> = attributes.iter().collect();
    Some(
        serde_json::to_string(&sorted)
            .expect("attributes came from JSON")
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests_support::config;

    fn read_bodies(config: &Config, messages: serde_json::Value) -> Vec<Record> {
        let event: SqsEvent =
            serde_json::from_value(serde_json::json!({ "Records": messages })).unwrap();
        read(event, config, Timestamp::from_ms(5)).unwrap()
    }

    fn reason(record: &Record) -> String {
        record.content.as_ref().unwrap_err().reason.to_string()
    }

    #[test]
    fn a_bad_message_is_named_and_leaves_its_neighbours_alone() {
        let config = config(&[("EVENT_ID", "json:id")]);
        let records = read_bodies(
            &config,
            serde_json::json!([
                { "messageId": "m0", "body": r#"{"id":"e0"}"#, "eventSourceARN": "arn:q" },
                { "messageId": "m1", "body": "not json" },
                { "messageId": "m2", "body": r#"{"no":"id"}"# },
                { "messageId": "m3" },
                { "messageId": "m4", "body": format!(r#"{{"id":"e4","pad":"{}"}}"#, "x".repeat(409_600)) },
                { "messageId": "m5", "body": format!(r#"{{"id":"{}"}}"#, "x".repeat(2_049)) },
                { "messageId": "m6", "body": r#"{"id":"e6"}"#, "attributes": { "SentTimestamp": "77" } },
            ]),
        );
        let good = |index: usize| records[index].content.as_ref().unwrap();
        assert_eq!(good(0).candidate.event_id.as_str(), "e0");
        assert_eq!(good(0).slot.source.as_str(), "arn:q");
        assert_eq!(good(0).candidate.sent_at, Timestamp::from_ms(5));
        assert_eq!(good(6).candidate.sent_at, Timestamp::from_ms(77));
        assert!(reason(&records[1]).starts_with("body is not JSON, which `EVENT_ID` needs"));
        assert_eq!(reason(&records[2]), "`EVENT_ID`: `id` finds nothing");
        assert_eq!(reason(&records[3]), "message has no body");
        assert!(reason(&records[4]).contains("at most 409600 can be stored"));
        assert_eq!(
            records[4]
                .content
                .as_ref()
                .unwrap_err()
                .event_id
                .as_ref()
                .unwrap()
                .as_str(),
            "e4"
        );
        assert_eq!(
            reason(&records[5]),
            "event id has `2049` bytes, at most 2048 are allowed"
        );
    }

    #[test]
    fn a_message_without_an_id_fails_the_event_because_it_cannot_be_named() {
        let event =
            serde_json::json!({ "Records": [{ "messageId": "m0", "body": "" }, { "body": "x" }] });
        let event: SqsEvent = serde_json::from_value(event).unwrap();
        let error = read(event, &config(&[]), Timestamp::EPOCH).unwrap_err();
        assert_eq!(error.index, 1);
    }

    #[test]
    fn every_rule_finds_its_id() {
        let message = serde_json::json!([{
            "messageId": "m0",
            "body": r#"{"customer":"c","day":3}"#,
            "messageAttributes": { "order": { "dataType": "String", "stringValue": "o7",
                "stringListValues": [], "binaryListValues": [] } },
        }]);
        let id = |rule: &str| {
            let config = config(&[("EVENT_ID", rule), ("EVENT_ID_PREFIX", "t1-")]);
            let records = read_bodies(&config, message.clone());
            records[0]
                .content
                .as_ref()
                .unwrap()
                .candidate
                .event_id
                .to_string()
        };
        assert_eq!(id("message-id"), "t1-m0");
        assert_eq!(id("attribute:order"), "t1-o7");
        assert_eq!(id("json:[customer, day]"), "t1-c|3");
        assert_eq!(
            id("body-hash"),
            format!("t1-{}", BodyHash::of(br#"{"customer":"c","day":3}"#))
        );
        let missing = config(&[("EVENT_ID", "attribute:none")]);
        assert!(reason(&read_bodies(&missing, message.clone())[0]).contains("no attribute `none`"));
    }

    #[test]
    fn a_batch_key_makes_a_slot_of_its_own() {
        let config = config(&[("BATCH_KEY", "customer")]);
        let records = read_bodies(
            &config,
            serde_json::json!([
                { "messageId": "m0", "body": r#"{"customer":"a"}"# },
                { "messageId": "m1", "body": "{}" },
            ]),
        );
        assert_eq!(
            records[0]
                .content
                .as_ref()
                .unwrap()
                .slot
                .key
                .as_ref()
                .unwrap()
                .as_str(),
            "a"
        );
        assert_eq!(reason(&records[1]), "`BATCH_KEY`: `customer` finds nothing");
    }
}
