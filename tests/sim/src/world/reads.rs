//! How often the bodies of batches are read.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::batch::{BatchRecord, BatchWrite};
use protocol::ids::BatchId;
use protocol::invariants::Check;
use protocol::turns::Turns;

use super::World;
use crate::checks;

impl World {
    /// Records that an environment reads items, pages or objects.
    pub fn note_reads(&mut self, environment: u64, count: u64) {
        if let Some(read) = self.ledger.look_reads.get_mut(&environment) {
            *read += count;
        }
    }

    /// Records that an environment reads items again because others wrote them at the same time.
    pub fn note_read_again(&mut self, environment: u64, count: u64) {
        if let Some(read) = self.ledger.look_reads.get_mut(&environment) {
            *read = read.saturating_sub(count);
        }
    }

    /// Records that an environment waited for a turn, after which it looks again.
    pub fn looks_again(&mut self, environment: u64) {
        if let Some(read) = self.ledger.look_reads.get_mut(&environment) {
            *read = 0;
        }
    }

    /// Records whether an environment found that the next part may go, by any clock.
    pub fn note_turns(&mut self, environment: u64, turns: Turns) {
        let latest = self.now() + Duration::from_millis(self.plan.skew_max_ms as u64);
        if turns.next_at <= latest {
            self.ledger.on_turn.insert(environment);
        } else {
            self.ledger.on_turn.remove(&environment);
        }
    }

    /// An environment reads bodies of a batch. What it reads of a frozen part is not counted as a look.
    pub fn reads_bodies(&mut self, environment: u64, batch: BatchId) {
        if self.plan.calm && self.plan.events_per_second > 0 {
            let is_early = !self.ledger.on_turn.contains(&environment);
            self.check(checks::p13_no_body_is_read_early(batch, is_early));
        }
        let record = self.batches.get(batch);
        if record.is_some_and(|record| record.frozen_part().is_some()) {
            self.ledger.look_reads.remove(&environment);
        }
    }

    /// An environment reads a load. To decide about lines, it does so before the gate.
    pub fn reads_load(&mut self, environment: u64) {
        let Some(batch) = self.ledger.leased_in.get(&environment).copied() else {
            return;
        };
        if self
            .batches
            .get(batch)
            .is_some_and(|record| record.is_reported())
        {
            self.reads_bodies(environment, batch);
        }
    }

    /// Checks, in a history without faults, that few items were read to find that a batch must wait.
    pub fn check_look(&mut self, environment: u64, record: &BatchRecord, write: &BatchWrite) {
        let batch = record.batch_id;
        let frozen = record.frozen_part().map(|(_, part)| part);
        let look_reads = &mut self.ledger.look_reads;
        match write {
            BatchWrite::Lease { .. } => {
                look_reads.insert(environment, 0);
                self.ledger.leased_in.insert(environment, batch);
                self.ledger.on_turn.remove(&environment);
            }
            // What is read to decide about lines, and then to merge runs, is not a look, and is not read again.
            BatchWrite::Resolve { .. } => drop(look_reads.remove(&environment)),
            BatchWrite::Reported { .. } => {
                look_reads.entry(environment).and_modify(|read| *read = 0);
            }
            BatchWrite::Freeze { .. } => drop(look_reads.remove(&environment)),
            BatchWrite::GiveUp {
                failure: None,
                verify_at: None,
                ..
            } if self.plan.calm => {
                if let Some(read) = look_reads.remove(&environment) {
                    self.note("look", || format!("{batch} {read}"));
                    let is_frozen = frozen.is_some();
                    self.check(checks::p13_a_look_reads_four_items(batch, is_frozen, read));
                } else if let Some(part) = frozen
                    && self.plan.events_per_second > 0
                    && (!self.plan.sequence || part.file_number.is_some())
                {
                    *self.ledger.read_in_vain.entry(batch).or_default() += part.count;
                }
            }
            _ => {}
        }
    }

    /// Checks, in a history without faults, that bodies are read about once.
    pub fn reads_are_few(&self) -> Vec<Check> {
        let plan = &self.plan;
        if !plan.calm {
            return Vec::new();
        }
        // A part that was frozen before it had to wait is read again. A piece that has events of several parts is read for each of them.
        let is_put_back = plan.hours.is_some()
            || !plan.pauses.is_empty()
            || plan.sequence
            || plan.events_per_second > 0;
        let records = self.batches.records().into_iter();
        // The lines of a batch of the log are read once more, to decide about them.
        records
            .filter(|record| record.log.is_none())
            .map(|record| {
                let count = |counts: &BTreeMap<_, u64>| {
                    counts.get(&record.batch_id).copied().unwrap_or_default()
                };
                let stored = record.members().len();
                let read_max = if is_put_back {
                    let shared = record.parts.len().saturating_sub(1) as u64;
                    2 * (stored + shared) + count(&self.ledger.read_in_vain)
                } else {
                    stored + stored / 2
                };
                let read = count(&self.ledger.reads);
                checks::p13_bodies_are_read_about_once(record.batch_id, read, read_max)
            })
            .collect()
    }
}
