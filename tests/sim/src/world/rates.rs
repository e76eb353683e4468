//! The rate of deliveries, by what was handed to the sink.

use std::time::Duration;

use protocol::time::Timestamp;
use sinks::Part;

use super::World;
use crate::checks;
use crate::ledger::{Handed, Turn};

/// How long a turn is kept that passes, and how long an invocation waits for one.
const TURN_KEPT_MAX: Duration = Duration::from_secs(300 + 10);
/// Longest time for which an environment is frozen.
const FROZEN_MAX: Duration = Duration::from_secs(150);
/// How far ahead SQS delays a ticket. The sweep sends one for a later turn.
const DELAY_MAX: Duration = Duration::from_secs(890);
/// How much later than its turn a part comes, without faults and with a ticket of its own.
const TICKET_LATE_MAX: Duration = Duration::from_secs(10);
/// A batch with as many leases as this, or with a multiple, gets its ticket from the sweep.
const LEASES_IN_CHAIN: u64 = 12;

impl World {
    /// Takes a turn for the batch that the environment has leased, after the turns that were taken before.
    pub fn take_turn(
        &mut self,
        environment: u64,
        now_there: Timestamp,
        length: Duration,
    ) -> Timestamp {
        let begins = now_there.max(self.turns_free_at);
        self.turns_free_at = begins + length;
        let events_max = length.as_millis() as u64 * self.plan.events_per_second / 1_000;
        self.has_far_turns |= now_there.until(begins) > DELAY_MAX;
        self.ledger.turns.push(Turn {
            batch: self
                .ledger
                .leases
                .get(&environment)
                .map(|(_, batch)| *batch),
            begins,
            events_max,
        });
        begins
    }

    /// Checks that a part which is handed to the sink for the first time has a turn, and that the rate holds.
    pub fn check_rate(&mut self, part: &Part) {
        let rate = self.plan.events_per_second;
        let (key, now) = (part.key(), self.now());
        if rate == 0 || self.ledger.handed.iter().any(|one| one.key == key) {
            return;
        }
        let skew = Duration::from_millis(self.plan.skew_max_ms as u64);
        let events = part.items.len() as u64;
        let turns = self.ledger.turns.iter().enumerate();
        let batch = Some(part.batch_id);
        let fits = |turn: &Turn| {
            turn.batch == batch && turn.begins <= now + skew && events <= turn.events_max
        };
        let shortest = turns
            .filter(|(_, turn)| fits(turn))
            .min_by_key(|(_, turn)| (turn.events_max, turn.begins))
            .map(|(index, _)| index);
        if let Some(index) = shortest {
            self.ledger.turns.remove(index);
        }
        let has_turn = shortest.is_some();
        self.check(checks::p12_a_part_goes_in_its_turn(&key, events, has_turn));
        self.ledger.handed.push(Handed {
            key,
            at: now,
            events,
        });
        let handed = &self.ledger.handed;
        let check = checks::p12_the_rate_is_not_exceeded(handed, rate, self.turn_late_max());
        self.check(check);
    }

    /// Returns how much later than its turn a part may come.
    fn turn_late_max(&self) -> Duration {
        let plan = &self.plan;
        let sweep = Duration::from_millis(plan.sweep_every_ms);
        if plan.calm && !plan.sequence {
            let in_chain = |attempts: u64| attempts < LEASES_IN_CHAIN;
            let mut records = self.batches.records().into_iter();
            let has_tickets = records.all(|record| in_chain(record.attempts));
            return match has_tickets && !self.has_far_turns {
                true => TICKET_LATE_MAX,
                false => TICKET_LATE_MAX + sweep,
            };
        }
        let timeout = Duration::from_millis(plan.processor_timeout_ms);
        let skew = Duration::from_millis(2 * plan.skew_max_ms as u64);
        TURN_KEPT_MAX + FROZEN_MAX + timeout + skew
    }

    /// Checks that the rate was reached from the time on at which the last batch had closed, in a history in which nothing else keeps
    /// parts from the sink.
    pub fn check_rate_reached(&mut self) {
        let plan = &self.plan;
        let alone = plan.hours.is_none() && plan.pauses.is_empty() && !plan.sequence;
        let records = self.batches.records();
        let closed_at = records.iter().map(|record| record.closed_at()).max();
        if let Some(from) = closed_at
            && plan.events_per_second > 0
            && plan.kept.rate_reached
            && plan.calm
            && alone
        {
            let rate = plan.events_per_second;
            let check = checks::p12_the_rate_is_reached(&self.ledger.handed, from, rate);
            self.check(check);
        }
    }
}
