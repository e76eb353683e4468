//! Reports dropped duplicates, if `DUPLICATES_SQS_URL` is set: a message to a queue for each, before the duplicate is acknowledged.
//!
//! A duplicate whose report was not acknowledged is reported as failed. SQS delivers it again, and it is a duplicate again. So each
//! dropped duplicate is reported at least once.

use std::sync::Arc;

use protocol::claim::Candidate;
use protocol::ids::{BatchId, SqsMessageId};
use protocol::time::Timestamp;
use shared::duplicate_report::{Dropped, report};
use shared::message_attributes::MessageAttributes;
use shared::ports::{Ports, QuarantineQueue, Quarantined};
use shared::retry::{Budget, send_to_quarantine};

use crate::claim_attempt::ClaimResult;
use crate::config::Config;

/// The message and the batch that claimed the event of a duplicate before.
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
                batch: item.state.claimed_seat().map(|(batch, _)| batch),
            });
        }
        let seat = result.claimed()?;
        (candidate.sqs_message_id != first.sqs_message_id).then(|| Holder {
            sqs_message_id: first.sqs_message_id.clone(),
            batch: Some(seat.batch),
        })
    }
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
            .map(|(candidate, holder)| reported(candidate, *holder, now));
        let reports = Vec::from_iter(reports);
        let sent = send_to_quarantine(queue, &reports, self.concurrency, budget).await;
        sent.into_iter().map(|sent| sent.is_ok()).collect()
    }
}

fn reported(candidate: &Candidate, holder: Option<&Holder>, now: Timestamp) -> Quarantined {
    let attributes = candidate.attributes.as_deref().and_then(|text| {
        MessageAttributes::read(text).expect("the text was written from attributes")
    });
    let dropped = Dropped {
        event_id: &candidate.event_id,
        sqs_message_id: &candidate.sqs_message_id,
        source: &candidate.source,
        attributes: attributes.as_ref(),
    };
    let holder = holder.map(|holder| (&holder.sqs_message_id, holder.batch));
    report(dropped, holder, now)
}
