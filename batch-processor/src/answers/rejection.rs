//! What is done about rejected events: they go to the quarantine, and then the batch record and their tombstones say that they were not taken,
//! so that another message may claim them.

use std::collections::BTreeMap;

use protocol::answer::{BatchAnswers, Pending};
use protocol::batch::{BatchRecord, BatchWrite};
use protocol::ids::{BatchId, Seq};
use protocol::limits::SET_ASIDE_RETENTION;
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use shared::named_items::Versioned;
use shared::ports::{PortError, Quarantined, StoredEvent};
use shared::retry::{Budget, Unsent, Written, bounded, send_to_quarantine};
use tracing::info;

use super::parts::{AnswerError, AnsweredParts};

impl AnsweredParts {
    /// Does what is left to do about the pending seats of a batch, whose record is `record`. `reasons` are those that an answer of the name gives.
    pub(super) async fn reject_pending(
        &self,
        batch: BatchId,
        record: Option<&BatchRecord>,
        read: &Versioned<BatchAnswers>,
        reasons: &BTreeMap<Seq, String>,
        budget: &Budget<'_>,
    ) -> Result<(), AnswerError> {
        let Some(pending) = &read.value.pending else {
            return Ok(());
        };
        let events = self
            .kept_of_seats(batch, record, &pending.seats, budget)
            .await?;
        self.quarantine(pending, &events, reasons, budget).await?;
        self.set_aside(batch, &pending.seats, budget).await?;
        let is_log = record.is_some_and(|record| record.bodies.is_log());
        if !is_log {
            self.mark_tombstones(&events, budget).await?;
        }
        let count = pending.seats.len();
        info!(batch_id = %batch, answer = pending.answer, rejected_count = count, "events that an answer rejected are in the quarantine");
        let mut done = read.value.clone();
        done.done(batch);
        // Another that did the same may have come before, or an answer since.
        self.replace(&batch, read, &done, budget).await?;
        Ok(())
    }

    async fn quarantine(
        &self,
        pending: &Pending,
        events: &[StoredEvent],
        reasons: &BTreeMap<Seq, String>,
        budget: &Budget<'_>,
    ) -> Result<(), AnswerError> {
        let queue = self.quarantine_queue.as_deref();
        let queue = queue.ok_or(AnswerError::NoQuarantine)?;
        let message = |event: &StoredEvent| {
            let reason = reasons
                .get(&event.seq)
                .map_or("no reason given", String::as_str);
            Quarantined {
                sqs_message_id: event.sqs_message_id.clone(),
                event_id: Some(event.event_id.clone()),
                source: event.source.clone(),
                reason: format!("rejected by the answer `{}`: {reason}", pending.answer),
                body: event.body.clone(),
                attributes: event.attributes.clone(),
            }
        };
        let messages = Vec::from_iter(events.iter().map(message));
        let sent = send_to_quarantine(queue, &messages, self.concurrency, budget).await;
        match sent.into_iter().find_map(Result::err) {
            None => Ok(()),
            Some(Unsent::OutOfTime) => Err(PortError::DeadlineReached.into()),
            Some(Unsent::Refused(error)) => Err(error.into()),
        }
    }

    /// Adds the seats to those that the record of the batch has as set aside. A record that has expired classifies nothing any more.
    async fn set_aside(
        &self,
        batch: BatchId,
        seats: &SeqSet,
        budget: &Budget<'_>,
    ) -> Result<(), AnswerError> {
        let read = || self.batch_store.read(batch);
        let mut record = budget.call(RetryPolicy::CONTROL, read).await?;
        while let Some(present) = record {
            if seats.is_subset(&present.set_aside) {
                return Ok(());
            }
            let write = BatchWrite::Answered {
                set_aside: present.set_aside.union(seats),
                set_asides: present.set_asides,
            };
            record = match budget.write(&*self.batch_store, batch, &write).await? {
                Written::Applied(_) => return Ok(()),
                Written::Refused(Some(record)) if record.status.is_some() => {
                    return Err(AnswerError::NotComplete);
                }
                Written::Refused(record) => record.map(|record| *record),
            };
        }
        Ok(())
    }

    /// Marks the tombstones of events, but not of one that another message has claimed since.
    async fn mark_tombstones(
        &self,
        events: &[StoredEvent],
        budget: &Budget<'_>,
    ) -> Result<(), AnswerError> {
        // As those of events that are set aside.
        let kept_for = self.dedup_window.max(SET_ASIDE_RETENTION);
        let until = budget.clock.now() + kept_for;
        let store = &*self.lock_store;
        let marks = events.iter().map(|event| async move {
            let (id, message, seat) = (&event.event_id, &event.sqs_message_id, event.seat_key());
            let mark = || store.mark_rejected(id, message, seat, until);
            budget.call(RetryPolicy::ITEMS, mark).await
        });
        let marks = bounded(marks.collect(), self.concurrency).await;
        marks.into_iter().collect::<Result<(), _>>()?;
        Ok(())
    }
}
