//! Reports dropped duplicates, if `DUPLICATES_SQS_URL` is set: a message to a queue for each, before the duplicate is acknowledged.
//!
//! A duplicate whose report was not acknowledged is reported as failed. SQS delivers it again, and it is a duplicate again. So each
//! dropped duplicate is reported at least once.

use std::sync::Arc;

use protocol::claim::Candidate;
use protocol::format_version::FORMAT_VERSION;
use protocol::ids::{BatchId, EventId, SourceArn, SqsMessageId};
use protocol::time::Timestamp;
use serde::Serialize;
use shared::message_attributes::{MESSAGE_GROUP_ID, MessageAttributes};
use shared::ports::{Ports, QuarantineQueue, Quarantined};
use shared::retry::{Budget, send_to_quarantine};
use shared::sqs_text::sqs_text;

use crate::claim_attempt::ClaimResult;
use crate::config::Config;

/// The attribute `reason` of a report.
const REASON: &str = "duplicate: dropped";

/// What claimed the event of a duplicate before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    sqs_message_id: SqsMessageId,
    /// The batch that delivers the event; absent once it was delivered and released.
    batch: Option<BatchId>,
}

impl Holder {
    /// Returns what claimed the event of `candidate`, given the first message of the invocation with this event. `None` if only
    /// the environment remembers the claim, and not who made it.
    pub fn of(candidate: &Candidate, first: &Candidate, result: &ClaimResult) -> Option<Holder> {
        if let Some(item) = result.winner.as_deref() {
            return Some(Holder {
                sqs_message_id: item.sqs_message_id.clone(),
                batch: item.state.claimed_seat().map(|seat| seat.batch),
            });
        }
        let seat = result.seat?;
        (candidate.sqs_message_id != first.sqs_message_id).then(|| Holder {
            sqs_message_id: first.sqs_message_id.clone(),
            batch: Some(seat.batch),
        })
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

/// Reports dropped duplicates.
pub struct Duplicates {
    queue: Option<Arc<dyn QuarantineQueue>>,
    concurrency: usize,
}

impl Duplicates {
    pub fn new(config: &Config, ports: &Ports) -> Duplicates {
        Duplicates {
            queue: ports.duplicates_queue.clone(),
            concurrency: config.common.write_concurrency,
        }
    }

    /// Returns whether dropped duplicates are reported.
    pub fn are_reported(&self) -> bool {
        self.queue.is_some()
    }

    /// Reports duplicates. Returns for each whether its report was acknowledged; without a queue, `false` for all.
    pub async fn report(
        &self,
        dropped: &[(&Candidate, Option<&Holder>)],
        now: Timestamp,
        budget: &Budget<'_>,
    ) -> Vec<bool> {
        let Some(queue) = self.queue.as_deref() else {
            return vec![false; dropped.len()];
        };
        let reports = dropped
            .iter()
            .map(|(candidate, holder)| report(candidate, *holder, now));
        let reports = Vec::from_iter(reports);
        let sent = send_to_quarantine(queue, &reports, self.concurrency, budget).await;
        sent.into_iter().map(|sent| sent.is_ok()).collect()
    }
}

fn report(candidate: &Candidate, holder: Option<&Holder>, now: Timestamp) -> Quarantined {
    let body = DroppedDuplicate {
        format_version: FORMAT_VERSION,
        event_id: &candidate.event_id,
        sqs_message_id: &candidate.sqs_message_id,
        source: &candidate.source,
        dropped_at: now.as_ms(),
        claimed_by: holder.map(|holder| &holder.sqs_message_id),
        batch_id: holder.and_then(|holder| holder.batch),
    };
    let body = serde_json::to_string(&body).expect("texts and numbers can be written as JSON");
    Quarantined {
        sqs_message_id: candidate.sqs_message_id.clone(),
        event_id: Some(candidate.event_id.clone()),
        source: candidate.source.clone(),
        reason: REASON.to_owned(),
        body: sqs_text(&body).into(),
        // A report says which message was dropped, and has neither its body nor its attributes, but its message group.
        attributes: candidate.attributes.as_deref().and_then(message_group),
    }
}

/// Returns the message group among attributes, if the message has one.
fn message_group(attributes: &str) -> Option<MessageAttributes> {
    let all = MessageAttributes::read(attributes).expect("the text was written from attributes");
    let mut all = all?.to_map();
    all.retain(|name, _| name == MESSAGE_GROUP_ID);
    MessageAttributes::of(all)
}
