//! The operator, who visits batches in error now and then and follows the runbook.

use std::time::Duration;

use protocol::batch::{BatchRecord, PartState, Status};
use shared::wire::{Accepted, Ticket, TicketReason};

use crate::world::World;

impl World {
    /// Sends one ticket for every batch in error.
    pub fn operate(&mut self) {
        let in_error: Vec<BatchRecord> = self
            .batches
            .records()
            .into_iter()
            .filter(|record| record.status == Some(Status::Error))
            .collect();
        for record in in_error {
            let ticket = self.decide_about(&record);
            self.ticket(&ticket, Duration::ZERO);
        }
    }

    fn decide_about(&mut self, record: &BatchRecord) -> Ticket {
        let batch = record.batch_id;
        let error = record.error.as_deref().unwrap_or_default();
        let quarantine = Ticket::new(batch, TicketReason::Quarantine);
        let retry = Ticket::new(batch, TicketReason::Operator);
        // A retry of a batch that is too old fails again, and puts off the day on which the sweep sets the batch aside.
        let is_old = error.contains("days after it was opened") && self.plan.quarantine;
        let tired = record.attempts > 40 && self.plan.quarantine;
        let is_edited = [
            "is not what was frozen",
            "is not what was claimed",
            "; lost are ",
        ]
        .iter()
        .any(|words| error.contains(words));
        // If the original content is lost, the batch can only be set aside.
        if is_edited || is_old || tired {
            return quarantine;
        }
        if self.rng.f64() < self.plan.sets_aside {
            return quarantine;
        }
        match error.contains("frozen for another sink") {
            true => Ticket {
                accept: Some(Accepted::NewSink),
                ..retry
            },
            false => retry,
        }
    }

    /// Edits an event of a frozen part, as a person would by hand.
    pub fn edit(&mut self) {
        if !self.strikes(self.plan.faults.edit) {
            return;
        }
        let frozen = |record: &BatchRecord| {
            let part = record.parts.last()?;
            let is_frozen = part.state == PartState::Frozen && record.status.is_some();
            is_frozen.then(|| (record.batch_id, part.members.clone()))
        };
        let records = self.batches.records();
        let Some((batch, members)) = records.iter().find_map(frozen) else {
            return;
        };
        let events = self.ledger.occurrences.iter();
        let event = events
            .filter(|(_, claims)| {
                let mut claims = claims.iter();
                claims.any(|one| one.seat.shard.batch == batch && members.contains(one.seat.seq))
            })
            .map(|(id, _)| id.clone())
            .next();
        if let Some(id) = event
            && let Some(item) = self.locks.get(&id)
            && self.locks.edit(&id, "edited")
        {
            self.note("edited", || id.to_string());
            self.ledger.edited.insert(item.sqs_message_id);
        }
    }
}
