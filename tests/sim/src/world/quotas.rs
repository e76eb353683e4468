//! The quotas, counted by what the sink got.

use std::collections::BTreeMap;

use protocol::ids::{EventId, SeatKey};
use protocol::invariants::Check;

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
        let delivered = self.claims_of(&quota, |one| one.delivered_at.is_some());
        self.check(checks::p9_at_most_the_quota_is_delivered(
            &quota, delivered, max,
        ));
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
                let used = self.claims_of(quota, used);
                checks::p9_no_place_is_left_where_an_event_is_beyond(quota, used, max)
            })
            .collect()
    }

    fn claims_of(&self, quota: &Quota, counts: impl Fn(&Occurrence) -> bool) -> usize {
        let claims = self.ledger.occurrences.values().flatten();
        let mut seats: BTreeMap<_, bool> = BTreeMap::new();
        for one in claims.filter(|one| self.quota_of(one).as_ref() == Some(quota)) {
            let seat = (one.seat.shard.batch, one.seat.seq);
            *seats.entry(seat).or_default() |= counts(one);
        }
        seats.into_values().filter(|counts| *counts).count()
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
    let lost = plan.faults.damage > 0.0 || plan.faults.edit > 0.0 || plan.denial.is_some();
    !lost
        && plan.chunk_days > RECORDS_KEPT_DAYS
        && plan.standstill_days.is_none()
        && !passed(plan.afterlife_days)
}
