//! The rounds of an invocation: seat as many as there is room for, claim them, give back the seats they did not need.
//!
//! Rounds and not a pipeline: a seat that a duplicate did not need goes to the next candidate, so the last seats of a
//! batch depend on attempts under way. A round's end is where that is known, and where full batches are sealed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use protocol::allocator::{Opening, Seating, Slot};
use protocol::claim::{DuplicateRule, LockState, Outcome};
use protocol::ids::BatchId;
use protocol::limits::{OLD_SEALS_TIME_MAX, SEAT_WAIT_MAX, SHORT_ROUNDS_MAX};
use protocol::planted::{Bug, planted};
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::retry::{Budget, bounded};
use tracing::{error, warn};

use crate::claim_attempt::{ClaimAttempt, Settled, State};
use crate::claim_writer::ClaimWriter;
use crate::config::Config;
use crate::drain_detector::{DrainDetector, Received};
use crate::invocation::{Budgets, InvocationCounts};
use crate::open_batches::{CountedBatches, OpenBatches, ReliedOn};
use crate::overflow_bodies::OverflowBodies;
use crate::records::Record;
use crate::shared_allocator::{Seated, SharedAllocator, wait};

/// Claims the events of an invocation.
pub struct ClaimRounds {
    open_batches: Arc<OpenBatches>,
    writer: ClaimWriter,
    bodies: OverflowBodies,
    drain_detector: DrainDetector,
    /// Where bodies go that do not fit an item, if anywhere.
    overflow_bucket: Option<Arc<str>>,
    concurrency: usize,
}

/// The candidates of one invocation: who waits for a seat, and who is settled.
struct Candidates<'a> {
    /// The first message of each event id: whom the others follow.
    leaders: &'a [&'a Record],
    /// Who wants a seat, per slot, in order of arrival.
    waiting: BTreeMap<&'a Slot, VecDeque<usize>>,
    settled: Vec<Settled>,
}

/// What one pass over the slots comes to.
#[derive(Default)]
struct Pass<'a> {
    seated: Vec<Seated<'a>>,
    openings: Vec<Opening>,
}

impl ClaimRounds {
    pub fn new(
        config: &Config,
        open_batches: Arc<OpenBatches>,
        writer: ClaimWriter,
        bodies: OverflowBodies,
        drain_detector: DrainDetector,
    ) -> ClaimRounds {
        ClaimRounds {
            open_batches,
            writer,
            bodies,
            drain_detector,
            overflow_bucket: config.overflow_bucket.clone(),
            concurrency: config.common.write_concurrency,
        }
    }

    /// Claims every leader; returns an outcome for each. `Claimed` is returned only for claims that were counted.
    pub async fn claim_all<'a>(
        &'a self,
        leaders: &'a [&'a Record],
        received: &Received<'_>,
        budgets: &Budgets<'_>,
        counts: &'a InvocationCounts,
    ) -> Vec<Settled> {
        let allocator = self.open_batches.allocator();
        let mut candidates = Candidates::new(leaders, allocator, budgets.deadline);
        // Late seals cost promptness, late claims cost a redelivery: old seals get only a little time.
        let soon = budgets.claims.clock.now() + OLD_SEALS_TIME_MAX;
        let old_seals = Budget {
            stop_at: soon.min(budgets.claims.stop_at),
            ..budgets.claims
        };
        let mut counted = self.open_batches.seal_done(&old_seals, counts).await;
        let mut short_rounds = 0;
        while !candidates.waiting.is_empty() && budgets.claims.has_time() {
            let change = allocator.change();
            let seated = self.seat_all(&mut candidates, budgets, counts).await;
            let waiting_count = candidates.waiting_count();
            short_rounds += u32::from(seated.len() * 16 < waiting_count);
            if seated.is_empty() && waiting_count > 0 {
                // The last seats depend on other invocations of this environment.
                if !wait(change, &budgets.claims, SEAT_WAIT_MAX).await {
                    candidates.retire_slots(allocator);
                }
                continue;
            }
            if short_rounds > SHORT_ROUNDS_MAX {
                // Each round fills the last seats with duplicates, which give them back: so few are not worth it.
                candidates.retire_slots(allocator);
                short_rounds = 0;
            }
            let round = self.claim_round(seated, budgets, counts).await;
            candidates.settled.extend(round);
            counted.extend(self.open_batches.seal_done(&budgets.wrap_up, counts).await);
        }
        // Before the counts are written: the seal brings the last ones, which saves a write.
        let drained = self
            .drain_detector
            .retire_drained(received, &budgets.claims);
        if drained.await {
            counted.extend(self.open_batches.seal_done(&budgets.wrap_up, counts).await);
        }
        self.count(candidates.into_settled(), counted, budgets)
            .await
    }

    /// Seats as many as there is room for, opening batches where there is none.
    async fn seat_all<'a>(
        &'a self,
        candidates: &mut Candidates<'a>,
        budgets: &Budgets<'_>,
        counts: &InvocationCounts,
    ) -> Vec<Seated<'a>> {
        let mut seated = Vec::new();
        loop {
            let pass = candidates.seat(self.open_batches.allocator(), budgets.deadline);
            seated.extend(pass.seated);
            if pass.openings.is_empty() {
                return seated;
            }
            let opened = pass.openings.into_iter().map(|opening| async {
                let slot = opening.slot.clone();
                let (deadline, budget) = (budgets.deadline, &budgets.claims);
                let opened = self.open_batches.open(opening, deadline, budget, counts);
                let failed = opened
                    .await
                    .inspect_err(|error| error!(%error, "no batch opened"));
                failed.is_err().then_some(slot)
            });
            let failed = bounded(opened.collect(), self.concurrency).await;
            for slot in failed.into_iter().flatten() {
                candidates.fail_slot(&slot);
            }
        }
    }

    /// Claims what is seated, and settles everything that stood in the way.
    async fn claim_round<'a>(
        &'a self,
        seated: Vec<Seated<'a>>,
        budgets: &Budgets<'_>,
        counts: &'a InvocationCounts,
    ) -> Vec<Settled> {
        let bucket = self.overflow_bucket.as_ref();
        let mut open: Vec<_> = seated
            .into_iter()
            .map(|seated| ClaimAttempt::new(seated, bucket))
            .collect();
        self.bodies.store(&mut open, &budgets.claims).await;
        let failed: Vec<_> = open
            .extract_if(.., |attempt| matches!(attempt.state, State::Done(..)))
            .collect();
        let mut attempted = self.writer.write_all(open, &budgets.claims, counts).await;
        attempted.extend(failed);
        let relied_on = relied_on(&attempted, self.writer.rules().on_duplicate);
        let fates = self.open_batches.fates(relied_on, &budgets.wrap_up).await;
        let now = budgets.claims.clock.now();
        let mut settled = Vec::with_capacity(attempted.len());
        let mut open = Vec::new();
        for mut attempt in attempted {
            attempt.state =
                match std::mem::replace(&mut attempt.state, State::Done(Outcome::Failed, None)) {
                    State::Live(item, existing) => {
                        match batch_of(&item.state).and_then(|batch| fates.get(&batch)) {
                            Some(fate) => {
                                attempt.judge_live(item, existing, fate, self.writer.rules(), now)
                            }
                            None => State::Done(Outcome::Failed, Some(item)),
                        }
                    }
                    state => state,
                };
            match attempt.state {
                State::Done(..) | State::Open | State::Met => settled.push(attempt.settle()),
                State::Live(..) | State::Replace(..) => {
                    open.push(self.writer.settle_one(attempt, &budgets.claims, counts));
                }
            }
        }
        settled.extend(bounded(open, self.concurrency).await);
        self.bodies
            .remove_unused(&mut settled, &budgets.wrap_up)
            .await;
        settled
    }

    /// Has every claim of this invocation counted in its batch's record; a claim that is not has failed.
    async fn count(
        &self,
        mut settled: Vec<Settled>,
        mut counted: CountedBatches,
        budgets: &Budgets<'_>,
    ) -> Vec<Settled> {
        if planted(Bug::AcknowledgedUncounted) {
            return settled;
        }
        let mut claimed: BTreeMap<BatchId, SeqSet> = BTreeMap::new();
        for seat in settled.iter().filter_map(|one| one.seat) {
            claimed.entry(seat.batch).or_default().insert(seat.seq);
        }
        claimed.retain(|batch, _| !counted.has_tried(*batch));
        let counts = claimed.into_iter().map(|(batch, seqs)| async move {
            let count = self
                .open_batches
                .count(batch, &seqs, &budgets.wrap_up)
                .await;
            (batch, count)
        });
        let counts = bounded(counts.collect(), self.concurrency).await;
        counted.extend(counts.into_iter().collect());
        for one in &mut settled {
            if let Some(seat) = one.seat
                && !counted.has(seat.batch)
            {
                *one = Settled::failed(one.leader);
            }
        }
        settled
    }
}

impl<'a> Candidates<'a> {
    /// Settles the leaders whose events this environment knows to be in an open batch; the others want seats.
    fn new(
        leaders: &'a [&'a Record],
        allocator: &SharedAllocator,
        deadline: Timestamp,
    ) -> Candidates<'a> {
        let mut candidates = Candidates {
            leaders,
            waiting: BTreeMap::new(),
            settled: Vec::with_capacity(leaders.len()),
        };
        let mut allocator = allocator.lock();
        allocator.retire_past(deadline);
        for (index, Record { candidate, slot }) in leaders.iter().enumerate() {
            match allocator.known(slot, candidate, deadline) {
                Some(existing) => candidates.settled.push(Settled::known(index, existing)),
                None => candidates.waiting.entry(slot).or_default().push_back(index),
            }
        }
        candidates
    }

    fn waiting_count(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// Has the open batches of all slots that somebody waits for sealed: their last seats are not waited for.
    fn retire_slots(&self, allocator: &SharedAllocator) {
        let mut allocator = allocator.lock();
        self.waiting.keys().for_each(|slot| allocator.retire(slot));
    }

    /// Fails all who wait for a seat of `slot`.
    fn fail_slot(&mut self, slot: &Slot) {
        let failed = self.waiting.remove(slot).into_iter().flatten();
        self.settled.extend(failed.map(Settled::failed));
    }

    /// One pass over the slots under the lock: seats those for whom there is room.
    fn seat(&mut self, shared: &'a SharedAllocator, deadline: Timestamp) -> Pass<'a> {
        let mut pass = Pass::default();
        let mut allocator = shared.lock();
        let (leaders, settled) = (self.leaders, &mut self.settled);
        self.waiting.retain(|slot, queue| {
            let sizes: Vec<u64> = queue
                .iter()
                .map(|index| leaders[*index].candidate.body.len() as u64)
                .collect();
            match allocator.seat(slot, &sizes, deadline) {
                Seating::Seats(seats) => {
                    pass.seated.reserve(seats.len());
                    for (index, seat) in queue.drain(..seats.len()).zip(seats) {
                        let candidate = &leaders[index].candidate;
                        pass.seated
                            .push(Seated::new(index, candidate, seat, shared));
                    }
                }
                Seating::Open(opening) => pass.openings.push(opening),
                Seating::Wait => {}
                Seating::TooManyKeys { keys_max } => {
                    let key = slot.key.as_ref().map(|key| key.as_str());
                    warn!(
                        keys_max,
                        batch_key = key.unwrap_or_default(),
                        failed_count = queue.len(),
                        "too many batch keys are open"
                    );
                    settled.extend(queue.drain(..).map(Settled::failed));
                }
            }
            !queue.is_empty()
        });
        pass
    }

    /// Returns the settled ones; who still waits has failed.
    fn into_settled(mut self) -> Vec<Settled> {
        let waiting = self.waiting.into_values().flatten();
        self.settled.extend(waiting.map(Settled::failed));
        self.settled
    }
}

/// The seqs that acknowledgements will rely on, by the batch of the live claims that stand in the way.
fn relied_on(attempted: &[ClaimAttempt<'_>], rule: DuplicateRule) -> ReliedOn {
    let mut relied_on = ReliedOn::new();
    for attempt in attempted {
        if let State::Live(item, existing) = &attempt.state
            && let LockState::Live { shard, seq } = item.state
        {
            let seqs = relied_on.entry(shard.batch).or_default();
            if existing.relies_on_it(rule) {
                seqs.insert(seq);
            }
        }
    }
    relied_on
}

fn batch_of(state: &LockState) -> Option<BatchId> {
    match state {
        LockState::Live { shard, .. } => Some(shard.batch),
        LockState::Tombstone { .. } => None,
    }
}
