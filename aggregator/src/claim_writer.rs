//! Writing claims: what stands in the way is read and judged, and replaced where the rules allow it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use protocol::claim::{ClaimRules, ExistingClaim, LockItem, LockState, Outcome, PastDeliveries};
use protocol::ids::EventId;
use protocol::limits::{BATCH_GET_KEYS_MAX, REPLACE_ROUNDS_MAX};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::ports::{ClaimReply, LockStore, PortError, Ports};
use shared::retry::{Budget, BulkWriter, Writer, attempt_timeout, bounded, read_items};
use tracing::{debug, warn};

use crate::claim_attempt::{ClaimAttempt, Settled, State};
use crate::config::Config;
use crate::invocation::InvocationCounts;
use crate::open_batches::OpenBatches;

/// Writes claims to the lock table.
pub struct ClaimWriter {
    lock_store: Arc<dyn LockStore>,
    open_batches: Arc<OpenBatches>,
    bulk: BulkWriter,
    rules: ClaimRules,
    /// How long one request may take.
    attempt_timeout: Duration,
}

/// One request of claims, as the bulk writer sends it.
struct ClaimRequest<'a> {
    lock_store: &'a dyn LockStore,
    rules: &'a ClaimRules,
    counts: &'a InvocationCounts,
}

#[async_trait]
impl<'a> Writer for ClaimRequest<'a> {
    type Item = ClaimAttempt<'a>;
    type Reply = ClaimReply;
    type Done = ClaimAttempt<'a>;

    async fn send(&self, attempts: &[ClaimAttempt<'a>]) -> Vec<ClaimReply> {
        let claim = |attempt: &ClaimAttempt<'_>| attempt.claim(PastDeliveries::new());
        let claims: Vec<_> = attempts.iter().map(claim).collect();
        self.lock_store.claim(&claims).await
    }

    fn error(reply: &ClaimReply) -> Option<&PortError> {
        match reply {
            ClaimReply::Error(error) => Some(error),
            ClaimReply::Written | ClaimReply::Exists(_) | ClaimReply::Unstorable(_) => None,
        }
    }

    /// An item that stands in the way and is not shown is left unread: those of many requests are read together.
    fn settle(
        &self,
        mut attempt: ClaimAttempt<'a>,
        reply: ClaimReply,
        now: Timestamp,
    ) -> Result<ClaimAttempt<'a>, ClaimAttempt<'a>> {
        attempt.state = match reply {
            ClaimReply::Written => State::Done(Outcome::Claimed, None),
            ClaimReply::Exists(Some(item)) => attempt.judge(item, self.rules, now),
            ClaimReply::Exists(None) => State::Met,
            ClaimReply::Unstorable(_) => State::Done(Outcome::Unstorable, None),
            ClaimReply::Error(error) if attempt.failed(&error, self.counts) => return Err(attempt),
            ClaimReply::Error(_) => State::Done(Outcome::Failed, None),
        };
        Ok(attempt)
    }
}

impl ClaimWriter {
    /// Writes through `bulk`, and asks `open_batches` about the batches of others.
    pub fn new(
        config: &Config,
        ports: &Ports,
        open_batches: Arc<OpenBatches>,
        bulk: BulkWriter,
    ) -> ClaimWriter {
        ClaimWriter {
            lock_store: ports.lock_store.clone(),
            open_batches,
            bulk,
            rules: config.claim_rules(),
            attempt_timeout: attempt_timeout(config.common.deadline_margin),
        }
    }

    /// What the rules make of items that stand in the way.
    pub fn rules(&self) -> &ClaimRules {
        &self.rules
    }

    /// Writes what is to be written, and reads what stands in its way, until nothing is left to try or no time.
    pub async fn write_all<'a>(
        &'a self,
        mut open: Vec<ClaimAttempt<'a>>,
        budget: &Budget<'_>,
        counts: &'a InvocationCounts,
    ) -> Vec<ClaimAttempt<'a>> {
        let mut attempted = Vec::with_capacity(open.len());
        let mut round = 0;
        loop {
            let request = ClaimRequest {
                lock_store: &*self.lock_store,
                rules: &self.rules,
                counts,
            };
            let (mut written, unwritten) = self.bulk.write_all(&request, open, budget).await;
            written.extend(self.fail_unwritten(unwritten, budget).await);
            // Where an item is gone again, its candidate is written once more.
            open = self.read_met(&mut written, budget).await;
            attempted.append(&mut written);
            round += 1;
            if open.is_empty() || !budget.pause(RetryPolicy::ITEMS, round).await {
                attempted.append(&mut open);
                return attempted;
            }
        }
    }

    /// Ends what there was no time to write (again). Whether lost replies were successes can still be read, once.
    async fn fail_unwritten<'a>(
        &self,
        mut unwritten: Vec<ClaimAttempt<'a>>,
        budget: &Budget<'_>,
    ) -> Vec<ClaimAttempt<'a>> {
        for attempt in &mut unwritten {
            attempt.state = State::Done(Outcome::Failed, None);
        }
        let mut unanswered: Vec<&mut ClaimAttempt<'_>> = unwritten
            .iter_mut()
            .filter(|attempt| attempt.unanswered)
            .collect();
        let reads = unanswered
            .chunks_mut(BATCH_GET_KEYS_MAX)
            .map(|attempts| self.settle_by_reading(attempts, budget))
            .collect();
        bounded(reads, self.bulk.concurrency).await;
        unwritten
    }

    async fn settle_by_reading(&self, attempts: &mut [&mut ClaimAttempt<'_>], budget: &Budget<'_>) {
        let ids: Vec<EventId> = attempts
            .iter()
            .map(|attempt| attempt.seated.candidate.event_id.clone())
            .collect();
        let late = self.settling(budget);
        let read = self.lock_store.read(&ids);
        let Ok(items) = self.bulk.permits.with(&late, read).await else {
            return;
        };
        let now = budget.clock.now();
        for (attempt, item) in attempts.iter_mut().zip(items) {
            if let Some(item) = item
                && let state @ State::Done(..) = attempt.judge(item, &self.rules, now)
            {
                attempt.state = state;
            }
        }
    }

    /// Reads what stands in the way of attempts that met something. Where it is gone again, the attempt is taken out, to be
    /// written again; where it cannot be read, the attempt stays as it is, which is failed.
    async fn read_met<'a>(
        &self,
        attempts: &mut Vec<ClaimAttempt<'a>>,
        budget: &Budget<'_>,
    ) -> Vec<ClaimAttempt<'a>> {
        let mut met: Vec<&mut ClaimAttempt<'a>> = attempts
            .iter_mut()
            .filter(|attempt| matches!(attempt.state, State::Met))
            .collect();
        let reads = met
            .chunks_mut(BATCH_GET_KEYS_MAX)
            .map(|attempts| self.judge_by_reading(attempts, budget))
            .collect();
        bounded(reads, self.bulk.concurrency).await;
        attempts
            .extract_if(.., |attempt| matches!(attempt.state, State::Open))
            .collect()
    }

    async fn judge_by_reading(&self, attempts: &mut [&mut ClaimAttempt<'_>], budget: &Budget<'_>) {
        let ids: Vec<EventId> = attempts
            .iter()
            .map(|attempt| attempt.seated.candidate.event_id.clone())
            .collect();
        let items = read_items(&*self.lock_store, &ids, &self.bulk.permits, budget).await;
        for (attempt, item) in attempts.iter_mut().zip(items) {
            attempt.state = match item {
                Some(item) => attempt.judge(item, &self.rules, budget.clock.now()),
                None => State::Open,
            };
        }
    }

    /// Carries one candidate on from whatever stands in its way to an outcome: asks batches, replaces items.
    pub async fn settle_one(
        &self,
        mut attempt: ClaimAttempt<'_>,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> Settled {
        for round in 0..REPLACE_ROUNDS_MAX {
            let step = std::mem::replace(&mut attempt.state, State::Done(Outcome::Failed, None));
            attempt.state = match step {
                State::Done(..) => {
                    attempt.state = step;
                    return attempt.settle();
                }
                State::Open | State::Met => break,
                State::Live(item, existing) => {
                    self.ask_and_judge(&attempt, item, existing, budget).await
                }
                State::Replace(expected, past) => {
                    debug!(event_id = %attempt.seated.candidate.event_id, round, "replacing a lock item");
                    self.replace(&mut attempt, &expected, *past, budget, counts)
                        .await
                }
            };
        }
        attempt.settle()
    }

    async fn ask_and_judge(
        &self,
        attempt: &ClaimAttempt<'_>,
        item: Box<LockItem>,
        existing: ExistingClaim,
        budget: &Budget<'_>,
    ) -> State {
        let LockState::Live { shard, seq } = item.state else {
            return attempt.judge(*item, &self.rules, budget.clock.now());
        };
        let relied_on = existing
            .relies_on_it(self.rules.on_duplicate)
            .then_some(seq);
        let relied_on = relied_on.into_iter().collect();
        match self.open_batches.fate(shard.batch, relied_on, budget).await {
            Some(fate) => {
                attempt.judge_live(item, existing, &fate, &self.rules, budget.clock.now())
            }
            None => State::Done(Outcome::Failed, Some(item)),
        }
    }

    async fn replace(
        &self,
        attempt: &mut ClaimAttempt<'_>,
        expected: &LockItem,
        past: PastDeliveries,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> State {
        attempt.has_past = !past.is_empty();
        let claim = attempt.claim(past);
        let unanswered = AtomicBool::new(false);
        let write = || async {
            let _permit = self.bulk.permits.acquire(budget).await?;
            match self.lock_store.replace(&claim, expected).await {
                ClaimReply::Error(error) => {
                    match &error {
                        PortError::Throttled { .. } => counts.claim_throttled(),
                        PortError::Unknown { .. } => unanswered.store(true, Ordering::Relaxed),
                        PortError::Refused { .. } => warn!(%error, "claim refused"),
                        PortError::DeadlineReached => {}
                    }
                    Err(error)
                }
                reply => Ok(reply),
            }
        };
        let reply = budget.call(RetryPolicy::ITEMS, write).await;
        attempt.unanswered |= unanswered.into_inner();
        match reply {
            Ok(ClaimReply::Written) => State::Done(Outcome::Claimed, None),
            Ok(ClaimReply::Exists(Some(item))) => {
                attempt.judge(item, &self.rules, budget.clock.now())
            }
            // The store does not show what refused, or it is gone: for a read to say.
            Ok(ClaimReply::Exists(None)) => self.read_one(attempt, budget).await,
            Ok(ClaimReply::Unstorable(_)) => State::Done(Outcome::Unstorable, None),
            // Many may come here when the time is over: only those that wrote something read what became of it.
            Ok(ClaimReply::Error(_)) | Err(_) if !attempt.unanswered => {
                State::Done(Outcome::Failed, None)
            }
            Ok(ClaimReply::Error(_)) | Err(_) => match self.read_one(attempt, budget).await {
                state @ State::Done(..) => state,
                State::Open | State::Met | State::Live(..) | State::Replace(..) => {
                    State::Done(Outcome::Failed, None)
                }
            },
        }
    }

    /// The time for reads that tell what became of writes: as much longer as one attempt may take.
    fn settling<'b>(&self, budget: &Budget<'b>) -> Budget<'b> {
        budget.later(self.attempt_timeout)
    }

    /// What stands in the table now, read once. Gone is failed: the message's redelivery finds the place free. So is what
    /// there is no time to read: many may come here one after the other.
    async fn read_one(&self, attempt: &ClaimAttempt<'_>, budget: &Budget<'_>) -> State {
        let late = self.settling(budget);
        let id = std::slice::from_ref(&attempt.seated.candidate.event_id);
        let read = self.lock_store.read(id);
        let items = self.bulk.permits.with(&late, read).await;
        match items.map(|items| items.into_iter().next()) {
            Ok(Some(Some(item))) => attempt.judge(item, &self.rules, budget.clock.now()),
            Ok(Some(None) | None) | Err(_) => State::Done(Outcome::Failed, None),
        }
    }
}
