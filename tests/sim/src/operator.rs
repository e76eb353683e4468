//! The operator, who visits batches in error now and then and follows the runbook.

use std::collections::BTreeMap;

use protocol::batch::{BatchRecord, PartState, Status};
use protocol::ids::{BatchId, EventId, SeatKey};

use crate::ledger::Occurrence;
use crate::world::World;

/// The environment in which operators run their commands. Its clock is right.
pub const OPERATOR: u64 = 0;

/// What an operator does about a batch in error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    Retry,
    RetryWithNewSink,
    Discard,
}

impl World {
    /// Decides about every batch in error.
    pub fn decisions(&mut self) -> BTreeMap<Decision, Vec<BatchId>> {
        let mut decisions: BTreeMap<Decision, Vec<BatchId>> = BTreeMap::new();
        for record in self.batches.records() {
            if record.status == Some(Status::Error) {
                let decision = self.decide_about(&record);
                decisions.entry(decision).or_default().push(record.batch_id);
            }
        }
        decisions
    }

    /// Returns an event of the log that was delivered.
    pub fn delivered_event(&mut self) -> Option<EventId> {
        let was_delivered = |one: &Occurrence| one.window.is_some() && one.delivered_at.is_some();
        let events = self.ledger.occurrences.iter();
        let delivered = events.filter(|(_, all)| all.iter().any(was_delivered));
        let delivered: Vec<EventId> = delivered.map(|(id, _)| id.clone()).collect();
        let chosen = (!delivered.is_empty()).then(|| self.rng.usize(0..delivered.len()));
        chosen.map(|index| delivered[index].clone())
    }

    /// Returns whether batches are in error because the manifest is lost.
    pub fn has_lost_manifest(&self) -> bool {
        let records = self.batches.records().into_iter();
        let in_error = records.filter(|record| record.status == Some(Status::Error));
        let mut errors = in_error.filter_map(|record| record.error);
        errors.any(|error| error.contains("rebuild-dedup"))
    }

    fn decide_about(&mut self, record: &BatchRecord) -> Decision {
        let error = record.error.as_deref().unwrap_or_default();
        // `batchctl retry` leaves a batch out that is too old.
        let is_old = error.contains("days after it was opened");
        let is_tired = record.attempts > 40;
        let is_edited = error.contains("content differs from the freeze")
            || error.contains("differs from the claimed body")
            || error.contains(" lost (seqs ");
        // If the original content is lost, the batch can only be set aside.
        if self.plan.quarantine
            && (is_edited || is_old || is_tired || self.rng.f64() < self.plan.sets_aside)
        {
            return Decision::Discard;
        }
        match error.contains("frozen for another sink") {
            true => Decision::RetryWithNewSink,
            false => Decision::Retry,
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
        let has = |seat: SeatKey| seat.shard.batch == batch && members.contains(seat.seq);
        let mut events = self.ledger.occurrences.iter();
        let event = events.find(|(_, claims)| claims.iter().any(|one| has(one.seat)));
        if let Some(id) = event.map(|(id, _)| id.clone())
            && let Some(item) = self.locks.get(&id)
            && self.locks.edit(&id, "edited")
        {
            self.note("edited", || id.to_string());
            self.ledger.edited.insert(item.sqs_message_id);
        }
    }
}
