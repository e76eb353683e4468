//! The numbers of parts.

use protocol::batch::{BatchRecord, PartState};
use protocol::sequence::{PartId, Sequence, SequenceScope};
use shared::ports::SequenceStore;

use super::World;
use super::fakes::now;
use crate::checks;

impl World {
    /// Notes that a part took a number after it had ended: by a processor that had lost its lease, or by a write that came late.
    pub fn number_taken(&mut self, taken: Sequence) {
        let Some(part) = taken.holder else {
            return;
        };
        let record = self.batches.get(part.batch);
        let has_ended = record.is_some_and(|record| {
            let state = record.parts.get(part.part).map(|part| &part.state);
            state.is_some_and(|state| *state != PartState::Frozen)
        });
        if has_ended {
            self.ledger.late_numbers.insert(part);
        }
    }

    /// Checks that a complete batch has given its last number up.
    pub fn check_numbers_given_up(&mut self, complete: &BatchRecord) {
        let scope = SequenceScope::of(complete);
        let sequence = now(self.sequences.read(&scope)).unwrap_or_default();
        let is_late = |part: &PartId| self.ledger.late_numbers.contains(part);
        let held = sequence
            .holder
            .filter(|part| part.batch == complete.batch_id && !is_late(part));
        self.check(checks::inv32_a_complete_batch_holds_no_number(held));
    }
}
