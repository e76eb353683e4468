//! The rate of deliveries, by what was handed to the sink, and how often the bodies of batches are read.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::batch::{BatchRecord, BatchWrite, Due};
use protocol::ids::BatchId;
use protocol::invariants::Check;
use protocol::limits::CLOCK_SKEW_MAX;
use protocol::turns::Turns;
use sinks::Part;

use super::World;
use crate::checks::{self, DECIDED_LATE_MAX, PART_LATE_MAX};
use crate::ledger::Handed;

/// Longest time for which an environment is frozen.
const FROZEN_MAX: Duration = Duration::from_secs(150);
/// How long after it was let through a part is at the sink, without faults.
const HAND_OVER_MAX: Duration = Duration::from_secs(2);

impl World {
    /// Checks that the rate holds when a part is handed to the sink for the first time.
    pub fn check_rate(&mut self, part: &Part) {
        let rate = self.plan.events_per_second;
        let (key, now) = (part.key(), self.now());
        if rate == 0 || self.ledger.handed.iter().any(|one| one.key == key) {
            return;
        }
        self.ledger.handed.push(Handed {
            key,
            at: now,
            events: part.items.len() as u64,
        });
        let late_max = match self.plan.calm {
            true => HAND_OVER_MAX,
            false => FROZEN_MAX + Duration::from_millis(self.plan.processor_timeout_ms),
        };
        let skew = self.plan.skew_max();
        if self.plan.calm {
            let next_at = self.named_item::<Turns>(&()).value.next_at;
            let events = part.items.len() as u64;
            let late_max = late_max + skew;
            let check = checks::p12_the_next_part_waits(next_at, now, events, rate, late_max);
            self.check(check);
        }
        let handed = &self.ledger.handed;
        let check = checks::p12_the_rate_is_not_exceeded(handed, rate, late_max + 2 * skew);
        self.check(check);
    }

    /// Checks that the rate was reached from the time on at which the last batch had closed, was decided if it is of the log, and could have
    /// begun, in a history in which nothing else keeps parts from the sink.
    pub fn check_rate_reached(&mut self) {
        let plan = &self.plan;
        let records = self.batches.records();
        let closed_at = records.iter().map(|record| record.closed_at()).max();
        if let Some(closed_at) = closed_at
            && plan.events_per_second > 0
            && plan.calm
            && !plan.holds_back()
        {
            let rate = plan.events_per_second;
            // A processor that decides about batches of the log delivers none meanwhile.
            let from = closed_at.max(self.decided_at) + CLOCK_SKEW_MAX + HAND_OVER_MAX;
            let late_max = match records.iter().any(|record| record.bodies.is_log()) {
                true => PART_LATE_MAX + DECIDED_LATE_MAX,
                false => PART_LATE_MAX,
            };
            let handed = &self.ledger.handed;
            let check = checks::p12_the_rate_is_reached(handed, from, rate, late_max);
            self.check(check);
        }
    }

    /// Changes the number of items, pages and objects that an environment has read for its look, if it looks.
    pub fn change_look(&mut self, environment: u64, change: impl FnOnce(u64) -> u64) {
        if let Some(read) = self.ledger.look_reads.get_mut(&environment) {
            *read = change(*read);
        }
    }

    /// Records whether an environment found that the next part may go, by any clock.
    pub fn note_turns(&mut self, environment: u64, turns: Turns) {
        let latest = self.now() + self.plan.skew_max();
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
        let record = self.batches.get(batch);
        if record.is_some_and(|record| record.is_reported()) {
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
            // What is read to count claims, to decide about lines, and then to merge runs, is not a look, and is not read again.
            BatchWrite::Resolve { .. } | BatchWrite::Freeze { .. } => {
                look_reads.remove(&environment);
            }
            BatchWrite::Reported { .. } | BatchWrite::Count { .. } => {
                look_reads.entry(environment).and_modify(|read| *read = 0);
            }
            BatchWrite::GiveUp {
                due: Due {
                    verify_at: None, ..
                },
                failure: None,
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
        let is_put_back = plan.holds_back() || plan.events_per_second > 0;
        let records = self.batches.records().into_iter();
        // The lines of a batch of the log are read once more, to decide about them.
        records
            .filter(|record| !record.bodies.is_log())
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
