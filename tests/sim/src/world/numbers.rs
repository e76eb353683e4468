//! The numbers of parts.

use protocol::batch::{BatchRecord, BatchWrite, PartState};
use protocol::sequence::{PartId, Sequence, SequenceScope};
use shared::named_items::NamedItem;

use super::World;
use crate::checks;
use crate::ledger::SequenceLook;

impl World {
    /// An environment has read a sequence.
    pub fn note_sequence_look(&mut self, environment: u64, name: &str, sequence: Sequence) {
        let ended = sequence.holder.filter(|holder| {
            let record = self.batches.get(holder.batch);
            record.is_none_or(|record| {
                let part = record.parts.get(holder.part);
                let has_ended = part.is_some_and(|part| part.state != PartState::Frozen);
                has_ended || record.status.is_none()
            })
        });
        let look = SequenceLook {
            name: name.to_owned(),
            ended,
        };
        self.ledger.looks.insert(environment, look);
    }

    /// Checks that a part which is put back does not wait for the number of a part that had ended when it looked.
    pub fn check_number_awaited(
        &mut self,
        environment: u64,
        record: &BatchRecord,
        write: &BatchWrite,
    ) {
        let put_back = matches!(
            write,
            BatchWrite::GiveUp {
                failure: None,
                verify_at: None,
                ..
            }
        );
        let plan = &self.plan;
        // A write that is applied late belongs to an earlier look.
        let only_numbers = plan.sequence
            && plan.hours.is_none()
            && plan.pauses.is_empty()
            && plan.events_per_second == 0
            && plan.faults.apply_late == 0.0
            && plan.faults.late_record == 0.0;
        let part = record.frozen_part().map(|(_, part)| part);
        let has_none = part.is_none_or(|part| part.file_number.is_none());
        let look = self.ledger.looks.get(&environment);
        let name = Sequence::name(&SequenceScope::of(record));
        let look = look.filter(|look| look.name == name);
        if let Some(look) = look.filter(|_| put_back && only_numbers && has_none) {
            let check =
                checks::p7_no_part_waits_for_one_that_has_ended(record.batch_id, look.ended);
            self.check(check);
        }
    }

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
        let sequence = self.named_item::<Sequence>(&scope).value;
        let is_late = |part: &PartId| self.ledger.late_numbers.contains(part);
        let held = sequence
            .holder
            .filter(|part| part.batch == complete.batch_id && !is_late(part));
        self.check(checks::inv32_a_complete_batch_holds_no_number(held));
    }
}
