//! Setting a batch aside: an operator has decided that what is undelivered of it goes to the quarantine.
//!
//! The decision is in the batch record from the lease on, so whoever comes after a crash goes on with it. What was sent and
//! not yet noted is sent again: in the quarantine it is better twice than not at all. From the note on, a further message
//! with the same event may claim it anew; the same message may not.

use protocol::batch::{BatchWrite, NO_ERROR};
use shared::ports::{Quarantined, StoredEvent};
use shared::quarantine::{Unsent, send_to_quarantine, sqs_text};
use tracing::{error, warn};

use crate::collect::{BodyProblem, Entries, missing, seqs};
use crate::give_back::GiveBack;
use crate::process::{Done, Run, Step};

impl Run<'_> {
    /// Sends what is frozen, and all that is in no part yet, to the quarantine.
    pub(crate) async fn set_aside(
        &mut self,
        mut frozen: Entries,
        mut new: Entries,
    ) -> Result<Step, GiveBack> {
        let bytes_max = self.handler.config().part_bytes_max;
        if let Some((index, _)) = self.record.frozen_part() {
            let events = self.read(&mut frozen, u64::MAX, 1).await?;
            if let Some(missing) = missing(&self.record, &seqs(&events)) {
                return Ok(Step::Short(missing));
            }
            let end = self.quarantine(events, Some(index)).await?;
            return Ok(end.map_or(Step::LookAgain, Step::Done));
        }
        let mut step = Step::NothingNew;
        loop {
            let events = self.read(&mut new, bytes_max, 1).await?;
            if new.is_empty()
                && let Some(missing) = missing(&self.record, &seqs(&events))
            {
                return Ok(Step::Short(missing));
            }
            if !events.is_empty() {
                if let Some(end) = self.quarantine(events, None).await? {
                    return Ok(Step::Done(end));
                }
                step = Step::LookAgain;
            }
            if new.is_empty() {
                return Ok(step);
            }
        }
    }

    /// Sends events to the quarantine, says so in the record, and releases their claims; returns an end only when the batch
    /// now waits for an operator.
    async fn quarantine(
        &mut self,
        mut events: Vec<StoredEvent>,
        part: Option<usize>,
    ) -> Result<Option<Done>, GiveBack> {
        let batch = self.batch();
        let Some(quarantine) = self.handler.ports().quarantine_queue.as_deref() else {
            error!(batch_id = %batch, "batch cannot be set aside any further: `QUARANTINE_SQS_URL` is not set");
            let error = "quarantine: `QUARANTINE_SQS_URL` is not set any more; set it, and send a ticket again";
            return self.fail(error.to_owned()).await;
        };
        let reason = self.record.quarantine.as_deref().unwrap_or(NO_ERROR);
        let mut messages = Vec::with_capacity(events.len());
        for event in &mut events {
            match self.message(event, reason).await {
                Ok(message) => messages.push(message),
                Err(BodyProblem::Unread(source)) => return Err(self.service(source)),
                Err(problem) => {
                    error!(batch_id = %batch, error = %problem, "an event cannot be set aside");
                    return self.fail(problem.to_string()).await;
                }
            }
        }
        let concurrency = self.handler.config().common.write_concurrency;
        let work = &self.budgets.work;
        let sent = send_to_quarantine(quarantine, &messages, concurrency, work).await;
        let refused = events
            .iter()
            .zip(&sent)
            .find_map(|(event, sent)| match sent {
                Err(Unsent::Refused(error)) => {
                    let id = &event.event_id;
                    Some(format!("quarantine of event `{id}`: {error}"))
                }
                Ok(()) | Err(Unsent::OutOfTime) => None,
            });
        let count = sent.iter().filter(|sent| sent.is_err()).count();
        // A part ends as a whole; of what is in none, nothing that is there needs to be sent again.
        if part.is_none() {
            let mut sent = sent.iter();
            events.retain(|_| sent.next().is_some_and(Result::is_ok));
        }
        if count == 0 || part.is_none() && !events.is_empty() {
            self.note_set_aside(&events, part).await?;
        }
        match (refused, count) {
            (Some(error), _) => {
                error!(batch_id = %batch, error, "an event cannot be set aside");
                self.fail(error).await
            }
            (None, 0) => Ok(None),
            (None, count) => Err(GiveBack::NotQuarantined { batch, count }),
        }
    }

    /// Says in the record that events are in the quarantine, and releases their claims.
    async fn note_set_aside(
        &mut self,
        events: &[StoredEvent],
        part: Option<usize>,
    ) -> Result<(), GiveBack> {
        let batch = self.batch();
        warn!(batch_id = %batch, items_count = events.len(), "events set aside");
        self.metrics.count("Quarantined", events.len() as u64);
        let mut set_aside = self.record.set_aside.clone();
        set_aside.extend_from(&seqs(events));
        let write = BatchWrite::SetAside {
            owner: self.owner.clone(),
            part,
            set_aside,
            set_asides: self.record.set_asides,
        };
        self.write(&write, self.budgets.wrap_up).await?;
        self.release(events).await
    }

    /// What the quarantine gets of an event. Where its body is elsewhere and gone, which may be why the batch is in error, it
    /// gets the words that say so.
    ///
    /// # Errors
    /// [`BodyProblem`] where the body may be there: it is removed with the claim, so words alone would lose it.
    async fn message(
        &self,
        event: &mut StoredEvent,
        reason: &str,
    ) -> Result<Quarantined, BodyProblem> {
        let body = match self.handler.fetch_body(event, &self.budgets.work).await {
            Ok(()) => event.body.clone(),
            Err(problem @ (BodyProblem::Unread(_) | BodyProblem::Refused { .. })) => {
                return Err(problem);
            }
            Err(problem @ (BodyProblem::Missing { .. } | BodyProblem::Another { .. })) => {
                sqs_text(&problem.to_string()).into()
            }
        };
        Ok(Quarantined {
            sqs_message_id: event.sqs_message_id.clone(),
            event_id: Some(event.event_id.clone()),
            source: event.source.clone(),
            reason: reason.to_owned(),
            body,
        })
    }
}
