//! The report of a duplicate that was dropped, as a message to `DUPLICATES_SQS_URL`.

use protocol::ids::{BatchId, EventId, SourceArn, SqsMessageId};
use protocol::time::Timestamp;
use serde::Serialize;

use crate::message_attributes::{MESSAGE_GROUP_ID, MessageAttributes};
use crate::ports::{Quarantined, StoredEvent};
use crate::sqs_text::sqs_text;

/// The version of the body of a report.
const REPORT_FORMAT_VERSION: u64 = 1;
/// The attribute `reason` of a report.
const REASON: &str = "duplicate: dropped";

/// The message that was dropped.
#[derive(Clone, Copy, Debug)]
pub struct Dropped<'a> {
    pub event_id: &'a EventId,
    pub sqs_message_id: &'a SqsMessageId,
    pub source: &'a SourceArn,
    pub attributes: Option<&'a MessageAttributes>,
}

impl<'a> From<&'a StoredEvent> for Dropped<'a> {
    fn from(event: &'a StoredEvent) -> Dropped<'a> {
        Dropped {
            event_id: &event.event_id,
            sqs_message_id: &event.sqs_message_id,
            source: &event.source,
            attributes: event.attributes.as_ref(),
        }
    }
}

/// The body of a report.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DroppedDuplicate<'a> {
    format_version: u64,
    event_id: &'a EventId,
    sqs_message_id: &'a SqsMessageId,
    source: &'a SourceArn,
    /// In milliseconds since 1970.
    dropped_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_by: Option<&'a SqsMessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_id: Option<BatchId>,
}

/// Returns the report. `holder` is the message that claimed the event before, with the batch that delivers it, if that is known.
pub fn report<'a>(
    dropped: impl Into<Dropped<'a>>,
    holder: Option<(&SqsMessageId, Option<BatchId>)>,
    now: Timestamp,
) -> Quarantined {
    let Dropped {
        event_id,
        sqs_message_id,
        source,
        attributes,
    } = dropped.into();
    let body = DroppedDuplicate {
        format_version: REPORT_FORMAT_VERSION,
        event_id,
        sqs_message_id,
        source,
        dropped_at: now.as_ms(),
        claimed_by: holder.map(|(message, _)| message),
        batch_id: holder.and_then(|(_, batch)| batch),
    };
    let body = serde_json::to_string(&body).expect("texts and numbers can be written as JSON");
    Quarantined {
        sqs_message_id: sqs_message_id.clone(),
        event_id: Some(event_id.clone()),
        source: source.clone(),
        reason: REASON.to_owned(),
        body: sqs_text(&body).into(),
        // A report says which message was dropped, and has neither its body nor its attributes, but its message group.
        attributes: attributes.and_then(message_group),
    }
}

/// Returns the message group among attributes, if the message has one.
fn message_group(attributes: &MessageAttributes) -> Option<MessageAttributes> {
    let mut all = attributes.to_map();
    all.retain(|name, _| name == MESSAGE_GROUP_ID);
    MessageAttributes::of(all)
}
