//! The rounds of an invocation: seat as many as there is room for, claim them, give back what they did not need.
//!
//! Rounds and not a pipeline: a place that a duplicate did not need goes to the next candidate, so the last places of
//! a batch depend on attempts under way. A round's end is where that is known, and where full batches are sealed.

use std::collections::{BTreeMap, VecDeque};

use protocol::allocator::{Opening, Seating, Slot};
use protocol::claim::{Candidate, DuplicateRule, LockState, Outcome};
use protocol::ids::BatchId;
use protocol::limits::{OLD_SEALS_TIME_MAX, SEAT_WAIT_MAX, SHORT_ROUNDS_MAX};
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::calls::{Budget, bounded, joined};
use shared::writes::WriteQueue;
use tracing::{error, warn};

use crate::attempts::{Attempted, Settled, State};
use crate::batches::Met;
use crate::current::{Seated, wait};
use crate::drained::Received;
use crate::handler::{Handler, Tally};

/// The first message of each event id in an invocation: whom the others follow.
#[derive(Debug)]
pub struct Leader<'a> {
    /// The event.
    pub candidate: &'a Candidate,
    /// Whose batch it goes into.
    pub slot: &'a Slot,
}

/// Time limits of an invocation.
pub struct Budgets<'a> {
    /// When it is killed.
    pub deadline: Timestamp,
    /// For claims.
    pub claims: Budget<'a>,
    /// For what must still be written after the last claim.
    pub wrap_up: Budget<'a>,
}

/// Who wants a seat, per slot, in order of arrival.
type Waiting<'a> = BTreeMap<&'a Slot, VecDeque<usize>>;

impl Handler {
    /// Claims every leader; answers one outcome each. `Claimed` is answered only for claims that were counted.
    pub async fn claim_all(
        &self,
        leaders: &[Leader<'_>],
        received: &Received<'_>,
        budgets: &Budgets<'_>,
        tally: &Tally,
    ) -> Vec<Settled> {
        let mut settled = Vec::with_capacity(leaders.len());
        let mut waiting = self.not_known(leaders, budgets.deadline, &mut settled);
        // Late seals cost promptness, late claims cost a redelivery: what is left over gets only a little time.
        let soon = budgets.claims.clock.now() + OLD_SEALS_TIME_MAX;
        let old_seals = Budget {
            stop_at: soon.min(budgets.claims.stop_at),
            ..budgets.claims
        };
        let mut counted = self.seal_done(&old_seals, tally).await;
        let mut short_rounds = 0;
        while !waiting.is_empty() && budgets.claims.open() {
            let change = self.current().change();
            let seated = self
                .seat_all(leaders, &mut waiting, &mut settled, budgets, tally)
                .await;
            let waiting_count: usize = waiting.values().map(VecDeque::len).sum();
            short_rounds += u32::from(seated.len() * 16 < waiting_count);
            if seated.is_empty() && waiting_count > 0 {
                // The last places depend on other invocations of this environment.
                if !wait(change, &budgets.claims, SEAT_WAIT_MAX).await {
                    self.retire_all(&waiting);
                }
                continue;
            }
            if short_rounds > SHORT_ROUNDS_MAX {
                // Each round fills the last places with duplicates, which give them back: so few are not worth it.
                self.retire_all(&waiting);
                short_rounds = 0;
            }
            settled.extend(self.claim_round(seated, budgets, tally).await);
            counted.extend(self.seal_done(&budgets.wrap_up, tally).await);
        }
        settled.extend(waiting.into_values().flatten().map(Settled::failed));
        // Before the counts are written: the seal brings the last ones, which saves a write.
        if self.retire_drained(received, &budgets.claims).await {
            counted.extend(self.seal_done(&budgets.wrap_up, tally).await);
        }
        self.count(&mut settled, counted, budgets).await;
        settled
    }

    /// Settles the leaders whose events this environment knows to be in an open batch; the others want seats.
    fn not_known<'a>(
        &self,
        leaders: &'a [Leader<'_>],
        deadline: Timestamp,
        settled: &mut Vec<Settled>,
    ) -> Waiting<'a> {
        let mut waiting = Waiting::new();
        let mut allocator = self.current().lock();
        allocator.retire_past(deadline);
        for (index, leader) in leaders.iter().enumerate() {
            match allocator.known(leader.slot, leader.candidate, deadline) {
                Some(meeting) => settled.push(Settled::known(index, meeting)),
                None => waiting.entry(leader.slot).or_default().push_back(index),
            }
        }
        waiting
    }

    fn retire_all(&self, waiting: &Waiting<'_>) {
        let mut allocator = self.current().lock();
        waiting.keys().for_each(|slot| allocator.retire(slot));
    }

    /// Seats as many as there is room for, opening batches where there is none.
    async fn seat_all<'a>(
        &'a self,
        leaders: &'a [Leader<'_>],
        waiting: &mut Waiting<'_>,
        settled: &mut Vec<Settled>,
        budgets: &Budgets<'_>,
        tally: &Tally,
    ) -> Vec<Seated<'a>> {
        let mut seated = Vec::new();
        loop {
            let openings = self.seat_once(leaders, waiting, settled, budgets.deadline, &mut seated);
            if openings.is_empty() {
                return seated;
            }
            let opened: Vec<_> = openings
                .into_iter()
                .map(|opening| async {
                    let slot = opening.slot.clone();
                    let opened = self
                        .open_batch(opening, budgets.deadline, &budgets.claims, tally)
                        .await;
                    opened
                        .inspect_err(|error| error!(%error, "no batch opened"))
                        .is_err()
                        .then_some(slot)
                })
                .collect();
            let failed = bounded(opened, self.config().common.write_concurrency).await;
            for slot in failed.into_iter().flatten() {
                settled.extend(
                    waiting
                        .remove(&slot)
                        .into_iter()
                        .flatten()
                        .map(Settled::failed),
                );
            }
        }
    }

    /// One pass over the slots under the lock; answers the batches to be opened.
    fn seat_once<'a>(
        &'a self,
        leaders: &'a [Leader<'_>],
        waiting: &mut Waiting<'_>,
        settled: &mut Vec<Settled>,
        deadline: Timestamp,
        seated: &mut Vec<Seated<'a>>,
    ) -> Vec<Opening> {
        let mut openings = Vec::new();
        let mut allocator = self.current().lock();
        waiting.retain(|slot, queue| {
            let sizes: Vec<u64> = queue
                .iter()
                .map(|index| leaders[*index].candidate.body.len() as u64)
                .collect();
            match allocator.seat(slot, &sizes, deadline) {
                Seating::Seats(seats) => {
                    seated.reserve(seats.len());
                    for (index, seat) in queue.drain(..seats.len()).zip(seats) {
                        seated.push(Seated::new(
                            index,
                            leaders[index].candidate,
                            seat,
                            self.current(),
                        ));
                    }
                }
                Seating::Open(opening) => openings.push(opening),
                Seating::Wait => {}
                Seating::TooManyKeys { keys_max } => {
                    let key = slot
                        .key
                        .as_ref()
                        .map(|key| key.as_str())
                        .unwrap_or_default();
                    warn!(
                        keys_max,
                        batch_key = key,
                        failed_count = queue.len(),
                        "too many batch keys are open"
                    );
                    settled.extend(queue.drain(..).map(Settled::failed));
                }
            }
            !queue.is_empty()
        });
        openings
    }

    /// Claims what is seated, and settles everything that stood in the way.
    async fn claim_round<'a>(
        &self,
        seated: Vec<Seated<'a>>,
        budgets: &Budgets<'_>,
        tally: &Tally,
    ) -> Vec<Settled> {
        let concurrency = self.config().common.write_concurrency;
        let bucket = self.config().overflow_bucket.as_ref();
        let seated = seated.into_iter();
        let mut open: Vec<_> = seated
            .map(|seated| Attempted::new(seated, bucket))
            .collect();
        self.store_bodies(&mut open, &budgets.claims).await;
        let failed = open.extract_if(.., |member| matches!(member.state, State::Done(..)));
        let failed: Vec<_> = failed.collect();
        let mut attempted = self.attempt_all(open, &budgets.claims, tally).await;
        attempted.extend(failed);
        let fates = self
            .fates(met(&attempted, self.config().rule), &budgets.wrap_up)
            .await;
        let now = budgets.claims.clock.now();
        let mut settled = Vec::with_capacity(attempted.len());
        let mut open = Vec::new();
        for mut member in attempted {
            member.state =
                match std::mem::replace(&mut member.state, State::Done(Outcome::Failed, None)) {
                    State::Live(item, meeting) => {
                        match batch_of(&item.state).and_then(|batch| fates.get(&batch)) {
                            Some(fate) => self.judge_live(&member, item, meeting, fate, now),
                            None => State::Done(Outcome::Failed, Some(item)),
                        }
                    }
                    state => state,
                };
            match member.state {
                State::Done(..) | State::Open | State::Met => settled.push(member.settle()),
                State::Live(..) | State::Replace(..) => {
                    open.push(self.settle_one(member, &budgets.claims, tally));
                }
            }
        }
        settled.extend(bounded(open, concurrency).await);
        self.remove_unused(&mut settled, &budgets.wrap_up).await;
        settled
    }

    /// Writes what is to be written, and reads what stands in its way, until nothing is left to try or no time.
    async fn attempt_all<'a>(
        &self,
        mut open: Vec<Attempted<'a>>,
        budget: &Budget<'_>,
        tally: &Tally,
    ) -> Vec<Attempted<'a>> {
        let concurrency = self.config().common.write_concurrency;
        let size = self.ports().lock_store.items_per_request();
        let mut attempted = Vec::with_capacity(open.len());
        let mut attempt = 0;
        loop {
            let now = budget.clock.now();
            let queue = WriteQueue::new(open, size, concurrency, self.paces(), now);
            let workers = (0..queue.workers())
                .map(|_| self.claim_from(&queue, budget, tally))
                .collect();
            let claimed = bounded(workers, concurrency).await;
            let mut members = joined(claimed);
            members.extend(self.fail_rest(queue.into_rest(), budget).await);
            // An item that is gone again leaves its place to a repetition.
            open = self.read_met(&mut members, budget).await;
            attempted.append(&mut members);
            attempt += 1;
            if open.is_empty() || !budget.pause(RetryPolicy::ITEMS, attempt).await {
                attempted.append(&mut open);
                return attempted;
            }
        }
    }

    /// Has every claim of this invocation counted in its batch's record; what is not is answered as failed.
    async fn count(
        &self,
        settled: &mut [Settled],
        mut counted: BTreeMap<BatchId, bool>,
        budgets: &Budgets<'_>,
    ) {
        if planted(Bug::AcknowledgedUncounted) {
            return;
        }
        let mut claimed: BTreeMap<BatchId, SeqSet> = BTreeMap::new();
        for seat in settled.iter().filter_map(|one| one.seat) {
            claimed.entry(seat.batch).or_default().insert(seat.seq);
        }
        claimed.retain(|batch, _| !counted.contains_key(batch));
        let accounts: Vec<_> = claimed
            .into_iter()
            .map(|(batch, seqs)| async move {
                (batch, self.account(batch, &seqs, &budgets.wrap_up).await)
            })
            .collect();
        counted.extend(bounded(accounts, self.config().common.write_concurrency).await);
        for one in settled.iter_mut() {
            if let Some(seat) = one.seat
                && counted.get(&seat.batch) != Some(&true)
            {
                *one = Settled::failed(one.leader);
            }
        }
    }
}

/// The batches of the live claims that were met, with the seqs that acknowledgements will rely on.
fn met(attempted: &[Attempted<'_>], rule: DuplicateRule) -> Met {
    let mut met = Met::new();
    for member in attempted {
        if let State::Live(item, meeting) = &member.state
            && let LockState::Live { shard, seq } = item.state
        {
            let relied_on = met.entry(shard.batch).or_default();
            if meeting.relies_on_it(rule) {
                relied_on.insert(seq);
            }
        }
    }
    met
}

fn batch_of(state: &LockState) -> Option<BatchId> {
    match state {
        LockState::Live { shard, .. } => Some(shard.batch),
        LockState::Tombstone { .. } => None,
    }
}
