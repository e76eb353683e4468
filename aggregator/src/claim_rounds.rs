//! Claims the events of an invocation in rounds. A round reserves seats in the current batch of each scope, for as many candidates as the
//! batch has room for, claims their events, and fills the slots of the reservations: they say what became of the seats.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::claim::{DuplicateRule, Outcome};
use protocol::ids::BatchId;
use protocol::limits::CLAIMS_WAIT_MAX;
use protocol::scope::CurrentBatch;
use protocol::seqs::SeqSet;
use protocol::slot::{ClaimCounts, Slot};
use shared::ports::PortError;
use shared::retry::{Budget, bounded};
use shared::traces::names::ITEMS_COUNT;
use shared::traces::{self, span};
use tracing::{error, warn};

use crate::claim_attempt::{ClaimAttempt, ClaimResult, SeatEnd, Seated, State};
use crate::claim_log::{ClaimedTraces, log_claims};
use crate::claim_writer::ClaimWriter;
use crate::config::Config;
use crate::drain_detector::ReceivedCounts;
use crate::grants::{Grant, Grants, Reply, Waiting};
use crate::invocation::{Budgets, InvocationCounts};
use crate::overflow_bodies::OverflowBodies;
use crate::records::Record;
use crate::witnesses::{ReliedOn, Witnesses};

/// Claims the events of an invocation.
pub struct ClaimRounds {
    grants: Grants,
    witnesses: Arc<Witnesses>,
    writer: ClaimWriter,
    bodies: OverflowBodies,
    /// The bucket for bodies that do not fit their lock items.
    overflow_bucket: Option<Arc<str>>,
    concurrency: usize,
}

/// The seats that the waiting candidates of a scope got in a round.
#[derive(Default)]
struct Taken {
    grant: Option<Grant>,
    /// The candidates that got the seats, in the order of the seats.
    seated: Vec<usize>,
    /// Candidates that need no seat, because the environment remembers claims of their events.
    known: Vec<ClaimResult>,
    /// The batch of those claims.
    known_in: Option<CurrentBatch>,
}

impl ClaimRounds {
    pub(crate) fn new(
        config: &Config,
        grants: Grants,
        witnesses: Arc<Witnesses>,
        writer: ClaimWriter,
        bodies: OverflowBodies,
    ) -> ClaimRounds {
        ClaimRounds {
            grants,
            witnesses,
            writer,
            bodies,
            overflow_bucket: config.overflow_bucket.clone(),
            concurrency: config.common.write_concurrency,
        }
    }

    /// Claims the event of each first message. Returns an outcome for each, in any order; `Claimed` only if the claim is
    /// counted in a filled slot, or witnessed.
    pub(crate) async fn claim_all(
        &self,
        firsts: &[&Record],
        received: &ReceivedCounts<'_>,
        budgets: &Budgets<'_>,
        counts: &InvocationCounts,
    ) -> Vec<ClaimResult> {
        let (mut waiting, failed) = self.grants.admit(firsts, &budgets.claims).await;
        let mut results: Vec<ClaimResult> = failed.into_iter().map(ClaimResult::failed).collect();
        results.reserve(firsts.len());
        let mut urgent = BTreeMap::new();
        while !waiting.is_empty() && budgets.claims.has_time() {
            let take = |one| self.take_seats(one, firsts, budgets, counts);
            let taken = bounded(waiting.iter_mut().map(take).collect(), self.concurrency).await;
            let mut filling = Vec::with_capacity(taken.len());
            let mut seated = Vec::new();
            for one in taken {
                let Taken {
                    grant,
                    seated: positions,
                    known,
                    known_in,
                } = one;
                let batches = known_in.as_ref().or(grant.as_ref().map(|one| &one.current));
                note_urgent(&mut urgent, batches, &known, firsts);
                results.extend(known);
                let Some(grant) = grant else { continue };
                let seats = positions.into_iter().zip(grant.seats());
                seated.extend(seats.map(|(first, seat)| Seated {
                    first,
                    candidate: &firsts[first].candidate,
                    seat,
                }));
                filling.push(grant);
            }
            let batches = filling.iter().map(|grant| grant.current.batch);
            self.grants.scopes.links.add_present(batches);
            let claim = span("claim").count(ITEMS_COUNT, seated.len());
            let claimed = claim.run(self.claim_round(seated, budgets, counts));
            let mut of_batch: BTreeMap<BatchId, Vec<ClaimResult>> = BTreeMap::new();
            for one in claimed.await {
                let batch = one.seat.map(|seat| seat.batch);
                let batch = batch.expect("every attempt has a seat");
                of_batch.entry(batch).or_default().push(one);
            }
            let fill = |grant: Grant| {
                let claimed = of_batch.remove(&grant.current.batch).unwrap_or_default();
                self.fill(grant, claimed, firsts, budgets, counts)
            };
            let filled = filling.into_iter().map(fill).collect();
            for (current, full, claimed) in bounded(filled, self.concurrency).await {
                note_urgent(&mut urgent, Some(&current), &claimed, firsts);
                results.extend(claimed);
                let mut of_scope = waiting.iter_mut();
                if full && let Some(one) = of_scope.find(|one| *one.scope == current.scope) {
                    one.refused = Some(current.batch);
                }
            }
            waiting.retain(|one| !one.positions.is_empty());
        }
        let waiting = waiting.into_iter().flat_map(|one| one.positions);
        results.extend(waiting.map(ClaimResult::failed));
        self.grants
            .seal_due(urgent, received, budgets, counts)
            .await;
        log_results(&results, firsts);
        results
    }

    /// Takes seats for as many waiting candidates of a scope as its current batch has room for. If there is no batch, all of them fail.
    async fn take_seats(
        &self,
        waiting: &mut Waiting<'_>,
        firsts: &[&Record],
        budgets: &Budgets<'_>,
        counts: &InvocationCounts,
    ) -> Taken {
        let taken = self.try_to_take_seats(waiting, firsts, budgets, counts);
        taken.await.unwrap_or_else(|error| {
            error!(source = %waiting.scope.source, %error, "no seats for events");
            traces::failed("no_seats");
            let failed = std::mem::take(&mut waiting.positions).into_iter();
            Taken {
                known: failed.map(ClaimResult::failed).collect(),
                ..Taken::default()
            }
        })
    }

    async fn try_to_take_seats(
        &self,
        waiting: &mut Waiting<'_>,
        firsts: &[&Record],
        budgets: &Budgets<'_>,
        counts: &InvocationCounts,
    ) -> Result<Taken, PortError> {
        let (scopes, claims) = (&self.grants.scopes, &budgets.claims);
        let current = scopes.find(waiting.scope, waiting.refused, claims, counts);
        let current = current.await?;
        let positions = waiting.positions.iter();
        let existing = scopes
            .current
            .existing(&current, positions.map(|index| &firsts[*index].candidate));
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for (index, existing) in waiting.positions.iter().zip(existing) {
            match existing {
                Some(existing) => known.push(ClaimResult::known(*index, existing)),
                None => unknown.push(*index),
            }
        }
        let mut taken = Taken::default();
        let was_open = match unknown.is_empty() {
            // Of a batch that is closed, somebody may have set the event aside since.
            true => {
                let is_open = self.grants.is_open(current.batch, claims).await?;
                if !is_open {
                    waiting.refused = Some(current.batch);
                }
                is_open
            }
            false => {
                let size = |index: &usize| firsts[*index].candidate.content_bytes() as u64;
                let sizes: Vec<u64> = unknown.iter().map(size).collect();
                let until = budgets.deadline.min(claims.clock.now() + CLAIMS_WAIT_MAX);
                let reply = self.grants.reserve(&current, &sizes, until, claims, counts);
                match reply.await? {
                    Reply::Granted(grant) => {
                        taken.seated = unknown.drain(..grant.count).collect();
                        taken.grant = Some(*grant);
                        true
                    }
                    Reply::Refused { was_open } => {
                        waiting.refused = Some(current.batch);
                        was_open
                    }
                    Reply::Unannounced => return Ok(taken),
                }
            }
        };
        match was_open {
            true => {
                waiting.positions = unknown;
                taken.known = known;
                taken.known_in = Some(current);
            }
            false => debug_assert!(taken.grant.is_none(), "a closed batch gives no seats"),
        }
        Ok(taken)
    }

    /// Claims the events of seated candidates, and finishes each candidate that found an item.
    async fn claim_round<'a>(
        &'a self,
        seated: Vec<Seated<'a>>,
        budgets: &Budgets<'_>,
        counts: &'a InvocationCounts,
    ) -> Vec<ClaimResult> {
        let bucket = self.overflow_bucket.as_ref();
        let mut attempted: Vec<_> = seated
            .into_iter()
            .map(|seated| ClaimAttempt::new(seated).with_overflow(bucket))
            .collect();
        self.bodies.store(&mut attempted, &budgets.claims).await;
        let unwritten = attempted
            .extract_if(.., |attempt| matches!(attempt.state, State::Unwritten))
            .collect();
        let writer = &self.writer;
        let written = writer.write_all(unwritten, &budgets.claims, counts).await;
        attempted.extend(self.classify_live(written, budgets).await);
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

    /// Classifies the attempts that found live claims in other batches, by the records of these batches.
    async fn classify_live<'a>(
        &self,
        mut attempts: Vec<ClaimAttempt<'a>>,
        budgets: &Budgets<'_>,
    ) -> Vec<ClaimAttempt<'a>> {
        let relied_on = relied_on(&attempts, self.writer.rules().on_duplicate);
        let records = self.witnesses.add_all(relied_on, &budgets.wrap_up).await;
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

    /// Fills the slot of a grant with what became of its seats. Returns its batch, whether that is full, and the results: those whose seats
    /// are neither counted nor witnessed fail.
    async fn fill(
        &self,
        grant: Grant,
        results: Vec<ClaimResult>,
        firsts: &[&Record],
        budgets: &Budgets<'_>,
        counts: &InvocationCounts,
    ) -> (CurrentBatch, bool, Vec<ClaimResult>) {
        let value = Slot::Claims(claim_counts(&results));
        let budget = &budgets.wrap_up;
        let filled = self.grants.fill(&grant, &value, budget).await;
        let is_full = match filled {
            Ok(true) => {
                let scopes = &self.grants.scopes;
                let claimed = results.iter().filter(|one| one.may_be_remembered);
                scopes.current.remember_claims(
                    &grant.current,
                    claimed.map(|one| &firsts[one.first].candidate),
                );
                self.grants.seal_if_full(&grant, None, budget, counts).await
            }
            Ok(false) | Err(_) => true,
        };
        let results = match filled {
            Ok(true) => results,
            Ok(false) => self.witness_late(&grant, results, budget).await,
            Err(_) => results.into_iter().map(ClaimResult::uncounted).collect(),
        };
        (grant.current, is_full, results)
    }

    /// Witnesses the seats that results rely on, because the batch was closed before their slot was filled.
    async fn witness_late(
        &self,
        grant: &Grant,
        results: Vec<ClaimResult>,
        budget: &Budget<'_>,
    ) -> Vec<ClaimResult> {
        let batch = grant.current.batch;
        let seqs: SeqSet = results.iter().filter_map(ClaimResult::relies_on).collect();
        let record = self.witnesses.add(batch, &seqs, budget).await;
        let known = match record {
            Ok(Some(record)) if record.status.is_some() => seqs,
            // A batch completes only after the claims that it knows were delivered or set aside.
            Ok(Some(record)) => record.members().difference(&record.set_aside),
            Ok(None) | Err(_) => SeqSet::new(),
        };
        let is_unknown =
            |one: &ClaimResult| one.relies_on().is_some_and(|seq| !known.contains(seq));
        let count = results.iter().filter(|one| is_unknown(one)).count();
        if count > 0 {
            warn!(batch_id = %batch, failed_count = count, "batch was closed before its claims were counted; their messages come back");
        }
        let counted = |one| match is_unknown(&one) {
            true => one.uncounted(),
            false => one,
        };
        results.into_iter().map(counted).collect()
    }
}

/// Returns what the slot of a grant says of its seats.
fn claim_counts(results: &[ClaimResult]) -> ClaimCounts {
    let mut counts = ClaimCounts::default();
    for one in results {
        if let Some(seat) = one.seat {
            match one.end {
                SeatEnd::Claimed => {
                    counts.settled.insert(seat.seq);
                    counts.confirmed += 1;
                }
                SeatEnd::Free => counts.settled.insert(seat.seq),
                SeatEnd::Uncertain => {}
            }
        }
        if let (Some(seq), None) = (one.relied_on, one.claimed()) {
            counts.witnessed.insert(seq);
        }
    }
    counts
}

/// Notes a batch with an urgent event, which should start at once. The reply to the claim of an earlier delivery may have been lost, and
/// nobody has sealed its batch.
fn note_urgent(
    urgent: &mut BTreeMap<BatchId, CurrentBatch>,
    current: Option<&CurrentBatch>,
    results: &[ClaimResult],
    firsts: &[&Record],
) {
    let is_in_batch = |one: &ClaimResult| {
        let is_redelivered = one.outcome == Outcome::Redelivered;
        // The environment remembers a claim without an item.
        let is_here = one.relied_on.is_some() || one.seat.is_none();
        one.claimed().is_some() || is_redelivered && is_here
    };
    let mut of_urgent = results.iter().filter(|one| firsts[one.first].is_urgent);
    if let Some(current) = current
        && of_urgent.any(is_in_batch)
    {
        urgent.insert(current.batch, current.clone());
    }
}

/// Logs into which batches the events were claimed.
fn log_results(results: &[ClaimResult], firsts: &[&Record]) {
    let mut claimed: BTreeMap<BatchId, SeqSet> = BTreeMap::new();
    let mut traces = ClaimedTraces::default();
    for one in results {
        if let Some(seat) = one.claimed() {
            claimed.entry(seat.batch).or_default().insert(seat.seq);
            if let Some(trace) = &firsts[one.first].trace_id {
                traces.entry(seat.batch).or_default().insert(trace);
            }
        }
    }
    log_claims(&claimed, &traces);
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
