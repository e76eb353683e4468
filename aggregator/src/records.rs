//! Reads the messages of an SQS event, each by itself: a message that cannot be read does not affect the others.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::HashMap;
use std::sync::Arc;

use aws_lambda_events::event::sqs::SqsMessageAttribute;
use jmespath::{Rcvar, Variable};
use protocol::claim::Candidate;
use protocol::ids::{BatchKey, BodyHash, EventId, IdError, QuotaKey, SourceArn, SqsMessageId};
use protocol::limits::{
    DYNAMODB_ITEM_BYTES_MAX, EVENT_AHEAD_MAX, QUOTA_EVENT_AGE_MAX, QUOTA_EVENT_AHEAD_MAX,
};
use protocol::period::Period;
use protocol::quota::Quota;
use protocol::scope::BatchScope;
use protocol::time::Timestamp;
use shared::compression::compress;
use shared::expression::Expression;
use shared::message_attributes::{
    AttributeMap, MESSAGE_GROUP_ID, MessageAttribute, MessageAttributes,
};
use shared::ports::Quarantined;
use shared::rfc3339;
use shared::traces::TraceId;

use crate::config::{BATCH_KEY, CLOSE_TIME, Config, EVENT_ID};
use crate::event::{SqsEvent, SqsMessage};
use crate::event_id::{EventIdRule, ExpressionError, find_text};
use crate::event_time::find_time;
use crate::quota::{QUOTA, QUOTA_TIME};

/// A message that can be claimed.
#[derive(Debug)]
pub struct Record {
    pub candidate: Candidate,
    /// The source and batch key of the batches that may take the message.
    pub scope: BatchScope,
    /// Whether its batch should start at once.
    pub is_urgent: bool,
    /// The trace that the producer sent the message in, if it was traced.
    pub trace_id: Option<TraceId>,
}

/// A record has no message id, so the response cannot report it as failed. The whole event fails instead.
#[derive(Debug, thiserror::Error)]
#[error(
    "record {index} of the event: got no message id, expected one: the event fails as a whole, because nothing else can \
     be reported for this record"
)]
pub struct NoMessageId {
    /// The position of the record in the event, from 0.
    pub index: usize,
}

/// Why a message can never be claimed.
#[derive(Debug, thiserror::Error)]
enum BadRecord {
    #[error("message: got no body, expected one")]
    NoBody,
    #[error("body: not JSON, which `{needed_by}` needs: {message}")]
    NotJson {
        needed_by: &'static str,
        message: String,
    },
    #[error(
        "body: nested too deeply for `{needed_by}`: got more than {JSON_LEVELS_MAX} levels of lists and objects, expected at most {JSON_LEVELS_MAX}"
    )]
    TooDeep { needed_by: &'static str },
    #[error("message attribute `{name}`: missing, expected a string value, which `EVENT_ID` needs")]
    NoAttribute { name: String },
    #[error("`{needed_by}`: {source}")]
    Expression {
        needed_by: &'static str,
        #[source]
        source: ExpressionError,
    },
    #[error(
        "`{needed_by}`: got {}, expected a time at most {} h after the message was sent",
        rfc3339(*at),
        EVENT_AHEAD_MAX.as_secs() / 3_600
    )]
    Ahead {
        needed_by: &'static str,
        at: Timestamp,
    },
    #[error("`{needed_by}`: got {}, expected a time of a calendar", rfc3339(*at))]
    NoPeriod {
        needed_by: &'static str,
        at: Timestamp,
    },
    #[error(
        "`{needed_by}`: got {}, expected a time in a period that ended at most {} days ago, and begins in {} h at most",
        rfc3339(*at),
        QUOTA_EVENT_AGE_MAX.as_secs() / 86_400,
        QUOTA_EVENT_AHEAD_MAX.as_secs() / 3_600
    )]
    Uncounted {
        needed_by: &'static str,
        at: Timestamp,
    },
    #[error(transparent)]
    Id(#[from] IdError),
    #[error(
        "message: too large: got an item of {bytes} bytes, expected at most {DYNAMODB_ITEM_BYTES_MAX}; larger bodies need `OVERFLOW_BUCKET`, or the log (`BODIES`)"
    )]
    TooLarge { bytes: usize },
}

/// Levels of lists and objects within each other that the parser takes; it must not overflow its stack.
/// Source: <https://docs.rs/serde_json/1/serde_json/struct.Deserializer.html#method.disable_recursion_limit> (2026-11).
const JSON_LEVELS_MAX: usize = 127;
/// The start of the parser's error for a body with more levels. The error's type does not show this.
const TOO_DEEP: &str = "recursion limit exceeded";

/// A body as JSON, or the error of the parser.
type Json = Result<Rcvar, String>;

/// Reads every message of an event. Returns, in the order of the event, a record for each message that can be claimed, and
/// for each other message the copy that goes to the quarantine. `now` stands in for a missing `SentTimestamp`.
///
/// # Errors
/// [`NoMessageId`] if a message has no id. The caller must fail the whole event, or the message would be deleted.
pub fn read(
    event: SqsEvent,
    config: &Config,
    now: Timestamp,
) -> Result<Vec<Result<Record, Quarantined>>, NoMessageId> {
    let mut records = Vec::with_capacity(event.records.len());
    // All messages of an event come from one queue, so they share its ARN.
    let mut source: Option<SourceArn> = None;
    for (index, mut message) in event.records.into_iter().enumerate() {
        let id = message.message_id.take().ok_or(NoMessageId { index })?;
        let id = SqsMessageId::try_from(id).map_err(|_| NoMessageId { index })?;
        let arn = message.event_source_arn.take();
        source = source.filter(|known| arn.as_deref() == Some(known.as_str()));
        let source = source.get_or_insert_with(|| source_of(arn));
        records.push(read_message(id, message, source, config, now));
    }
    Ok(records)
}

fn read_message(
    sqs_message_id: SqsMessageId,
    message: SqsMessage,
    source: &SourceArn,
    config: &Config,
    now: Timestamp,
) -> Result<Record, Quarantined> {
    let message_attributes = message.message_attributes.unwrap_or_default();
    let system = message.attributes.as_ref();
    let group_id = system.and_then(|system| system.message_group_id.as_deref());
    let attributes = attributes_of(&message_attributes, group_id);
    let bad = |reason: BadRecord, event_id, body| Quarantined {
        sqs_message_id: sqs_message_id.clone(),
        event_id,
        source: source.clone(),
        reason: reason.to_string(),
        body,
        attributes: attributes.clone(),
    };
    let Some(body) = message.body.map(Arc::<str>::from) else {
        return Err(bad(BadRecord::NoBody, None, "".into()));
    };
    let body_hash = BodyHash::of(body.as_bytes());
    // Parsed only if an expression needs it, and once for all of them.
    let json = LazyCell::new(|| Variable::from_json(&body).map(Rcvar::new));
    let id = match &config.event_id {
        EventIdRule::MessageId => Ok(Cow::Borrowed(sqs_message_id.as_str())),
        EventIdRule::BodyHash => Ok(Cow::Owned(body_hash.to_string())),
        EventIdRule::Attribute(name) => attribute(&message_attributes, name),
        EventIdRule::Json(expression) => find(expression, &json, EVENT_ID.name).map(Cow::Owned),
    };
    let event_id = id
        .and_then(|id| prefixed(&id, &config.prefix_of(source)))
        .map_err(|reason| bad(reason, None, body.clone()))?;
    let sent_ms = system.and_then(|system| system.sent_timestamp.as_deref()?.parse().ok());
    let trace_header = system.and_then(|system| system.trace_header.as_deref());
    let mut candidate = Candidate {
        event_id,
        sqs_message_id: sqs_message_id.clone(),
        body_hash,
        body: body.clone(),
        compressed: None,
        source: source.clone(),
        sent_at: sent_ms.map_or(now, Timestamp::from_ms),
        attributes: attributes.as_ref().map(|all| all.as_text().clone()),
        quota: None,
    };
    if !config.bodies.is_log() {
        candidate = candidate.compressed(compress);
    }
    let key = config.batch_key.as_ref();
    let key = key.map(|expression| batch_key(expression, &json));
    let key = key.transpose();
    let is_urgent = |bypass| is_urgent(bypass, &json);
    let scope = key.and_then(|key| {
        Ok(BatchScope {
            source: source.clone(),
            key,
            period: period(config, &json, candidate.sent_at)?,
        })
    });
    let claimable = scope.and_then(|scope| {
        fits(&candidate, config)?;
        Ok((scope, quota(config, &json, candidate.sent_at, now)?))
    });
    match claimable {
        Ok((scope, quota)) => Ok(Record {
            candidate: Candidate { quota, ..candidate },
            scope,
            is_urgent: config.bypass.as_ref().is_some_and(is_urgent),
            trace_id: trace_header.and_then(TraceId::of_header),
        }),
        Err(reason) => Err(bad(reason, Some(candidate.event_id), candidate.body)),
    }
}

/// Returns the queue that a message came from. A direct invocation may leave the ARN out: such messages share one source,
/// `unknown`.
fn source_of(arn: Option<String>) -> SourceArn {
    let source = arn.and_then(|arn| SourceArn::try_from(arn).ok());
    source.unwrap_or_else(|| {
        SourceArn::try_from("unknown").expect("a short constant is a valid source")
    })
}

fn prefixed(id: &str, prefix: &str) -> Result<EventId, BadRecord> {
    // An empty id is refused before the prefix is added: otherwise all events without an id would share the prefix as id.
    let event_id = EventId::try_from(id)?;
    if prefix.is_empty() {
        return Ok(event_id);
    }
    Ok(EventId::try_from(format!("{prefix}{id}"))?)
}

fn batch_key(expression: &Expression, json: &Json) -> Result<BatchKey, BadRecord> {
    Ok(BatchKey::try_from(find(expression, json, BATCH_KEY.name)?)?)
}

/// Returns the period of a message that was sent at `sent_at`: by the time in its body, or else by when it was sent.
fn period(config: &Config, json: &Json, sent_at: Timestamp) -> Result<Option<Period>, BadRecord> {
    let Some(close_at) = &config.close_at else {
        return Ok(None);
    };
    let needed_by = CLOSE_TIME.name;
    let at = match &config.close_time {
        Some(expression) => event_time(expression, json, sent_at, needed_by)?,
        None => sent_at,
    };
    let period = close_at.period_of(at);
    Ok(Some(period.ok_or(BadRecord::NoPeriod { needed_by, at })?))
}

/// Returns the quota of an event, whose period is that of the time in its body or else of the present time.
fn quota(
    config: &Config,
    json: &Json,
    sent_at: Timestamp,
    now: Timestamp,
) -> Result<Option<Quota>, BadRecord> {
    let Some(rule) = &config.quota else {
        return Ok(None);
    };
    let key = QuotaKey::try_from(find(&rule.key, json, QUOTA.name)?)?;
    let needed_by = QUOTA_TIME.name;
    let at = match &rule.time {
        Some(expression) => event_time(expression, json, sent_at, needed_by)?,
        None => now,
    };
    let period = rule.period.of(at);
    let Period { begins, ends } = period.ok_or(BadRecord::NoPeriod { needed_by, at })?;
    // The tallies of a period are not kept for ever. Once they are dropped, its account would have every place again.
    if ends + QUOTA_EVENT_AGE_MAX < now || begins > now + QUOTA_EVENT_AHEAD_MAX {
        return Err(BadRecord::Uncounted { needed_by, at });
    }
    Ok(Some(Quota {
        key,
        begins,
        ends,
        max: rule.events_max,
    }))
}

/// Returns the time in a body. One that is far ahead would keep a batch open for as long.
fn event_time(
    expression: &Expression,
    json: &Json,
    sent_at: Timestamp,
    needed_by: &'static str,
) -> Result<Timestamp, BadRecord> {
    let found = find_time(expression, parsed(json, needed_by)?);
    let at = found.map_err(|source| BadRecord::Expression { needed_by, source })?;
    match at <= sent_at + EVENT_AHEAD_MAX {
        true => Ok(at),
        false => Err(BadRecord::Ahead { needed_by, at }),
    }
}

/// Returns whether `BYPASS` finds something. A body that it cannot be evaluated on is not urgent: nothing else depends on it.
fn is_urgent(bypass: &Expression, json: &Json) -> bool {
    let found = json.as_ref().ok().map(|body| bypass.find(body));
    found.is_some_and(|found| found.is_ok_and(|found| found.is_truthy()))
}

/// Checks that the body fits the lock item, unless it goes to a bucket or into a load, which takes a body of any size.
fn fits(candidate: &Candidate, config: &Config) -> Result<(), BadRecord> {
    if config.bodies.is_log() {
        return Ok(());
    }
    let bytes = candidate.item_bytes();
    if bytes > DYNAMODB_ITEM_BYTES_MAX && config.overflow_bucket.is_none() {
        return Err(BadRecord::TooLarge { bytes });
    }
    Ok(())
}

fn attribute<'m>(
    attributes: &'m HashMap<String, SqsMessageAttribute>,
    name: &str,
) -> Result<Cow<'m, str>, BadRecord> {
    let attribute = attributes.get(name);
    let value = attribute.and_then(|attribute| attribute.string_value.as_deref());
    let value = value.ok_or_else(|| BadRecord::NoAttribute {
        name: name.to_owned(),
    })?;
    Ok(Cow::Borrowed(value))
}

fn find(
    expression: &Expression,
    json: &Json,
    needed_by: &'static str,
) -> Result<String, BadRecord> {
    find_text(expression, parsed(json, needed_by)?)
        .map_err(|source| BadRecord::Expression { needed_by, source })
}

/// Returns the body as JSON, which `needed_by` needs.
fn parsed<'j>(json: &'j Json, needed_by: &'static str) -> Result<&'j Rcvar, BadRecord> {
    json.as_ref()
        .map_err(|message| match message.starts_with(TOO_DEEP) {
            true => BadRecord::TooDeep { needed_by },
            false => BadRecord::NotJson {
                needed_by,
                message: message.clone(),
            },
        })
}

/// Returns the attributes of a message and its message group; `None` if there are none.
fn attributes_of(
    attributes: &HashMap<String, SqsMessageAttribute>,
    group_id: Option<&str>,
) -> Option<MessageAttributes> {
    let attribute = |(name, attribute): (&String, &SqsMessageAttribute)| {
        let all = attribute.clone();
        let binary_value = all.binary_value.map(|bytes| bytes.0);
        let attribute = MessageAttribute::new(all.data_type, all.string_value, binary_value);
        (name.clone(), attribute)
    };
    let group_id = group_id.map(|id| (MESSAGE_GROUP_ID.to_owned(), MessageAttribute::string(id)));
    let all = attributes.iter().map(attribute).chain(group_id);
    MessageAttributes::of(AttributeMap::from_iter(all))
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
