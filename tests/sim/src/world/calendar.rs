//! The hours of delivery, the periods of batches, the reasons for which batches are sealed, and the quotas.

use std::time::Duration;

use protocol::batch::{BatchRecord, BatchWrite, Status};
use protocol::ids::{BatchId, EventId, SeatKey};
use protocol::invariants::Check;
use protocol::limits::SQS_MESSAGE_BYTES_MAX;
use protocol::period::Period;
use protocol::time::Timestamp;
use shared::ports::StoredEvent;
use sinks::Part;

use super::World;
use crate::calendar::Hours;
use crate::checks;
use crate::ledger::{Occurrence, Quota, Sent};
use crate::plan::Plan;
use crate::redeploy::Change;

/// How long after the opening the delivery of a batch that waited for it begins, in a history without faults.
const OPENING_TIME_MAX: Duration = Duration::from_secs(60);
/// Longest time in days after which no entry of an event that was set aside has ended.
const ENTRIES_KEPT_DAYS: u64 = 4;

impl World {
    /// Records that a batch waits for the hours, if it was put back for them.
    pub fn note_waiting(&mut self, batch: BatchId, write: &BatchWrite) {
        let Some(hours) = self.plan.hours else {
            return;
        };
        if !matches!(write, BatchWrite::GiveUp { .. }) || hours.at(self.now()) != Hours::Closed {
            return;
        }
        self.note("waits for the hours", || batch.to_string());
        // Only without faults must deliveries begin soon after an opening, which takes long to find.
        if self.plan.calm
            && let Some(opening) = hours.opening(self.now())
        {
            self.ledger.openings.insert(batch, opening);
        }
    }

    /// Checks that the delivery of a part which begins now is in the hours of delivery, by some clock.
    pub fn check_hours(&mut self, part: &Part) {
        let opening = self.ledger.openings.remove(&part.batch_id);
        // A part with a number may have to wait for another one too, or for its turn, or for the end of a pause.
        let plan = &self.plan;
        let waits = plan.sequence || plan.events_per_second > 0 || !plan.pauses.is_empty();
        let is_prompt = plan.calm && !waits;
        if let Some(opening) = opening.filter(|_| is_prompt) {
            let in_time = self.now() <= opening + OPENING_TIME_MAX;
            self.check(checks::p6_the_hours_open_on_time(part, opening, in_time));
        }
        // Clocks that are too wrong may be in hours that this does not look at.
        if let Some(hours) = self.plan.hours.filter(|_| !self.plan.is_wild()) {
            let now = self.now();
            let may_be_open = hours.may_be_open(now, self.plan.skew_max());
            let check = checks::p7_no_delivery_begins_outside_the_hours(now, may_be_open);
            self.check(check);
        }
    }

    /// Checks that all events of a part are in the period of its batch.
    pub fn check_period(&mut self, part: &Part) {
        let items = part.items.iter();
        let sent = items.filter_map(|item| self.ledger.message(&item.sqs_message_id));
        let times: Vec<_> = sent.map(Sent::time).collect();
        let plan = &self.plan;
        let is_in = |period: Period| times.iter().all(|at| period.contains(*at));
        let changes = plan.changes(|one| matches!(one, Change::CloseEvery(_)));
        let as_planned = changes || times.iter().all(|at| plan.period_of(*at) == part.period);
        let holds = as_planned && part.period.is_none_or(is_in);
        self.check(checks::p10_a_part_is_of_one_period(part, holds, &times));
    }

    /// Checks that a batch which is sealed before its window ends is full, idle or urgent, or its source drained.
    pub fn check_seal(&mut self, before: &BatchRecord) {
        let now = self.now();
        let skew = self.plan.skew_max();
        let window_ends = before.closes_at <= now + skew;
        let is_over = before.period.is_none_or(|period| period.ends <= now + skew);
        let has_reason = window_ends
            || self.may_be_full(before)
            || self.may_be_idle(before)
            || self.has_urgent(before.batch_id)
            || self.plan.ever_seals_when_drained() && is_over;
        let check = checks::p10_a_batch_is_sealed_for_a_reason(before, now, has_reason);
        self.check(check);
    }

    fn may_be_full(&self, before: &BatchRecord) -> bool {
        let plan = &self.plan;
        let changed = plan.redeploys.iter().filter_map(|(_, one)| match one {
            Change::BatchSize(items) => Some(*items),
            _ => None,
        });
        let smallest = changed.fold(plan.batch_size, u64::min);
        let Some(reservations) = &before.reservations else {
            return false;
        };
        // The next body may be as large as a message.
        let has_no_bytes = || {
            let (aggregator, _) = plan.configs();
            let next = reservations.reserved_bytes + SQS_MESSAGE_BYTES_MAX as u64;
            aggregator.limits.bytes_max < next
        };
        smallest <= reservations.reserved || has_no_bytes()
    }

    /// Returns whether nothing was reserved in a batch for as long as its sealer waits.
    fn may_be_idle(&self, before: &BatchRecord) -> bool {
        let idle = Duration::from_secs(self.plan.close_after_idle_secs);
        let latest = self.now() + self.plan.skew_max();
        let last = before.reservations.as_ref().map(|one| one.last_at);
        !idle.is_zero() && last.is_some_and(|last| last + idle <= latest)
    }

    /// Returns whether a batch has an urgent event. Without a reply, its aggregator may take it for claimed although it is not.
    fn has_urgent(&self, batch: BatchId) -> bool {
        let is_claimed = self.ledger.claims_in(batch).any(|one| self.is_urgent(one));
        is_claimed || self.plan.urgent > 0.0 && !self.plan.calm
    }

    fn is_urgent(&self, claim: &Occurrence) -> bool {
        let sent = self.ledger.message(&claim.sqs_message_id);
        sent.is_some_and(|sent| sent.is_urgent)
    }

    /// Checks that no batch with an urgent event is open, when no aggregator works.
    pub fn check_urgent(&mut self) {
        let records = self.batches.records().into_iter();
        let mut open = records.filter(|record| record.status == Some(Status::Open));
        let urgent = open.find(|record| self.has_urgent(record.batch_id));
        let urgent = urgent.map(|record| record.batch_id);
        self.check(checks::p6_an_urgent_batch_is_sealed(urgent));
    }

    /// Checks P9 for the quota of an event that the sink got.
    pub(super) fn check_quota(&mut self, id: &EventId, seat: SeatKey) {
        let Some((max, _)) = self.plan.quota_max_ever() else {
            return;
        };
        let mut claims = self.ledger.claims_of(id).iter();
        let claim = claims.find(|one| one.has(seat));
        let Some(quota) = claim.and_then(|one| self.quota_of(one)) else {
            return;
        };
        let delivered = self.places_of(&quota, |one| one.delivered_at.is_some());
        let check = checks::p9_at_most_the_quota_is_delivered(&quota, delivered, max);
        self.check(check);
    }

    /// Notes that a line is beyond its quota, and checks that its event has no place there.
    pub(super) fn beyond_quota(&mut self, event: &StoredEvent, stored_at: Timestamp) {
        let id = &event.event_id;
        self.note("beyond a quota", || event.sqs_message_id.to_string());
        let sent = self.ledger.message(&event.sqs_message_id);
        let Some(quota) = sent.and_then(Sent::quota) else {
            return;
        };
        self.ledger.beyond.insert(quota.clone());
        // The line may have been decided before its event was set aside.
        let decided_within = Duration::from_millis(self.plan.processor_timeout_ms);
        let decided_from = self.now().saturating_sub(decided_within);
        let has_place = self.of_quota(id, &quota).last().is_some_and(|one| {
            one.aside_at.is_some_and(|at| at < decided_from)
                && one.aside_until.is_some_and(|until| stored_at < until)
                && one.forgotten_at.is_none()
                // A rebuilt index does not know whether the batch was decided before it was set aside.
                && self.plan.manifest_lost_at_ms.is_none()
        });
        let what = format!("{id} of {}", event.sqs_message_id);
        let check = checks::p9_what_was_set_aside_keeps_its_place(&quota, !has_place, &what);
        self.check(check);
    }

    /// Checks that every quota which some event was beyond is used up, if nothing else can have used its places.
    pub fn quotas_are_used_up(&self) -> Vec<Check> {
        let plan = &self.plan;
        let Some((max, false)) = plan.quota_max_ever().filter(|_| is_exact(plan)) else {
            return Vec::new();
        };
        let used = |one: &Occurrence| one.delivered_at.is_some() || one.aside_at.is_some();
        let check = |quota: &Quota| {
            let used = self.places_of(quota, used);
            checks::p9_no_place_is_left_where_an_event_is_beyond(quota, used, max)
        };
        self.ledger.beyond.iter().map(check).collect()
    }

    /// Returns how many places of a quota have a winner that `counts` holds for. A winner has the place of the winner of its event before
    /// it, if that was set aside or rejected.
    fn places_of(&self, quota: &Quota, counts: impl Fn(&Occurrence) -> bool) -> usize {
        let mut places = 0;
        for id in self.ledger.occurrences.keys() {
            let (mut is_kept, mut is_counted) = (false, false);
            for one in self.of_quota(id, quota) {
                is_counted &= is_kept;
                if !is_counted && counts(one) {
                    places += 1;
                    is_counted = true;
                }
                is_kept = one.aside_at.is_some();
            }
        }
        places
    }

    /// Returns the winners of an event that count in a quota.
    fn of_quota(&self, id: &EventId, quota: &Quota) -> impl Iterator<Item = &Occurrence> {
        let claims = self.ledger.claims_of(id).iter();
        let of_quota = move |one: &&Occurrence| self.quota_of(one).as_ref() == Some(quota);
        claims.filter(|one| !one.undone).filter(of_quota)
    }

    fn quota_of(&self, claim: &Occurrence) -> Option<Quota> {
        self.ledger.message(&claim.sqs_message_id)?.quota()
    }
}

/// Returns whether nothing in the plan can use a place without a delivery: losses that only people repair, events that are forgotten, or
/// entries that end before their events come again.
fn is_exact(plan: &Plan) -> bool {
    let passed = |days: Option<u64>| days.is_some_and(|days| days > ENTRIES_KEPT_DAYS);
    let lost = plan.denial.is_some() || plan.manifest_lost_at_ms.is_some();
    let forgotten = !plan.forgets_at_ms.is_empty();
    !lost && !forgotten && plan.standstill_days.is_none() && !passed(plan.afterlife_days)
}
