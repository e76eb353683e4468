//! Writes claims. Where an item exists already, reads and classifies it, and replaces it if the rules allow that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use protocol::claim::{ClaimRules, ExistingClaim, LockItem, Outcome, PastDeliveries};
use protocol::ids::EventId;
use protocol::limits::{BATCH_GET_KEYS_MAX, REPLACE_ROUNDS_MAX};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::ports::{ClaimReply, LockStore, PortError, Ports};
use shared::retry::{Budget, BulkWriter, Writer, attempt_timeout, bounded, read_items};
use tracing::debug;

use crate::claim_attempt::{ClaimAttempt, ClaimResult, Replacement, State};
use crate::config::Config;
use crate::invocation::InvocationCounts;
use crate::witnesses::Witnesses;

/// Writes claims to the lock table.
pub struct ClaimWriter {
    lock_store: Arc<dyn LockStore>,
    witnesses: Arc<Witnesses>,
    bulk: BulkWriter,
    rules: ClaimRules,
    /// The time limit of one request.
    attempt_timeout: Duration,
}

/// Sends claims for the bulk writer, up to a request's limit at a time.
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

    fn items_per_request(&self) -> usize {
        self.lock_store.items_per_request()
    }

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

    /// Leaves an item that the reply does not show unread: the items of many requests are read together later.
    fn finish(
        &self,
        mut attempt: ClaimAttempt<'a>,
        reply: ClaimReply,
        now: Timestamp,
    ) -> Result<ClaimAttempt<'a>, ClaimAttempt<'a>> {
        attempt.state = match reply {
            ClaimReply::Written => State::Done(Outcome::Claimed, None),
            ClaimReply::Exists(Some(item)) => attempt.classify(item, self.rules, now),
            ClaimReply::Exists(None) => State::Unread,
            ClaimReply::Unstorable(_) => State::Done(Outcome::Unstorable, None),
            ClaimReply::Error(error) if attempt.failed(&error, self.counts) => return Err(attempt),
            ClaimReply::Error(_) => State::Done(Outcome::Failed, None),
        };
        Ok(attempt)
    }
}

impl ClaimWriter {
    /// Returns a writer that sends through `bulk`, and reads the records of batches through `witnesses`.
    pub(crate) fn new(
        config: &Config,
        ports: &Ports,
        witnesses: Arc<Witnesses>,
        bulk: BulkWriter,
    ) -> ClaimWriter {
        ClaimWriter {
            lock_store: ports.lock_store.clone(),
            witnesses,
            bulk,
            rules: config.claim_rules(),
            attempt_timeout: attempt_timeout(config.common.deadline_margin),
        }
    }

    /// Returns the rules by which existing items are classified.
    pub fn rules(&self) -> &ClaimRules {
        &self.rules
    }

    /// Writes the claims of `unwritten`, and reads and classifies the existing items, until every attempt was written or
    /// the time is over. Returns all attempts; those in the state `Live` or `Replace` need
    /// [`finish_one`](Self::finish_one).
    pub async fn write_all<'a>(
        &'a self,
        mut unwritten: Vec<ClaimAttempt<'a>>,
        budget: &Budget<'_>,
        counts: &'a InvocationCounts,
    ) -> Vec<ClaimAttempt<'a>> {
        let mut attempted = Vec::with_capacity(unwritten.len());
        let mut round = 0;
        loop {
            let request = ClaimRequest {
                lock_store: &*self.lock_store,
                rules: &self.rules,
                counts,
            };
            let (mut written, out_of_time) = self.bulk.write_all(&request, unwritten, budget).await;
            written.extend(self.fail(out_of_time, budget).await);
            // A claim whose existing item is gone again is written once more.
            unwritten = self.read_existing(&mut written, budget).await;
            attempted.append(&mut written);
            round += 1;
            if unwritten.is_empty() || !budget.pause(RetryPolicy::ITEMS, round).await {
                attempted.append(&mut unwritten);
                return attempted;
            }
        }
    }

    /// Gives attempts that ran out of time the outcome `Failed`. Reads the items of those whose replies were lost once,
    /// because some of their writes may have succeeded.
    async fn fail<'a>(
        &self,
        mut out_of_time: Vec<ClaimAttempt<'a>>,
        budget: &Budget<'_>,
    ) -> Vec<ClaimAttempt<'a>> {
        for attempt in &mut out_of_time {
            attempt.state = State::Done(Outcome::Failed, None);
        }
        let unanswered = out_of_time.iter_mut();
        let mut unanswered: Vec<_> = unanswered.filter(|attempt| attempt.unanswered).collect();
        let reads = unanswered.chunks_mut(BATCH_GET_KEYS_MAX);
        let reads = reads.map(|attempts| self.read_unanswered(attempts, budget));
        bounded(reads.collect(), self.bulk.concurrency).await;
        out_of_time
    }

    async fn read_unanswered(&self, attempts: &mut [&mut ClaimAttempt<'_>], budget: &Budget<'_>) {
        let ids = event_ids(attempts);
        let late = self.late_reads(budget);
        let read = self.lock_store.read(&ids);
        let Ok(items) = self.bulk.permits.with(&late, read).await else {
            return;
        };
        let now = budget.clock.now();
        for (attempt, item) in attempts.iter_mut().zip(items) {
            if let Some(item) = item
                && let state @ State::Done(..) = attempt.classify(item, &self.rules, now)
            {
                attempt.state = state;
            }
        }
    }

    /// Reads and classifies the existing items of attempts in the state `Unread`. Removes and returns the attempts whose
    /// items are gone again, so that the caller writes them again. An attempt whose item cannot be read stays `Unread`, and
    /// so fails.
    async fn read_existing<'a>(
        &self,
        attempts: &mut Vec<ClaimAttempt<'a>>,
        budget: &Budget<'_>,
    ) -> Vec<ClaimAttempt<'a>> {
        let is_unread = |attempt: &&mut ClaimAttempt<'a>| matches!(attempt.state, State::Unread);
        let mut unread: Vec<_> = attempts.iter_mut().filter(is_unread).collect();
        let reads = unread.chunks_mut(BATCH_GET_KEYS_MAX);
        let reads = reads.map(|attempts| self.read_and_classify(attempts, budget));
        bounded(reads.collect(), self.bulk.concurrency).await;
        attempts
            .extract_if(.., |attempt| matches!(attempt.state, State::Unwritten))
            .collect()
    }

    async fn read_and_classify(&self, attempts: &mut [&mut ClaimAttempt<'_>], budget: &Budget<'_>) {
        let ids = event_ids(attempts);
        let items = read_items(&*self.lock_store, &ids, &self.bulk.permits, budget).await;
        for (attempt, item) in attempts.iter_mut().zip(items) {
            attempt.state = match item {
                Some(item) => attempt.classify(item, &self.rules, budget.clock.now()),
                None => State::Unwritten,
            };
        }
    }

    /// Finishes one attempt that found an item: reads the record of its batch, and replaces the item where the rules allow it.
    /// An attempt that is not done after four rounds fails.
    pub async fn finish_one(
        &self,
        mut attempt: ClaimAttempt<'_>,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> ClaimResult {
        for round in 0..REPLACE_ROUNDS_MAX {
            let step = std::mem::replace(&mut attempt.state, State::Done(Outcome::Failed, None));
            attempt.state = match step {
                State::Done(..) => {
                    attempt.state = step;
                    return attempt.finish();
                }
                State::Unwritten | State::Unread => break,
                State::Live(item, existing) => {
                    self.read_record_and_classify(&attempt, item, existing, budget)
                        .await
                }
                State::Replace(replacement) => {
                    debug!(batch_id = %attempt.seated.seat.batch, event_id = %attempt.seated.candidate.event_id, round, "replacing a lock item");
                    self.replace(&mut attempt, *replacement, budget, counts)
                        .await
                }
            };
        }
        attempt.finish()
    }

    /// Returns the state of an attempt that found a live claim, after the record of the claim's batch was read.
    async fn read_record_and_classify(
        &self,
        attempt: &ClaimAttempt<'_>,
        item: Box<LockItem>,
        existing: ExistingClaim,
        budget: &Budget<'_>,
    ) -> State {
        let Some((batch, seq)) = item.state.claimed_seat() else {
            return attempt.classify(*item, &self.rules, budget.clock.now());
        };
        let mut relied_on = SeqSet::new();
        if existing.relies_on_it(self.rules.on_duplicate) {
            relied_on.insert(seq);
        }
        match self.witnesses.add(batch, &relied_on, budget).await {
            Ok(record) => {
                let now = budget.clock.now();
                attempt.classify_live(item, existing, record.as_deref(), &self.rules, now)
            }
            Err(_) => State::Done(Outcome::Failed, Some(item)),
        }
    }

    /// Replaces an item with the attempt's claim.
    async fn replace(
        &self,
        attempt: &mut ClaimAttempt<'_>,
        replacement: Replacement,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> State {
        let Replacement {
            item: expected,
            past,
        } = replacement;
        attempt.has_past = !past.is_empty();
        let claim = attempt.claim(past);
        let unanswered = AtomicBool::new(false);
        let write = || async {
            let _permit = self.bulk.permits.acquire(budget).await?;
            match self.lock_store.replace(&claim, &expected).await {
                ClaimReply::Error(error) => {
                    unanswered.fetch_or(attempt.report(&error, counts), Ordering::Relaxed);
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
                attempt.classify(item, &self.rules, budget.clock.now())
            }
            // The reply does not show the item that refused the write, or the item is gone: a read tells.
            Ok(ClaimReply::Exists(None)) => self.read_one(attempt, budget).await,
            Ok(ClaimReply::Unstorable(_)) => State::Done(Outcome::Unstorable, None),
            // When the time is over, many attempts may fail here at once. Only those with a lost reply have a reason to
            // read.
            Ok(ClaimReply::Error(_)) | Err(_) if !attempt.unanswered => {
                State::Done(Outcome::Failed, None)
            }
            Ok(ClaimReply::Error(_)) | Err(_) => match self.read_one(attempt, budget).await {
                state @ State::Done(..) => state,
                State::Unwritten | State::Unread | State::Live(..) | State::Replace(..) => {
                    State::Done(Outcome::Failed, None)
                }
            },
        }
    }

    /// Returns the budget for reads that find out whether a write without a reply was applied. It ends later than `budget`,
    /// by the time limit of one request.
    fn late_reads<'b>(&self, budget: &Budget<'b>) -> Budget<'b> {
        budget.later(self.attempt_timeout)
    }

    /// Reads and classifies the item in the table, with a single request. If there is no item, the attempt fails: a
    /// redelivery of the message can claim the event. It also fails if there is no time for the request.
    async fn read_one(&self, attempt: &ClaimAttempt<'_>, budget: &Budget<'_>) -> State {
        let late = self.late_reads(budget);
        let id = std::slice::from_ref(&attempt.seated.candidate.event_id);
        let read = self.lock_store.read(id);
        let items = self.bulk.permits.with(&late, read).await;
        match items.map(|items| items.into_iter().next()) {
            Ok(Some(Some(item))) => attempt.classify(item, &self.rules, budget.clock.now()),
            Ok(Some(None) | None) | Err(_) => State::Done(Outcome::Failed, None),
        }
    }
}

fn event_ids(attempts: &[&mut ClaimAttempt<'_>]) -> Vec<EventId> {
    let ids = attempts.iter();
    ids.map(|attempt| attempt.seated.candidate.event_id.clone())
        .collect()
}
