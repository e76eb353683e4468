//! Claims the events of an invocation in rounds. A round gives seats to as many candidates as the open batches have room
//! for, claims their events, and gives back the seats that were not needed.
//!
//! There are rounds, and no pipeline, because a seat that a duplicate did not need goes to the next candidate: the last
//! seats of a batch depend on attempts in flight. At the end of a round no attempt is in flight, and full batches can be
//! sealed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use protocol::allocator::{BatchScope, FlushReason, Opening, Seating};
use protocol::claim::{DuplicateRule, Outcome};
use protocol::ids::BatchId;
use protocol::limits::{OLD_SEALS_TIME_MAX, SEAT_WAIT_MAX, SHORT_ROUNDS_MAX};
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::retry::bounded;
use shared::traces::names::ITEMS_COUNT;
use shared::traces::{self, span};
use tracing::{error, warn};

use crate::claim_attempt::{ClaimAttempt, ClaimResult, SeatPlace, State};
use crate::claim_log::{ClaimedTraces, log_claims};
use crate::claim_writer::ClaimWriter;
use crate::config::Config;
use crate::drain_detector::{DrainDetector, ReceivedCounts};
use crate::invocation::{Budgets, InvocationCounts};
use crate::open_batches::{CountedBatches, OpenBatches, ReliedOn};
use crate::overflow_bodies::OverflowBodies;
use crate::quotas::{Placed, Quotas};
use crate::records::Record;
use crate::shared_allocator::{Seated, SharedAllocator, wait_for_change};

/// Claims the events of an invocation.
pub struct ClaimRounds {
    open_batches: Arc<OpenBatches>,
    writer: ClaimWriter,
    quotas: Quotas,
    bodies: OverflowBodies,
    drain_detector: DrainDetector,
    /// The bucket for bodies that do not fit their lock items.
    overflow_bucket: Option<Arc<str>>,
    /// How long a batch waits for a next event.
    close_after_idle: Option<Duration>,
    concurrency: usize,
}

/// The candidates of one invocation: the waiting ones, and the results of the others.
struct Candidates<'a> {
    /// The first message of each event id. The outcome of each later message follows from that of the first.
    firsts: &'a [&'a Record],
    /// The positions of those first messages that wait for a seat, by scope, in the order of the event.
    waiting: BTreeMap<&'a BatchScope, VecDeque<usize>>,
    results: Vec<ClaimResult>,
}

/// The result of one request for seats in all scopes.
#[derive(Default)]
struct SeatingPass<'a> {
    seated: Vec<Seated<'a>>,
    openings: Vec<Opening>,
}

impl ClaimRounds {
    pub fn new(
        config: &Config,
        open_batches: Arc<OpenBatches>,
        writer: ClaimWriter,
        quotas: Quotas,
        bodies: OverflowBodies,
        drain_detector: DrainDetector,
    ) -> ClaimRounds {
        ClaimRounds {
            open_batches,
            writer,
            quotas,
            bodies,
            drain_detector,
            overflow_bucket: config.overflow_bucket.clone(),
            close_after_idle: config.close_after_idle,
            concurrency: config.common.write_concurrency,
        }
    }

    /// Claims the event of each first message. Returns an outcome for each, in any order; `Claimed` only if the claim was
    /// counted.
    pub async fn claim_all<'a>(
        &'a self,
        firsts: &'a [&'a Record],
        received: &ReceivedCounts<'_>,
        budgets: &Budgets<'_>,
        counts: &'a InvocationCounts,
    ) -> Vec<ClaimResult> {
        let open_batches = &*self.open_batches;
        let allocator = open_batches.allocator();
        let mut candidates = Candidates::new(firsts, allocator, budgets.deadline);
        // Batches of earlier invocations are sealed first, but within a short time: a late seal delays a batch, whereas a
        // late claim has its message delivered again.
        let old_seals = budgets.claims.within(OLD_SEALS_TIME_MAX);
        let mut counted = open_batches.seal_sealable(&old_seals, counts).await;
        let mut short_rounds = 0;
        while !candidates.waiting.is_empty() && budgets.claims.has_time() {
            let change = allocator.next_change();
            let seated = self.seat_all(&mut candidates, budgets, counts).await;
            let waiting_count = candidates.waiting_count();
            short_rounds += u32::from(seated.len() * 16 < waiting_count);
            if seated.is_empty() && waiting_count > 0 {
                // Attempts of other invocations of this environment are in flight, and may give their seats back.
                if !wait_for_change(change, &budgets.claims, SEAT_WAIT_MAX).await {
                    candidates.retire_scopes(allocator);
                }
                continue;
            }
            if short_rounds > SHORT_ROUNDS_MAX {
                // Round after round seats only a few candidates, which are duplicates and give their seats back. A new
                // batch is faster.
                candidates.retire_scopes(allocator);
                short_rounds = 0;
            }
            let batches = seated.iter().map(|one| one.seat.batch);
            open_batches.links().add_present(batches);
            let claim = span("claim").count(ITEMS_COUNT, seated.len());
            let round = self.claim_round(seated, firsts, budgets, counts);
            candidates.results.extend(claim.run(round).await);
            counted.extend(open_batches.seal_sealable(&budgets.wrap_up, counts).await);
        }
        // This comes before the counts are written: a seal contains them, which saves a write.
        let retired =
            candidates.retire_urgent(allocator) | self.retire_unused(&candidates, budgets);
        let (detector, claims) = (&self.drain_detector, &budgets.claims);
        let drained = detector.retire_drained(open_batches, received, claims);
        if drained.await || retired {
            counted.extend(open_batches.seal_sealable(&budgets.wrap_up, counts).await);
        }
        let results = self
            .count_claims(firsts, candidates.into_results(), counted, budgets)
            .await;
        self.quotas.finish(&results, firsts, &budgets.wrap_up).await;
        results
    }

    /// Retires the batches that got no event for a while, if there is such a limit. Returns whether any batch was retired: the
    /// caller then seals it.
    fn retire_unused(&self, candidates: &Candidates<'_>, budgets: &Budgets<'_>) -> bool {
        let Some(idle) = self.close_after_idle else {
            return false;
        };
        let now = budgets.claims.clock.now();
        let mut allocator = self.open_batches.allocator().lock();
        for seat in candidates.results.iter().filter_map(|one| one.seat) {
            allocator.used(seat.batch, now);
        }
        allocator.retire_unused(now.saturating_sub(idle))
    }

    /// Gives seats to as many candidates as the open batches have room for. Opens a batch for each scope that has none; if
    /// that fails, the candidates of the scope fail.
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
                let scope = opening.scope.clone();
                let (deadline, budget) = (budgets.deadline, &budgets.claims);
                let opened = self.open_batches.open(opening, deadline, budget, counts);
                let opened = span("open").run(async {
                    opened.await.inspect_err(|error| {
                        error!(%error, "batch not opened");
                        traces::failed("batch_not_opened");
                    })
                });
                let failed = opened.await;
                failed.is_err().then_some(scope)
            });
            let failed = bounded(opened.collect(), self.concurrency).await;
            for scope in failed.into_iter().flatten() {
                candidates.fail_scope(&scope);
            }
        }
    }

    /// Claims the events of seated candidates, and finishes each candidate that found an item.
    async fn claim_round<'a>(
        &'a self,
        seated: Vec<Seated<'a>>,
        firsts: &[&Record],
        budgets: &Budgets<'_>,
        counts: &'a InvocationCounts,
    ) -> Vec<ClaimResult> {
        let Placed {
            with_place,
            without,
        } = self.quotas.reserve(seated, firsts, &budgets.claims).await;
        let without = without
            .into_iter()
            .map(|(seated, place)| ClaimAttempt::new(seated, place));
        let looked_up = self.writer.look_up(without.collect(), &budgets.claims);
        let mut attempted = self.classify_live(looked_up.await, budgets).await;
        let taking_over =
            attempted.extract_if(.., |attempt| matches!(attempt.state, State::Replace(_)));
        let bucket = self.overflow_bucket.as_ref();
        let mut attempts: Vec<_> = with_place
            .into_iter()
            .map(|seated| ClaimAttempt::new(seated, SeatPlace::Reserved))
            .chain(taking_over)
            .map(|attempt| attempt.with_overflow(bucket))
            .collect();
        self.bodies.store(&mut attempts, &budgets.claims).await;
        let unwritten = attempts
            .extract_if(.., |attempt| matches!(attempt.state, State::Unwritten))
            .collect();
        attempted.extend(attempts);
        let writer = &self.writer;
        let written = writer.write_all(unwritten, &budgets.claims, counts).await;
        let mut written = self.classify_live(written, budgets).await;
        self.quotas.give_back(&mut written, &budgets.claims).await;
        attempted.extend(written);
        let mut results = Vec::with_capacity(attempted.len());
        let mut unfinished = Vec::new();
        for attempt in attempted {
            match attempt.state {
                State::Done(..) | State::Unwritten | State::Unread => {
                    results.push(attempt.finish())
                }
                State::Live(..) | State::Replace(_) => {
                    unfinished.push(self.writer.finish_one(attempt, &budgets.claims, counts));
                }
            }
        }
        results.extend(bounded(unfinished, self.concurrency).await);
        self.bodies
            .remove_unused(&mut results, &budgets.wrap_up)
            .await;
        results
    }

    /// Classifies the attempts that found live claims, by the records of the batches of these claims.
    async fn classify_live<'a>(
        &self,
        mut attempts: Vec<ClaimAttempt<'a>>,
        budgets: &Budgets<'_>,
    ) -> Vec<ClaimAttempt<'a>> {
        let relied_on = relied_on(&attempts, self.writer.rules().on_duplicate);
        let open_batches = &self.open_batches;
        let records = open_batches.witness_all(relied_on, &budgets.wrap_up).await;
        let now = budgets.claims.clock.now();
        for attempt in &mut attempts {
            attempt.state =
                match std::mem::replace(&mut attempt.state, State::Done(Outcome::Failed, None)) {
                    State::Live(item, existing) => {
                        let seat = item.state.claimed_seat();
                        match seat.and_then(|(batch, _)| records.get(&batch)) {
                            Some(record) => attempt.classify_live(
                                item,
                                existing,
                                record.as_deref(),
                                self.writer.rules(),
                                now,
                            ),
                            None => State::Done(Outcome::Failed, Some(item)),
                        }
                    }
                    state => state,
                };
        }
        attempts
    }

    /// Makes sure that the batch records count every claim of this invocation. Claims that are not counted fail.
    async fn count_claims(
        &self,
        firsts: &[&Record],
        mut results: Vec<ClaimResult>,
        mut counted: CountedBatches,
        budgets: &Budgets<'_>,
    ) -> Vec<ClaimResult> {
        let mut claimed: BTreeMap<BatchId, SeqSet> = BTreeMap::new();
        let mut traces = ClaimedTraces::default();
        for one in &results {
            if let Some(seat) = one.seat {
                claimed.entry(seat.batch).or_default().insert(seat.seq);
                if let Some(trace) = &firsts[one.first].trace_id {
                    traces.entry(seat.batch).or_default().insert(trace);
                }
            }
        }
        log_claims(&claimed, &traces);
        claimed.retain(|batch, _| !counted.contains_key(batch));
        let (open_batches, budget) = (&self.open_batches, &budgets.wrap_up);
        let counts = claimed.into_iter().map(|(batch, seqs)| async move {
            let count = open_batches.ensure_counted(batch, &seqs, budget).await;
            (batch, count)
        });
        let counts = bounded(counts.collect(), self.concurrency).await;
        counted.extend(counts);
        for one in &mut results {
            if let Some(seat) = one.seat
                && counted.get(&seat.batch) != Some(&true)
            {
                *one = ClaimResult::failed(one.first);
            }
        }
        results
    }
}

impl<'a> Candidates<'a> {
    /// Finishes the messages whose events the environment remembers claims of. All others wait for seats.
    fn new(
        firsts: &'a [&'a Record],
        allocator: &SharedAllocator,
        deadline: Timestamp,
    ) -> Candidates<'a> {
        let mut candidates = Candidates {
            firsts,
            waiting: BTreeMap::new(),
            results: Vec::with_capacity(firsts.len()),
        };
        let mut allocator = allocator.lock();
        allocator.retire_past(deadline);
        for (index, first) in firsts.iter().enumerate() {
            let (candidate, scope) = (&first.candidate, &first.scope);
            match allocator.known(scope, candidate, deadline) {
                Some(existing) => candidates.results.push(ClaimResult::known(index, existing)),
                None => candidates
                    .waiting
                    .entry(scope)
                    .or_default()
                    .push_back(index),
            }
        }
        candidates
    }

    fn waiting_count(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// Retires the current batch of every scope that has waiting candidates, so that they get a new batch instead of its
    /// last seats.
    fn retire_scopes(&self, allocator: &SharedAllocator) {
        let mut allocator = allocator.lock();
        for scope in self.waiting.keys() {
            allocator.retire(scope, FlushReason::Full);
        }
    }

    /// Retires the batches with the urgent events of this invocation. Returns whether any batch was retired: the caller then seals
    /// it, unless another invocation of this environment is claiming into it and seals it later.
    fn retire_urgent(&self, allocator: &SharedAllocator) -> bool {
        let mut allocator = allocator.lock();
        let mut retired = false;
        for one in &self.results {
            let first = self.firsts[one.first];
            if !first.is_urgent {
                continue;
            }
            // The reply to the claim of an earlier delivery may have been lost, and nobody has retired its batch.
            let is_redelivered = one.outcome == Outcome::Redelivered;
            let claimed_in = match (one.seat, &one.winner) {
                (Some(seat), _) => Some(seat.batch),
                (None, Some(item)) if is_redelivered => {
                    item.state.claimed_seat().map(|(batch, _)| batch)
                }
                // The environment remembers the claim, so it is in the current batch.
                (None, None) if is_redelivered => allocator.current(&first.scope),
                (None, _) => None,
            };
            if let Some(batch) = claimed_in {
                retired |= allocator.retire_batch(&first.scope, batch, FlushReason::Urgent);
            }
        }
        retired
    }

    /// Fails all candidates that wait for a seat of `scope`.
    fn fail_scope(&mut self, scope: &BatchScope) {
        let failed = self.waiting.remove(scope).into_iter().flatten();
        self.results.extend(failed.map(ClaimResult::failed));
    }

    /// Requests seats for all waiting candidates, under one lock.
    fn seat(&mut self, shared: &'a SharedAllocator, deadline: Timestamp) -> SeatingPass<'a> {
        let mut pass = SeatingPass::default();
        let mut allocator = shared.lock();
        let (firsts, results) = (self.firsts, &mut self.results);
        self.waiting.retain(|scope, queue| {
            let size = |index: &usize| firsts[*index].candidate.content_bytes() as u64;
            let sizes: Vec<u64> = queue.iter().map(size).collect();
            match allocator.seat(scope, &sizes, deadline) {
                Seating::Seats(seats) => {
                    pass.seated.reserve(seats.len());
                    for (index, seat) in queue.drain(..seats.len()).zip(seats) {
                        let candidate = &firsts[index].candidate;
                        pass.seated
                            .push(Seated::new(index, candidate, seat, shared));
                    }
                }
                Seating::Open(opening) => pass.openings.push(opening),
                Seating::Wait => {}
                Seating::TooManyKeys { keys_max } => {
                    let key = scope.key.as_ref().map(|key| key.as_str());
                    warn!(
                        keys_max,
                        batch_key = key.unwrap_or_default(),
                        failed_count = queue.len(),
                        "too many batch keys open"
                    );
                    results.extend(queue.drain(..).map(ClaimResult::failed));
                }
            }
            !queue.is_empty()
        });
        pass
    }

    /// Returns all results. Candidates that still wait for a seat have failed.
    fn into_results(mut self) -> Vec<ClaimResult> {
        let waiting = self.waiting.into_values().flatten();
        self.results.extend(waiting.map(ClaimResult::failed));
        self.results
    }
}

/// Returns the batches of the live claims that the attempts found, each with the seats of those claims that an
/// acknowledgement will rely on.
fn relied_on(attempted: &[ClaimAttempt<'_>], rule: DuplicateRule) -> ReliedOn {
    let mut relied_on = ReliedOn::new();
    for attempt in attempted {
        if let State::Live(item, existing) = &attempt.state
            && let Some((batch, seq)) = item.state.claimed_seat()
        {
            let seqs = relied_on.entry(batch).or_default();
            if existing.relies_on_it(rule) {
                seqs.insert(seq);
            }
        }
    }
    relied_on
}
