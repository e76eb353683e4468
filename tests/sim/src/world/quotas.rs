//! The quotas, counted by what the sink got.

use std::time::Duration;

use protocol::claim::{LockItem, LockState};
use protocol::ids::{EventId, SeatKey};
use protocol::invariants::Check;
use shared::ports::Quarantined;

use super::World;
use crate::checks;
use crate::ledger::{Occurrence, Quota};
use crate::plan::Plan;

/// Longest time in days after which no record of a batch has expired.
const RECORDS_KEPT_DAYS: u64 = 10;

impl World {
    /// Checks P9 for the quota of an event that the sink got.
    pub(super) fn check_quota(&mut self, id: &EventId, seat: SeatKey) {
        let Some((max, _)) = self.plan.quota_max_ever() else {
            return;
        };
        let mut claims = self.ledger.occurrences.get(id).into_iter().flatten();
        let claim = claims.find(|one| one.has(seat));
        let Some(quota) = claim.and_then(|one| self.quota_of(one)) else {
            return;
        };
        let delivered = self.places_of(&quota, |one| one.delivered_at.is_some());
        self.check(checks::p9_at_most_the_quota_is_delivered(
            &quota, delivered, max,
        ));
    }

    /// Notes that a message arrives in the quarantine as beyond its quota, and checks that its event has no place there.
    pub(super) fn beyond_quota(&mut self, message: &Quarantined) {
        self.note("beyond a quota", || message.sqs_message_id.to_string());
        let index = self.ledger.by_id.get(&message.sqs_message_id);
        let quota = index.and_then(|index| self.ledger.messages[*index].quota());
        let (Some(quota), Some(id)) = (quota, &message.event_id) else {
            return;
        };
        self.ledger.beyond.insert(quota.clone());
        let kept = self.locks.get(id).and_then(|item| self.aside(id, &item));
        // The message may have been classified before its event was set aside.
        let classified_within = Duration::from_millis(self.plan.aggregator_timeout_ms);
        let classified_from = self.now().saturating_sub(classified_within);
        let has_place = kept.is_some_and(|one| {
            one.aside_at.is_some_and(|at| at < classified_from)
                && self.quota_of(one).as_ref() == Some(&quota)
        });
        let what = format!("{id} of {}", message.sqs_message_id);
        self.check(checks::p9_what_was_set_aside_keeps_its_place(
            &quota, !has_place, &what,
        ));
    }

    /// Returns the claim that an item is of, or was of, if its event was set aside or rejected.
    fn aside(&self, id: &EventId, item: &LockItem) -> Option<&Occurrence> {
        let claims = self.ledger.occurrences.get(id)?.iter().rev();
        let mut of_message = claims.filter(|one| one.sqs_message_id == item.sqs_message_id);
        let claim = match item.state {
            LockState::Tombstone { .. } => of_message.next().filter(|_| item.set_aside),
            LockState::Live { .. } | LockState::InChunk { .. } => {
                let seat = item.state.claimed_seat()?;
                // Without the record nobody knows what became of the seat.
                self.batches.get(seat.batch)?;
                let seat = (seat.batch, seat.seq);
                of_message.find(|one| (one.seat.shard.batch, one.seat.seq) == seat)
            }
        };
        claim.filter(|one| one.set_aside)
    }

    /// Checks that every quota which some event was beyond is used up, if nothing else can have used its places.
    pub fn quotas_are_used_up(&self) -> Vec<Check> {
        let plan = &self.plan;
        let Some((max, false)) = plan.quota_max_ever() else {
            return Vec::new();
        };
        if !is_exact(plan) {
            return Vec::new();
        }
        let used = |one: &Occurrence| one.delivered_at.is_some() || one.set_aside;
        let beyond = self.ledger.beyond.iter();
        beyond
            .map(|quota| {
                let used = self.places_of(quota, used);
                checks::p9_no_place_is_left_where_an_event_is_beyond(quota, used, max)
            })
            .collect()
    }

    /// Returns how many places of a quota have a claim that `counts` holds for. A claim of an event that was set aside or rejected has
    /// the place of the claim before it, unless another quota came between them.
    fn places_of(&self, quota: &Quota, counts: impl Fn(&Occurrence) -> bool) -> usize {
        let mut places = 0;
        for claims in self.ledger.occurrences.values() {
            let (mut kept, mut is_counted) = (None, false);
            for one in claims {
                let of = self.quota_of(one);
                let is_kept = of.is_some() && of == kept;
                is_counted &= is_kept;
                if !is_counted && of.as_ref() == Some(quota) && counts(one) {
                    places += 1;
                    is_counted = true;
                }
                // An orphan leaves the place to the next claim.
                let is_left = one.set_aside || is_kept && one.delivered_at.is_none();
                kept = of.filter(|_| is_left);
            }
        }
        places
    }

    fn quota_of(&self, claim: &Occurrence) -> Option<Quota> {
        let index = self.ledger.by_id.get(&claim.sqs_message_id)?;
        self.ledger.messages[*index].quota()
    }
}

/// Returns whether nothing in the plan can use a place without a delivery: losses that only people repair, or records that expire
/// before anyone looked what their batches delivered.
fn is_exact(plan: &Plan) -> bool {
    let passed = |days: Option<u64>| days.is_some_and(|days| days > RECORDS_KEPT_DAYS);
    let lost = plan.faults.edit > 0.0 || plan.denial.is_some();
    !lost && plan.standstill_days.is_none() && !passed(plan.afterlife_days)
}
