//! The simulated services: tables, index, queues and sink, what goes wrong with them, and what really happened.
//!
//! Tables are the fakes of [`shared::memory`], which pass the adapters' contract tests; around them stand the faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use fastrand::Rng;
use futures::FutureExt;
use protocol::batch::{BatchRecord, BatchWrite, PartState, Status};
use protocol::claim::{Claim, DuplicateRule, LockItem, LockState};
use protocol::ids::{BatchId, EventId, Place, SourceArn};
use protocol::invariants::{Broken, Check, step_is_sound};
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::memory::{MemoryBatchStore, MemoryLockStore};
use shared::ports::{
    BatchReply, BatchStore, ClaimReply, LockStore, Overdue, PortError, Quarantined, QueueDepth,
    Release, ReleaseReply, StoredEvent,
};
use shared::wire::{Ticket, TicketReason};

use crate::act::Act;
use crate::checks;
use crate::clocks::{SKEW_MAX_MS, START};
use crate::fate::{Fate, REFUSED, throttled, unanswered};
use crate::index::{LaggingIndex, REPLICAS};
use crate::ledger::{Accepted, Brought, Delivered, Given, Ledger, Occurrence};
use crate::names::Name;
use crate::plan::Plan;
use crate::queue::Queue;
use crate::redeploy::{Change, Redeploy};
use crate::schedule::{Effect, Happening, Schedule};
use crate::sources::source_index;

/// What the sink says when it refuses for good.
pub const REFUSAL: &str = "the simulated sink refuses this part for good";
/// After the faults stop, the index shows everything within this time.
const INDEX_CALM_MS: u64 = 30_000;
/// How long an outage lasts.
const OUTAGE_MS: u64 = 8_000;

/// The world.
pub struct World {
    /// Milliseconds since [`START`].
    pub now_ms: u64,
    /// What is going to happen.
    pub schedule: Schedule<World>,
    /// The only source of chance.
    pub rng: Rng,
    /// What the seed decided.
    pub plan: Plan,
    /// Whether faults still strike.
    pub faulty: bool,
    /// The lock table.
    pub locks: MemoryLockStore,
    /// Its index.
    pub index: LaggingIndex,
    /// Bodies that do not fit their items, by key.
    pub overflow: BTreeMap<String, Arc<str>>,
    /// The batch table.
    pub batches: MemoryBatchStore,
    /// The input queues: positions in [`Ledger::messages`].
    pub inputs: Vec<Queue<usize>>,
    /// The batch queue: bodies of tickets.
    pub tickets: Queue<String>,
    /// When each mapping looks next: one per input queue, and the batch queue's last.
    pub polls: Vec<Option<u64>>,
    /// What really happened.
    pub ledger: Ledger,
    /// By how much the clock of each environment is ahead, or behind.
    pub skews_ms: BTreeMap<u64, i64>,
    /// The names that the sink keeps, with [`SinkKind::Names`](crate::plan::SinkKind).
    pub names: BTreeMap<String, Name>,
    /// The first broken promise.
    pub broken: Option<Broken>,
    /// What happened, in words, if anybody wants to know.
    pub trace: Option<Vec<String>>,
    /// How often each kind of thing happened.
    pub counts: BTreeMap<&'static str, u64>,
}

impl World {
    /// A world in which nothing has happened yet.
    pub fn new(plan: Plan, traced: bool) -> World {
        World {
            now_ms: 0,
            schedule: Schedule::default(),
            rng: Rng::with_seed(plan.seed ^ 0x5eed),
            faulty: !plan.calm,
            locks: MemoryLockStore::new(),
            index: LaggingIndex::default(),
            overflow: BTreeMap::new(),
            batches: MemoryBatchStore::new(),
            inputs: (0..plan.sources)
                .map(|_| Queue::new(plan.receives_max))
                .collect(),
            tickets: Queue::new(plan.receives_max),
            polls: vec![None; plan.sources + 1],
            ledger: Ledger::default(),
            skews_ms: BTreeMap::new(),
            names: BTreeMap::new(),
            broken: None,
            trace: traced.then(Vec::new),
            counts: BTreeMap::new(),
            plan,
        }
    }

    /// Now, by a clock that is right.
    pub fn now(&self) -> Timestamp {
        START + Duration::from_millis(self.now_ms)
    }

    /// Now, by the clock of an environment.
    pub fn now_in(&self, environment: u64) -> Timestamp {
        let skew_ms = self.skews_ms.get(&environment).copied().unwrap_or_default();
        Timestamp::from_ms(self.now().as_ms().saturating_add_signed(skew_ms))
    }

    /// Sets the clock of an environment, wrong by as much as clocks may be.
    pub fn set_clock(&mut self, environment: u64) {
        let skew_ms = match self.plan.calm {
            true => 0,
            false => {
                let max_ms = self.plan.skew_max_ms;
                self.rng.i64(-max_ms..=max_ms)
            }
        };
        self.skews_ms.insert(environment, skew_ms);
    }

    /// Puts down what happens, if anybody wants to know, and counts it.
    pub fn note(&mut self, kind: &'static str, what: impl FnOnce() -> String) {
        *self.counts.entry(kind).or_default() += 1;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9} {kind} {}", self.now_ms, what()));
        }
    }

    /// Keeps the first broken promise.
    pub fn check(&mut self, check: Check) {
        if let Err(broken) = check
            && self.broken.is_none()
        {
            if let Some(trace) = &mut self.trace {
                trace.push(format!("{:>9} BROKEN {broken}", self.now_ms));
            }
            self.broken = Some(broken);
        }
    }

    /// Whether a fault of this rate strikes now.
    pub fn strikes(&mut self, rate: f64) -> bool {
        self.faulty && rate > 0.0 && self.rng.f64() < rate
    }

    /// Whether a fault of this rate strikes now, and puts it down if it does.
    pub fn strikes_as(&mut self, rate: f64, kind: &'static str) -> bool {
        let strikes = self.strikes(rate);
        if strikes {
            self.note(kind, String::new);
        }
        strikes
    }

    /// Plans something.
    pub fn after(&mut self, ms: u64, happening: Happening<World>) {
        self.at(self.now_ms + ms, happening);
    }

    /// Plans something.
    pub fn at(&mut self, at_ms: u64, happening: Happening<World>) {
        let tie = self.rng.u32(..);
        self.schedule.add(at_ms, tie, happening);
    }

    /// Wakes somebody.
    pub fn wake_at(&mut self, at_ms: u64, waker: Waker) {
        self.at(at_ms, Happening::Wake(waker));
    }

    /// Has a mapping look at its queue at this time, if it does not look earlier anyway.
    pub fn poll_by(&mut self, mapping: usize, at_ms: u64) {
        if self.polls[mapping].is_none_or(|planned_ms| at_ms < planned_ms) {
            self.polls[mapping] = Some(at_ms);
            self.at(at_ms, Happening::Act(Act::Poll(mapping)));
        }
    }

    fn in_outage(&self) -> bool {
        let every = self.plan.outage_every_ms;
        every > 0 && self.faulty && self.now_ms % (every + OUTAGE_MS) >= every
    }

    /// What becomes of the next write to a batch record.
    pub fn fate_of_record(&mut self, by_processor: bool) -> Fate {
        if by_processor {
            if self.strikes_as(self.plan.faults.late_record, "record late") {
                return Fate::Lost {
                    apply_ms: Some(self.rng.u64(500..40_000)),
                    notice_ms: 400,
                };
            }
            return self.fate();
        }
        if self.strikes_as(self.plan.faults.lose_record, "record lost") {
            let apply_ms = self.rng.bool().then(|| self.rng.u64(1..12));
            return Fate::Lost {
                apply_ms,
                notice_ms: 700,
            };
        }
        self.fate()
    }

    /// What becomes of the next request.
    pub fn fate(&mut self) -> Fate {
        let latency = |rng: &mut Rng| {
            if rng.u8(..) < 8 {
                rng.u64(20..300)
            } else {
                rng.u64(1..12)
            }
        };
        let (apply_ms, reply_ms) = (latency(&mut self.rng), latency(&mut self.rng));
        if !self.faulty {
            return Fate::Answered { apply_ms, reply_ms };
        }
        let faults = self.plan.faults.clone();
        let apply_ms = if self.strikes(faults.slow) {
            self.rng.u64(50..650)
        } else {
            apply_ms
        };
        if self.in_outage() {
            return match self.rng.u8(..3) {
                0 => Fate::Throttled { after_ms: apply_ms },
                _ => Fate::Lost {
                    apply_ms: None,
                    notice_ms: 700,
                },
            };
        }
        if self.strikes_as(faults.refuse, "request refused") {
            return Fate::Refused { after_ms: apply_ms };
        }
        if self.strikes_as(faults.throttle, "throttled") {
            return Fate::Throttled { after_ms: apply_ms };
        }
        let notice_ms = if self.rng.bool() {
            740
        } else {
            reply_ms + apply_ms
        };
        if self.strikes_as(faults.lose_request, "lost") {
            return Fate::Lost {
                apply_ms: None,
                notice_ms,
            };
        }
        if self.strikes_as(faults.lose_reply, "lost") {
            return Fate::Lost {
                apply_ms: Some(apply_ms),
                notice_ms,
            };
        }
        if self.strikes_as(faults.apply_late, "late") {
            let late_ms = if self.rng.bool() { 3_000 } else { 90_000 };
            return Fate::Lost {
                apply_ms: Some(self.rng.u64(0..late_ms)),
                notice_ms,
            };
        }
        Fate::Answered { apply_ms, reply_ms }
    }

    // The lock table.

    /// Claims, member by member.
    pub fn claim(&mut self, claims: &[Claim]) -> Vec<ClaimReply> {
        claims
            .iter()
            .map(|claim| self.claim_one(claim, None))
            .collect()
    }

    /// Replaces an item.
    pub fn replace(&mut self, claim: &Claim, expected: &LockItem) -> ClaimReply {
        self.claim_one(claim, Some(expected))
    }

    fn claim_one(&mut self, claim: &Claim, expected: Option<&LockItem>) -> ClaimReply {
        let faults = self.plan.faults.clone();
        if self.strikes(faults.throttle_member) {
            return ClaimReply::Error(throttled());
        }
        let lost = self.strikes(faults.unknown_member);
        if lost && self.rng.bool() {
            return ClaimReply::Error(unanswered());
        }
        let id = &claim.candidate.event_id;
        let before = self.locks.get(id);
        let reply = match expected {
            None => now(self.locks.claim(std::slice::from_ref(claim))).pop(),
            Some(expected) => Some(now(self.locks.replace(claim, expected))),
        }
        .expect("one answer for one claim");
        if matches!(reply, ClaimReply::Written) {
            self.claimed(claim, before);
        }
        match reply {
            _ if lost => ClaimReply::Error(unanswered()),
            ClaimReply::Exists(Some(_)) if !self.plan.shows_what_refused => {
                ClaimReply::Exists(None)
            }
            reply => reply,
        }
    }

    fn claimed(&mut self, claim: &Claim, before: Option<LockItem>) {
        let (now, place) = (self.now(), claim.seat.place());
        let (id, message) = (
            claim.candidate.event_id.clone(),
            claim.candidate.sqs_message_id.clone(),
        );
        self.note("claimed", || {
            format!("{id} by {message} at {}/{}", place.shard, place.seq)
        });
        if let Some(LockItem {
            state: LockState::Live { shard, seq },
            ..
        }) = before
        {
            self.index_changes(&id, Place { shard, seq }, false);
        }
        self.index_changes(&id, place, true);

        let batch = claim.seat.batch;
        let check = checks::inv13_claims_name_announced_batches(
            self.batches.get(batch).is_some(),
            self.ledger.tickets.contains_key(&batch),
            &format!("{id} claimed into {batch}"),
        );
        self.check(check);
        let prior = self
            .ledger
            .occurrences
            .get(&id)
            .cloned()
            .unwrap_or_default();
        for prior in &prior {
            let record = self.batches.get(prior.place.shard.batch);
            let record_expired = record.is_none();
            let completed_at = record.and_then(|record| record.completed_at);
            // Records are kept for two weeks after their end.
            let has_ended = record_expired || completed_at.is_some();
            let check = checks::p2_a_claim_replaces_only_what_has_ended(prior, has_ended, now);
            self.check(check);
            let remembered_until = prior
                .remembered_until
                .unwrap_or_else(|| match record_expired {
                    true => now,
                    false => completed_at.unwrap_or(now) + self.dedup_window(),
                });
            // What was set aside may have reached the sink before: an operator took that upon himself.
            let may_repeat = self.plan.ever(DuplicateRule::Requeue) || prior.set_aside;
            // A window that was made shorter is shorter for what was delivered before as well.
            let window = self.dedup_window();
            let remembered_until = match prior.delivered_at {
                Some(at) if self.plan.changes_dedup_window() => remembered_until.min(at + window),
                Some(_) | None => remembered_until,
            };
            let wrong_ms = 2 * (self.plan.skew_max_ms - SKEW_MAX_MS) as u64;
            let remembered_until = remembered_until.saturating_sub(Duration::from_millis(wrong_ms));
            let check = checks::p3_p4_delivered_once_per_window(
                prior,
                &message,
                remembered_until,
                may_repeat,
                now,
            );
            self.check(check);
            let check = checks::p3_what_was_set_aside_is_not_claimed_again(prior, &message, now);
            self.check(check);
        }
        self.ledger
            .occurrences
            .entry(id)
            .or_default()
            .push(Occurrence {
                sqs_message_id: message,
                body_hash: claim.candidate.body_hash,
                place,
                claimed_at: now,
                delivered_at: None,
                remembered_until: None,
                released_at: None,
                set_aside: false,
                aside_until: None,
            });
    }

    /// The least any environment's dedup window is, by clocks that are as wrong as they may be.
    pub fn dedup_window(&self) -> Duration {
        let window = Duration::from_secs(self.plan.dedup_window_min_secs());
        let wrong_ms = 2 * (self.plan.skew_max_ms - SKEW_MAX_MS) as u64;
        window.saturating_sub(Duration::from_millis(wrong_ms))
    }

    fn index_changes(&mut self, id: &EventId, place: Place, present: bool) {
        let mut visible_at_ms = [self.now_ms; REPLICAS];
        for at in &mut visible_at_ms {
            *at += self.lag_ms();
        }
        self.index
            .change(place.shard, place.seq, id, present, visible_at_ms);
    }

    fn lag_ms(&mut self) -> u64 {
        if !self.faulty {
            return self.rng.u64(0..200);
        }
        let max = if self.strikes(self.plan.faults.index_lags_long) {
            self.plan.index_lag_max_ms
        } else {
            self.plan.index_lag_ms
        };
        let lag_ms = self.rng.u64(0..=max);
        // Without bound, but finite.
        let calm_ms = self.plan.calm_at_ms.saturating_sub(self.now_ms) + INDEX_CALM_MS;
        lag_ms.min(calm_ms)
    }

    /// Releases, member by member.
    pub fn release(&mut self, items: &[(EventId, Place)], release: Release) -> Vec<ReleaseReply> {
        items
            .iter()
            .map(|item| self.release_one(item, release))
            .collect()
    }

    fn release_one(&mut self, item: &(EventId, Place), release: Release) -> ReleaseReply {
        let faults = self.plan.faults.clone();
        if self.strikes(faults.throttle_member) {
            return ReleaseReply::Error(throttled());
        }
        let lost = self.strikes(faults.unknown_member);
        if lost && self.rng.bool() {
            return ReleaseReply::Error(unanswered());
        }
        let before = self.locks.get(&item.0);
        now(self.locks.release(std::slice::from_ref(item), release));
        let after = self.locks.get(&item.0);
        if let Some(LockItem {
            state: LockState::Live { shard, seq },
            ..
        }) = before
            && before != after
        {
            self.released(&item.0, Place { shard, seq }, release);
        }
        if lost {
            ReleaseReply::Error(unanswered())
        } else {
            ReleaseReply::Released
        }
    }

    fn released(&mut self, id: &EventId, place: Place, release: Release) {
        let (now, window) = (self.now(), self.dedup_window());
        let expires_at = match release {
            Release::Remembered(expires_at) => Some(expires_at),
            Release::SetAside(_) | Release::Deleted => None,
        };
        self.note("released", || {
            format!("{id} at {}/{}", place.shard, place.seq)
        });
        self.index_changes(id, place, false);
        let Some(occurrence) = self.ledger.occurrence(id, place) else {
            return;
        };
        occurrence.remembered_until = Some(expires_at.unwrap_or(now));
        if let Release::SetAside(until) = release {
            occurrence.aside_until = Some(until.min(now + window));
        }
        occurrence.released_at = Some(now);
        let released = occurrence.clone();
        let set_aside = self.ledger.seat_set_aside(id, place);
        let has_ended = self.ledger.seat_delivered(id, place) || set_aside;
        let check = checks::inv14_only_delivered_claims_are_released(&released, has_ended);
        self.check(check);
        if !set_aside
            && let (Some(delivered_at), Some(expires_at)) = (released.delivered_at, expires_at)
        {
            let check = checks::inv16_tombstones_last_the_window(delivered_at, window, expires_at);
            self.check(check);
        }
    }

    /// The live claims among `ids`.
    pub fn stored(&self, ids: &[EventId]) -> Vec<StoredEvent> {
        let read = now(self.locks.read_events(ids));
        read.map(|(events, _)| events).unwrap_or_default()
    }

    /// The table's TTL looks at every item and removes some of what is past its end.
    pub fn expire(&mut self) {
        let now = self.now();
        for (id, item) in self.locks.items() {
            if item.expires_at().is_some_and(|at| at <= now) && self.strikes(self.plan.faults.ttl) {
                self.note("expired", || id.to_string());
                self.check(checks::inv15_ttl_touches_only_expired_tombstones(
                    &item, now,
                ));
                self.locks.remove(&id);
            }
        }
    }

    /// Long afterwards: everything past its end is gone, items, records and what a bucket keeps for a month.
    pub fn expire_all(&mut self, days: u64) {
        let now = self.now();
        for (id, item) in self.locks.items() {
            if item.expires_at().is_some_and(|at| at <= now) {
                self.check(checks::inv15_ttl_touches_only_expired_tombstones(
                    &item, now,
                ));
                self.locks.remove(&id);
            }
        }
        for record in self.batches.records() {
            if record.expires_at.is_some_and(|at| at <= now) {
                self.note("record expired", || record.batch_id.to_string());
                self.batches.remove(record.batch_id);
            }
        }
        if days >= 30 {
            self.overflow.clear();
        }
    }

    // The batch table.

    /// Creates a record.
    pub fn create(&mut self, record: &BatchRecord) {
        self.note("created", || record.batch_id.to_string());
        now(self.batches.create(record)).expect("the fake never fails");
    }

    /// Applies a write.
    ///
    /// # Errors
    /// A record that would not fit its item.
    pub fn write(&mut self, batch: BatchId, write: &BatchWrite) -> Result<BatchReply, PortError> {
        let before = self.batches.get(batch);
        let reply = now(self.batches.write(batch, write))?;
        match (&reply, before) {
            (BatchReply::Applied(after), Some(before)) => self.written(&before, write, after),
            (BatchReply::Refused(_), _) | (_, None) => {
                self.note("refused", || format!("{batch} {write:?}"));
            }
        }
        Ok(match reply {
            BatchReply::Refused(Some(_)) if !self.plan.shows_what_refused => {
                BatchReply::Refused(None)
            }
            reply => reply,
        })
    }

    fn written(&mut self, before: &BatchRecord, write: &BatchWrite, after: &BatchRecord) {
        let batch = before.batch_id;
        self.note("written", || format!("{batch} {write:?}"));
        let now = self.now();
        let skew_max = Duration::from_millis(self.plan.skew_max_ms as u64);
        let check = step_is_sound(
            before,
            write,
            after,
            now.saturating_sub(skew_max),
            now + skew_max,
        );
        // Who holds a lease is told by clocks, and by nothing that safety rests on.
        let wild = self.plan.skew_max_ms > SKEW_MAX_MS;
        let by_clocks = |broken: &Broken| broken.name.starts_with("INV-9 ");
        if !(wild && check.as_ref().is_err_and(by_clocks)) {
            self.check(check);
        }
        self.check(checks::inv21_what_is_set_aside_is_not_delivered(
            before, write,
        ));
        self.check(checks::inv22_setting_aside_is_kept(before, after));
        match write {
            BatchWrite::Lease { .. } if before.lease.is_some() => {
                self.note("lease taken over", || batch.to_string());
            }
            BatchWrite::Fail { error, .. } => {
                let mut reasons = vec![REFUSAL, REFUSED];
                let moved = |one: &Redeploy| {
                    matches!(one.change, Change::Place(_) | Change::BodiesAlone(_))
                };
                if self.plan.redeploys.iter().any(moved) {
                    reasons.push("frozen for the sink");
                }
                if self.plan.faults.edit > 0.0 {
                    reasons.extend(["is not what was frozen", "is not what was claimed"]);
                }
                self.check(checks::p8_a_batch_is_in_error_for_a_reason(error, &reasons));
            }
            BatchWrite::AcceptSink { index, .. } => {
                self.note("sink accepted", || format!("{batch}/{index}"));
                self.ledger.accepted.insert(format!("{batch}/{index}"));
            }
            BatchWrite::SetAside { set_aside, .. } => {
                self.note("set aside", || format!("{batch} {set_aside:?}"));
                self.set_aside(batch, set_aside);
            }
            BatchWrite::Complete { .. } if before.verify_at.is_none() => {
                self.nothing_is_left_of(batch);
            }
            _ => {}
        }
        // By whatever write it was marked: what the record says is delivered must be there.
        for (index, part) in after.parts.iter().enumerate() {
            if matches!(part.state, PartState::Delivered { .. }) {
                let key = format!("{batch}/{index}");
                let there = self.ledger.parts.contains_key(&key);
                self.check(checks::inv17_delivered_means_the_sink_has_it(&key, there));
            }
        }
    }

    fn set_aside(&mut self, batch: BatchId, seqs: &SeqSet) {
        for one in self.ledger.occurrences.values_mut().flatten() {
            one.set_aside |= one.place.shard.batch == batch && seqs.contains(one.place.seq);
        }
    }

    /// A batch has completed without a second look. Without a dedup window, a write that comes late may put a claim back.
    fn nothing_is_left_of(&mut self, batch: BatchId) {
        if self.dedup_window().is_zero() {
            return;
        }
        let of_batch = |item: &LockItem| matches!(item.state, LockState::Live { shard, .. } if shard.batch == batch);
        let items = self.locks.items().into_iter();
        let left: Vec<String> = items
            .filter(|(_, item)| of_batch(item))
            .map(|(id, item)| format!("{id} {item:?}"))
            .collect();
        self.check(checks::inv20_what_is_proven_leaves_no_claim(batch, &left));
    }

    /// Overdue records, as an index that lags may show them.
    pub fn overdue(&mut self, status: Status, now_there: Timestamp, max: usize) -> Vec<Overdue> {
        let mut records =
            now(self.batches.overdue(status, now_there, max)).expect("the fake never fails");
        if self.faulty {
            records.retain(|_| self.rng.u8(..) > 60);
        }
        records
    }

    // Queues.

    /// A ticket arrives at the batch queue.
    pub fn ticket(&mut self, ticket: &Ticket, delay: Duration) {
        let (batch, now) = (ticket.batch_id, self.now());
        self.note("ticket", || {
            format!("{} in {} s", ticket.to_body(), delay.as_secs())
        });
        let visible_at = now + delay;
        self.ledger
            .tickets
            .entry(batch)
            .or_default()
            .push(Accepted {
                at: now,
                visible_at,
            });
        if self.plan.calm
            && ticket.reason == Some(TicketReason::Window)
            && let Some(record) = self.batches.get(batch)
        {
            let check =
                checks::p6_a_ticket_comes_when_the_window_ends(record.closes_at, visible_at);
            self.check(check);
        }
        if ticket.reason == Some(TicketReason::Window)
            && let Some(record) = self.batches.get(batch)
        {
            let behind_max = Duration::from_millis(SKEW_MAX_MS as u64);
            let tame = self.plan.skew_max_ms <= SKEW_MAX_MS;
            self.check(if !tame {
                Ok(())
            } else {
                checks::p6_a_ticket_is_early_by_no_clock(record.closes_at, visible_at, behind_max)
            });
        }
        let faults = self.plan.faults.clone();
        let copies = if self.strikes_as(faults.lose_ticket, "ticket lost") {
            0
        } else {
            1 + u32::from(self.strikes_as(faults.repeat_ticket, "ticket repeated"))
        };
        for _ in 0..copies {
            let early = self.strikes_as(faults.early_ticket, "ticket early");
            let delay_ms = delay.as_millis() as u64;
            let delay_ms = if early {
                self.rng.u64(0..=delay_ms)
            } else {
                delay_ms
            };
            let visible_at_ms = self.now_ms + delay_ms;
            self.tickets.send(ticket.to_body(), visible_at_ms);
            self.poll_by(self.plan.sources, visible_at_ms);
        }
    }

    /// A ticket shall come again after a while, if it is still there.
    pub fn retry_ticket(&mut self, receipt: u64, delay: Duration) {
        let visible_at_ms = self.now_ms + delay.as_millis() as u64;
        self.tickets.set_visible(receipt, visible_at_ms);
        self.poll_by(self.plan.sources, visible_at_ms);
    }

    /// What an input queue says about its depth: what it holds, or anything at all.
    pub fn depth(&mut self, source: &SourceArn) -> QueueDepth {
        if !self.strikes_as(self.plan.faults.depth_wrong, "depth wrong") {
            return self.inputs[source_index(source)].depth(self.now_ms);
        }
        let mut some = || match self.rng.bool() {
            true => self.rng.u64(1..50),
            false => 0,
        };
        QueueDepth {
            visible: some(),
            in_flight: some(),
            delayed: some(),
        }
    }

    /// A message arrives in the quarantine.
    pub fn quarantine(&mut self, messages: &[Quarantined]) -> Vec<Result<(), PortError>> {
        messages
            .iter()
            .map(|message| {
                let faults = self.plan.faults.clone();
                if self.strikes(faults.throttle_member) {
                    return Err(throttled());
                }
                self.note("quarantined", || {
                    format!("{}: {}", message.sqs_message_id, message.reason)
                });
                let edited = self.ledger.edited.contains(&message.sqs_message_id);
                if let Some(sent) = self.ledger.message(&message.sqs_message_id)
                    && (*sent.body == *message.body || edited)
                    && !message.reason.is_empty()
                {
                    sent.reported = true;
                }
                if self.strikes(faults.unknown_member) {
                    return Err(unanswered());
                }
                Ok(())
            })
            .collect()
    }

    // The sink.

    /// The sink takes a part.
    pub fn deliver(&mut self, part: &Brought) {
        let (now, key) = (self.now(), part.key.clone());
        self.note("delivered", || {
            format!("{key} with {} items", part.items.len())
        });
        let brought = Delivered {
            hash: part.hash,
            count: part.items.len(),
            rendered: part.rendered.clone(),
            place: part.place.clone(),
        };
        if let Some(first) = self.ledger.parts.get(&key).cloned() {
            self.note("part repeated", || key.clone());
            if !self.ledger.accepted.contains(&key) {
                let check = checks::p5_a_key_means_one_content(&key, &first, &brought);
                self.check(check);
            }
            return;
        }
        let record = self.batches.get(part.batch);
        let frozen = record.and_then(|record| Some(record.parts.get(part.number)?.hash));
        self.check(checks::p5_a_part_is_what_was_frozen(
            &key, frozen, part.hash,
        ));
        self.ledger.parts.insert(key.clone(), brought);
        self.check(checks::p5_a_part_is_what_was_sent(
            &key,
            part.in_order,
            part.as_sent,
        ));
        for (id, place) in &part.items {
            let live = self.locks.get(id).is_some_and(|item| {
                matches!(item.state, LockState::Live { shard, seq } if Place { shard, seq } == *place)
            });
            let own = place.shard.batch == part.batch;
            // An attempt that was under way when an operator set the part aside.
            let live = live || self.ledger.seat_set_aside(id, *place);
            let check = checks::p2_a_part_holds_only_live_claims(
                &key,
                live && own,
                &format!(
                    "{id} from {}/{}, live there: {live}",
                    place.shard, place.seq
                ),
            );
            self.check(check);
            if let Some(occurrence) = self.ledger.occurrence(id, *place) {
                occurrence.delivered_at.get_or_insert(now);
                let given = Given {
                    at: now,
                    sqs_message_id: occurrence.sqs_message_id.clone(),
                    key: key.clone(),
                };
                self.given(id, given);
            }
        }
    }

    /// The sink has an event, which it may have had before.
    fn given(&mut self, id: &EventId, given: Given) {
        let window = self.dedup_window();
        let may_repeat = self.plan.ever(DuplicateRule::Requeue);
        let before = self.ledger.given.entry(id.clone()).or_default();
        let earlier = before.clone();
        before.push(given.clone());
        for first in earlier {
            // What was set aside may have reached the sink before: an operator took that upon himself.
            let mut claims = self.ledger.occurrences.get(id).into_iter().flatten();
            if claims.any(|one| one.set_aside && one.sqs_message_id == first.sqs_message_id) {
                continue;
            }
            self.check(checks::p4_the_sink_gets_an_event_once_per_window(
                id, &first, &given, window, may_repeat,
            ));
        }
    }

    /// Plans a change of the world.
    pub fn effect_after(&mut self, ms: u64, effect: Effect<World>) {
        self.after(ms, Happening::Effect(effect));
    }
}

/// The answer of a fake, which never waits.
fn now<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().expect("fakes answer at once")
}
