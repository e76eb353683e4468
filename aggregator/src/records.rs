//! Reading an SQS event: every message by itself, a bad one alone.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lambda_events::event::sqs::SqsMessageAttribute;
use jmespath::{Rcvar, Variable};
use protocol::allocator::Slot;
use protocol::claim::Candidate;
use protocol::ids::{BatchKey, BodyHash, EventId, IdError, SourceArn, SqsMessageId};
use protocol::limits::DYNAMODB_ITEM_BYTES_MAX;
use protocol::time::Timestamp;
use shared::compression::compress;

use crate::config::{BATCH_KEY, Config, EVENT_ID};
use crate::event::{Event, Message};
use crate::event_id::{EventIdRule, Expression, ExpressionError};
use crate::paths::{Found, Paths};

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

/// A message has no id, so it cannot be named in the response: only the whole event can fail for it.
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
    /// Its id, by which the response names it.
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
/// [`NoMessageId`] when a message cannot be named in the response: only failing the whole event loses nothing then.
pub fn read(event: Event, config: &Config, now: Timestamp) -> Result<Vec<Record>, NoMessageId> {
    let reader = Reader::new(config, now);
    let messages = event.into_messages();
    let mut records = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        records.push(reader.read(message).ok_or(NoMessageId { index })?);
    }
    Ok(records)
}

/// Reads the messages of one event.
struct Reader<'c> {
    config: &'c Config,
    now: Timestamp,
    /// Of `EVENT_ID` and `BATCH_KEY`, if those are plain.
    paths: Option<Paths<'c>>,
}

impl<'c> Reader<'c> {
    fn new(config: &'c Config, now: Timestamp) -> Reader<'c> {
        let event_id = match &config.event_id {
            EventIdRule::Json(expression) => Some(expression),
            EventIdRule::MessageId | EventIdRule::BodyHash | EventIdRule::Attribute(_) => None,
        };
        Reader {
            config,
            now,
            paths: Paths::of(event_id.into_iter().chain(&config.batch_key)),
        }
    }

    /// Reads a message, if it has a name.
    fn read(&self, mut message: Message) -> Option<Record> {
        let sqs_message_id = message.sqs_message_id.take()?;
        // A direct invocation may leave the ARN out; such records share the batches of one nameless source.
        let source = message.source.take().unwrap_or_else(|| {
            SourceArn::try_from("unknown").expect("a short constant is a valid source")
        });
        let mut event_id = None;
        let content = self
            .content(&message, &sqs_message_id, &source, &mut event_id)
            .map_err(|reason| Bad {
                reason,
                event_id,
                body: message.body.unwrap_or_default(),
            });
        Some(Record {
            sqs_message_id,
            source,
            content,
        })
    }

    fn content(
        &self,
        message: &Message,
        sqs_message_id: &SqsMessageId,
        source: &SourceArn,
        event_id_read: &mut Option<EventId>,
    ) -> Result<Good, BadRecord> {
        let body = message.body.as_ref().ok_or(BadRecord::NoBody)?;
        let body_hash = BodyHash::of(body.as_bytes());
        let json = JsonBody::new(body, self.paths.as_ref());
        let id = match &self.config.event_id {
            EventIdRule::MessageId => Cow::Borrowed(sqs_message_id.as_str()),
            EventIdRule::BodyHash => Cow::Owned(body_hash.to_string()),
            EventIdRule::Attribute(name) => Cow::Borrowed(attribute(message, name)?),
            EventIdRule::Json(expression) => json.find(expression, EVENT_ID.name)?,
        };
        // The check for emptiness comes before the prefix: a prefix alone would be one id for every nameless event.
        let prefix = self.config.prefix_of(source);
        let event_id = match EventId::try_from(&*id)? {
            id if prefix.is_empty() => id,
            id => EventId::try_from(format!("{prefix}{id}"))?,
        };
        *event_id_read = Some(event_id.clone());
        let key = match &self.config.batch_key {
            None => None,
            Some(expression) => Some(BatchKey::try_from(
                &*json.find(expression, BATCH_KEY.name)?,
            )?),
        };
        let candidate = Candidate {
            event_id,
            sqs_message_id: sqs_message_id.clone(),
            body_hash,
            body: body.clone(),
            compressed: None,
            source: source.clone(),
            sent_at: message.sent_ms.map_or(self.now, Timestamp::from_ms),
            attributes: attributes_text(&message.attributes),
        }
        .compressed(compress);
        let bytes = candidate.item_bytes();
        if bytes > DYNAMODB_ITEM_BYTES_MAX && self.config.overflow_bucket.is_none() {
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
}

fn attribute<'m>(message: &'m Message, name: &str) -> Result<&'m str, BadRecord> {
    message
        .attributes
        .get(name)
        .and_then(|attribute| attribute.string_value.as_deref())
        .ok_or_else(|| BadRecord::NoAttribute {
            name: name.to_owned(),
        })
}

/// A body that is read only if somebody asks; at most once, where all expressions are plain and find what they name.
struct JsonBody<'a> {
    text: &'a str,
    paths: Option<&'a Paths<'a>>,
    found: OnceCell<Option<Found<'a>>>,
    parsed: OnceCell<Result<Rcvar, String>>,
}

impl<'a> JsonBody<'a> {
    fn new(text: &'a str, paths: Option<&'a Paths<'a>>) -> JsonBody<'a> {
        JsonBody {
            text,
            paths,
            found: OnceCell::new(),
            parsed: OnceCell::new(),
        }
    }

    fn find(
        &self,
        expression: &Expression,
        needed_by: &'static str,
    ) -> Result<Cow<'_, str>, BadRecord> {
        if let Some(paths) = self.paths
            && let Some(found) = self.found.get_or_init(|| paths.search(self.text))
            && let Some(text) = paths.text(expression, found)
        {
            return Ok(text);
        }
        let parsed = self
            .parsed
            .get_or_init(|| Variable::from_json(self.text).map(Rcvar::new));
        match parsed {
            Ok(body) => expression
                .text(body)
                .map(Cow::Owned)
                .map_err(|source| BadRecord::Expression { needed_by, source }),
            Err(message) => Err(BadRecord::NotJson {
                needed_by,
                message: message.clone(),
            }),
        }
    }
}

fn attributes_text(attributes: &BTreeMap<String, SqsMessageAttribute>) -> Option<Arc<str>> {
    if attributes.is_empty() {
        return None;
    }
    let text = serde_json::to_string(attributes).expect("attributes came from JSON");
    Some(text.into())
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
