//! The reasons for which batches are sealed, by what is known of their claims.

use std::time::Duration;

use protocol::batch::{BatchCounts, BatchRecord, Status};
use protocol::ids::BatchId;
use protocol::limits::SEATS_MAX;

use super::World;
use crate::checks;
use crate::clocks::SKEW_MAX_MS;
use crate::ledger::Occurrence;
use crate::redeploy::Change;

/// How long a request of a claim takes at most, and by how much a clock may jump meanwhile.
const CLAIM_TIME_MAX: Duration = Duration::from_secs(4);

impl World {
    /// Checks that a batch which is sealed before its window ends is full, idle or urgent, or its source drained.
    pub fn check_seal(&mut self, before: &BatchRecord, counts: &BatchCounts) {
        let now = self.now();
        let skew = Duration::from_millis(self.plan.skew_max_ms as u64);
        // An invocation that ends after the window needs another batch.
        let timeout = Duration::from_millis(self.plan.aggregator_timeout_ms);
        let window_ends = before.closes_at <= now + timeout + skew;
        let is_over = before.period.is_none_or(|period| period.ends <= now + skew);
        let has_reason = window_ends
            || self.may_be_full(counts)
            || self.may_be_idle(before.batch_id)
            || self.has_urgent(before.batch_id)
            || self.plan.ever_seals_when_drained() && is_over;
        let check = checks::p10_a_batch_is_sealed_for_a_reason(before, now, has_reason);
        self.check(check);
    }

    fn may_be_full(&self, counts: &BatchCounts) -> bool {
        let plan = &self.plan;
        let changed = plan.redeploys.iter().filter_map(|one| match one.change {
            Change::BatchSize(items) => Some(items),
            _ => None,
        });
        let smallest = changed.fold(plan.batch_size, u64::min);
        let seats = self.ledger.messages.len() as u64;
        if plan.seats_max == SEATS_MAX && seats < smallest {
            return false;
        }
        let taken = counts.confirmed + counts.uncertain;
        smallest <= taken || !plan.calm || plan.seats_max < SEATS_MAX || plan.invocations > 1
    }

    fn may_be_idle(&self, batch: BatchId) -> bool {
        let plan = &self.plan;
        let idle = Duration::from_secs(plan.close_after_idle_secs);
        // A claim whose reply is lost is not seen by its aggregator, nor one of another invocation that has not ended.
        let faults = &plan.faults;
        let lost = faults.apply_late + faults.lose_reply + faults.unknown_member;
        let is_seen = lost == 0.0 && plan.invocations == 1 && plan.skew_max_ms <= SKEW_MAX_MS;
        if idle.is_zero() || !is_seen {
            return !idle.is_zero();
        }
        let last = self.ledger.claims_in(batch).map(|one| one.claimed_at).max();
        last.is_none_or(|last| last + idle <= self.now() + CLAIM_TIME_MAX)
    }

    /// Returns whether a batch has an urgent event. Without a reply, its aggregator may take it for claimed although it is not.
    fn has_urgent(&self, batch: BatchId) -> bool {
        let is_claimed = self.ledger.claims_in(batch).any(|one| self.is_urgent(one));
        is_claimed || self.plan.urgent > 0.0 && !self.plan.calm
    }

    fn is_urgent(&self, claim: &Occurrence) -> bool {
        let index = self.ledger.by_id.get(&claim.sqs_message_id);
        index.is_some_and(|index| self.ledger.messages[*index].is_urgent)
    }

    /// Checks that no batch with an urgent event is open, when no aggregator works.
    pub fn check_urgent(&mut self) {
        let records = self.batches.records().into_iter();
        let mut open = records.filter(|record| record.status == Some(Status::Open));
        let urgent = open.find(|record| self.has_urgent(record.batch_id));
        self.check(checks::p6_an_urgent_batch_is_sealed(
            urgent.map(|record| record.batch_id),
        ));
    }
}
