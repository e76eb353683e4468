//! The rate of deliveries, by what was handed to the sink.

use std::time::Duration;

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
        let skew = Duration::from_millis(self.plan.skew_max_ms as u64);
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

    /// Checks that the rate was reached from the time on at which the last batch had closed and could have begun, in a history in which
    /// nothing else keeps parts from the sink.
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
            let from = closed_at + CLOCK_SKEW_MAX + HAND_OVER_MAX;
            // A batch of the log is decided by the one processor that could deliver another meanwhile.
            let late_max = match records.iter().any(|record| record.log.is_some()) {
                true => PART_LATE_MAX + DECIDED_LATE_MAX,
                false => PART_LATE_MAX,
            };
            let handed = &self.ledger.handed;
            let check = checks::p12_the_rate_is_reached(handed, from, rate, late_max);
            self.check(check);
        }
    }
}
