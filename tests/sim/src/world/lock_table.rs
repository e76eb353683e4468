//! The lock table: claims, releases and the TTL.

use std::time::Duration;

use protocol::batch::{BatchRecord, PartState, Status};
use protocol::claim::{Claim, DuplicateRule, LockItem, LockState};
use protocol::ids::{EventId, SeatKey, Seq, SqsMessageId};
use protocol::limits::DYNAMODB_ITEM_BYTES_MAX;
use protocol::time::Timestamp;
use shared::ports::{ClaimReply, LockStore, Release, ReleaseReply, StoredEvent};

use super::{World, now};
use crate::checks;
use crate::index::REPLICAS;
use crate::ledger::Occurrence;
use crate::plan::Plan;
use crate::redeploy::Change;

/// Days after which the overflow bucket removes bodies.
const OVERFLOW_DAYS: u64 = 30;
/// After the faults stopped, the index shows every change within this time.
const INDEX_CALM_MS: u64 = 30_000;

impl World {
    /// Claims an event, in place of its item if that is `expected`.
    pub fn claim(&mut self, claim: &Claim, expected: Option<&LockItem>) -> ClaimReply {
        let reply = self.member(|world| {
            let before = world.locks.get(&claim.candidate.event_id);
            let reply = match expected {
                None => now(world.locks.claim(std::slice::from_ref(claim))).pop(),
                Some(expected) => Some(now(world.locks.replace(claim, expected))),
            };
            if matches!(reply, Some(ClaimReply::Written)) {
                world.claimed(claim, before);
            }
            reply.expect("the fake returns one reply for one claim")
        });
        let hides = !self.plan.shows_what_refused;
        match reply.unwrap_or_else(ClaimReply::Error) {
            ClaimReply::Exists(Some(_)) if hides => ClaimReply::Exists(None),
            reply => reply,
        }
    }

    /// Records a claim that was written in the index and the ledger, and checks it.
    fn claimed(&mut self, claim: &Claim, before: Option<LockItem>) {
        let (now, seat) = (self.now(), claim.seat.key());
        let candidate = &claim.candidate;
        let id = candidate.event_id.clone();
        let message = candidate.sqs_message_id.clone();
        let SeatKey { shard, seq } = seat;
        self.note("claimed", || format!("{id} by {message} at {shard}/{seq}"));
        if let Some(former) = before.as_ref().and_then(live_seat) {
            self.index_changes(&id, former, false);
        }
        self.index_changes(&id, seat, true);

        let batch = claim.seat.batch;
        let record = self.batches.get(batch);
        // With a long window, the sweep sends the ticket, also if another environment has sealed the batch meanwhile.
        let is_swept =
            |one: &BatchRecord| one.awaits_first_ticket() || one.status == Some(Status::Sealed);
        let awaits = record.as_ref().is_some_and(is_swept);
        let ticketed = awaits || self.ledger.tickets.contains_key(&batch);
        let (recorded, what) = (record.is_some(), format!("{id} claimed into {batch}"));
        let check = checks::inv13_claims_name_announced_batches(recorded, ticketed, &what);
        self.check(check);
        for prior in self.ledger.claims_of(&id).to_vec() {
            self.check_replaced(&prior, &message, now);
        }
        let occurrence = Occurrence::new(message, candidate.body_hash, seat, now);
        self.ledger.add(id, occurrence);
    }

    /// Checks a claim of `message` against an earlier claim of the same event. `now` is the time by which the service decides.
    pub(super) fn check_replaced(
        &mut self,
        prior: &Occurrence,
        message: &SqsMessageId,
        now: Timestamp,
    ) {
        if prior.undone {
            return;
        }
        let record = self.batches.get(prior.seat.shard.batch);
        let record_expired = record.is_none();
        let completed_at = record.as_ref().and_then(|record| record.completed_at);
        // Records are kept for two weeks after their end.
        let has_ended = record_expired
            || completed_at.is_some()
            || record.is_some_and(|record| {
                record.set_aside.contains(prior.seat.seq)
                    || prior.window.is_some() && seat_has_ended(&record, prior.seat.seq)
            });
        let check = checks::p2_a_claim_replaces_only_what_has_ended(prior, has_ended, now);
        self.check(check);
        if prior.forgotten_at.is_some() {
            return;
        }
        // An operator who sets events aside accepts that the sink may have received them before.
        let may_repeat = self.plan.ever(DuplicateRule::Requeue) || prior.aside_at.is_some();
        let window = self.dedup_window();
        let ends_at = match record_expired {
            true => now,
            false => completed_at.unwrap_or(now) + window,
        };
        let remembered_until = prior.remembered_until.unwrap_or(ends_at);
        // When a deployment shortens the dedup window, it is shorter for earlier deliveries too, except for those of
        // the log, which keep the window of their batch.
        let plan = &self.plan;
        let changes = plan.changes(|one| matches!(one, Change::DedupWindow(_)));
        let remembered_until = match prior.delivered_at {
            Some(at) if changes && prior.window.is_none() => remembered_until.min(at + window),
            Some(_) | None => remembered_until,
        };
        let skew = self.plan.excess_skew();
        let until = remembered_until.saturating_sub(skew);
        let check = checks::p3_p4_delivered_once_per_window(prior, message, until, may_repeat, now);
        self.check(check);
        let latest = now + skew;
        let check = checks::p3_what_was_set_aside_is_not_claimed_again(prior, message, latest);
        self.check(check);
    }

    pub fn release(&mut self, item: &(EventId, SeatKey), release: Release) -> ReleaseReply {
        let released = self.member(|world| {
            let before = world.locks.get(&item.0);
            now(world.locks.release(std::slice::from_ref(item), release));
            if let Some(seat) = before.as_ref().and_then(live_seat)
                && before != world.locks.get(&item.0)
            {
                world.released(&item.0, seat, release);
            }
        });
        released.map_or_else(ReleaseReply::Error, |()| ReleaseReply::Released)
    }

    /// Puts a tombstone for an operator in the place of `expected`. Returns whether that was there.
    pub fn remember(&mut self, id: EventId, item: LockItem, expected: Option<&LockItem>) -> bool {
        let is_as_expected = self.locks.get(&id).as_ref() == expected;
        if is_as_expected {
            self.note("remembered", || format!("{id} {item:?}"));
            self.locks.insert(id, item);
        }
        is_as_expected
    }

    /// Records a release in the index and the ledger, and checks it.
    fn released(&mut self, id: &EventId, seat: SeatKey, release: Release) {
        let (now, window) = (self.now(), self.dedup_window());
        let expires_at = match release {
            Release::Remembered(expires_at) => Some(expires_at),
            Release::SetAside(_) | Release::Deleted => None,
        };
        let SeatKey { shard, seq } = seat;
        self.note("released", || format!("{id} at {shard}/{seq}"));
        self.index_changes(id, seat, false);
        let Some(occurrence) = self.ledger.occurrence(id, seat) else {
            return;
        };
        occurrence.remembered_until = Some(expires_at.unwrap_or(now));
        if let Release::SetAside(until) = release {
            occurrence.aside_until = Some(until.min(now + window));
        }
        occurrence.released_at = Some(now);
        let released = occurrence.clone();
        let set_aside = self.ledger.seat_set_aside(id, seat);
        let has_ended = self.ledger.seat_delivered(id, seat) || set_aside;
        let check = checks::inv14_only_delivered_claims_are_released(&released, has_ended);
        self.check(check);
        if !set_aside
            && let (Some(delivered_at), Some(expires_at)) = (released.delivered_at, expires_at)
        {
            let window = Duration::from_secs(self.plan.dedup_window_min_secs());
            // The clock of the processor may be behind.
            let lasts_until = expires_at + self.plan.excess_skew();
            let check = checks::inv16_tombstones_last_the_window(delivered_at, window, lasts_until);
            self.check(check);
        }
    }

    /// Returns the live claims among `ids`.
    pub fn stored(&mut self, ids: &[EventId]) -> Vec<StoredEvent> {
        let read = now(self.locks.read_events(ids));
        let events = read.map(|(events, _)| events).unwrap_or_default();
        for event in &events {
            *self.ledger.reads.entry(event.shard.batch).or_default() += 1;
        }
        events
    }

    /// The table's TTL removes some of the expired items.
    pub fn expire(&mut self) {
        let now = self.now();
        for (id, item) in self.locks.items() {
            if item.expires_at().is_some_and(|at| at <= now) && self.strikes(self.plan.faults.ttl) {
                self.remove_expired(&id, &item);
            }
        }
    }

    fn remove_expired(&mut self, id: &EventId, item: &LockItem) {
        let now = self.now();
        self.note("expired", || id.to_string());
        self.check(checks::inv15_ttl_touches_only_expired_items(item, now));
        self.locks.remove(id);
    }

    /// Removes every expired item and record, and after a month every overflow body. In a log, one of the two
    /// tables may forget nothing, because nothing may rely on the order in which DynamoDB removes items.
    pub fn expire_all(&mut self, days: u64) {
        let now = self.now();
        let keeps = |rng: &mut fastrand::Rng, plan: &Plan| plan.ever_log() && rng.u8(..) < 64;
        let keeps_items = keeps(&mut self.rng, &self.plan);
        for (id, item) in self.locks.items() {
            if item.expires_at().is_some_and(|at| at <= now) && !keeps_items {
                self.remove_expired(&id, &item);
            }
        }
        let keeps_records = keeps(&mut self.rng, &self.plan);
        for record in self.batches.records() {
            if record.expires_at.is_some_and(|at| at <= now) && !keeps_records {
                self.note("record expired", || record.batch_id.to_string());
                self.forget_notices(&record);
                self.batches.remove(record.batch_id);
            }
        }
        for (object, expires_at) in self.objects_expire_at.clone() {
            if expires_at <= now {
                self.note("object expired", || object.to_string());
                self.objects.remove(object);
                self.objects_expire_at.remove(&object);
            }
        }
        if days >= OVERFLOW_DAYS {
            // The quarantine gets a text in place of such a body.
            for message in &self.ledger.messages {
                if message.body.len() > DYNAMODB_ITEM_BYTES_MAX {
                    self.ledger.edited.insert(message.sqs_message_id.clone());
                }
            }
            self.overflow.clear();
        }
    }

    fn index_changes(&mut self, id: &EventId, seat: SeatKey, present: bool) {
        let mut visible_at_ms = [self.now_ms; REPLICAS];
        for at in &mut visible_at_ms {
            *at += self.lag_ms();
        }
        self.index
            .change(seat.shard, seat.seq, id, present, visible_at_ms);
    }

    fn lag_ms(&mut self) -> u64 {
        if !self.faulty {
            return self.rng.u64(0..200);
        }
        let max = match self.strikes(self.plan.faults.index_lags_long) {
            true => self.plan.index_lag_max_ms,
            false => self.plan.index_lag_ms,
        };
        let lag_ms = self.rng.u64(0..=max);
        // The lag has no fixed limit, but every change is visible some time after the faults stop.
        let calm_ms = self.plan.calm_at_ms.saturating_sub(self.now_ms) + INDEX_CALM_MS;
        lag_ms.min(calm_ms)
    }
}

/// Returns the seat of an item, if it is a live claim.
pub(crate) fn live_seat(item: &LockItem) -> Option<SeatKey> {
    match item.state {
        LockState::Live { shard, seq } => Some(SeatKey { shard, seq }),
        LockState::Tombstone { .. } => None,
    }
}

/// Returns whether the record says that the seat was delivered or set aside.
fn seat_has_ended(record: &BatchRecord, seq: Seq) -> bool {
    let in_part = record.parts.iter().any(|part| {
        matches!(part.state, PartState::Delivered { .. }) && part.members.contains(seq)
    });
    in_part || record.delivered.contains(seq) || record.set_aside.contains(seq)
}
