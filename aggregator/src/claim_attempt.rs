//! One claim attempt: from its seat to the outcome of its candidate.

use std::sync::Arc;

use protocol::batch::BatchRecord;
use protocol::claim::{
    Candidate, Claim, ClaimRules, Decision, ExistingClaim, LockItem, Outcome, Overflow,
    PastDeliveries, classify, decide_live, seat_resolution,
};
use protocol::ids::{BatchShard, Seat, Seq};
use protocol::time::Timestamp;
use shared::ports::PortError;
use shared::retry::Keyed;
use tracing::warn;

use crate::invocation::InvocationCounts;

/// A candidate with a seat.
#[derive(Clone, Copy, Debug)]
pub struct Seated<'a> {
    /// The position of the candidate among the first messages of each event id in the invocation.
    pub first: usize,
    pub candidate: &'a Candidate,
    pub seat: Seat,
}

/// How the attempt with a seat ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatEnd {
    /// The claim is in the table.
    Claimed,
    /// The claim is not in the table and never will be.
    Free,
    /// The claim may be in the table, or may still arrive there.
    Uncertain,
}

/// The attempt to claim an event with one seat. It may take several writes.
#[derive(Debug)]
pub struct ClaimAttempt<'a> {
    pub seated: Seated<'a>,
    pub state: State,
    /// Whether a write of this attempt had no reply. Such a write may still be applied later.
    pub unanswered: bool,
    /// The object for the body, if the body does not fit the lock item.
    pub overflow: Option<Box<Overflow>>,
    /// Whether the claim has past deliveries. Then the environment must not remember the claim: only the lock item can tell
    /// a duplicate from a redelivery.
    pub has_past: bool,
}

/// The state of a claim attempt. Few attempts find an item, so items are boxed to keep the others small.
#[derive(Debug)]
pub enum State {
    /// The claim must be written, for the first time or again.
    Unwritten,
    /// An item exists, but has not been read.
    Unread,
    /// The outcome is known. The item is the one that holds the event, if the attempt found one.
    Done(Outcome, Option<Box<LockItem>>),
    /// A live claim exists. The outcome depends on the resolution of its batch.
    Live(Box<LockItem>, ExistingClaim),
    /// The claim may replace this item.
    Replace(Box<Replacement>),
}

/// The replacement of an item by a claim.
#[derive(Debug)]
pub struct Replacement {
    /// The item as it was read.
    pub item: LockItem,
    /// The past deliveries that the claim must carry.
    pub past: PastDeliveries,
}

/// A candidate whose outcome is known.
#[derive(Debug)]
pub struct ClaimResult {
    /// The position of the candidate among the first messages of each event id in the invocation.
    pub first: usize,
    pub outcome: Outcome,
    /// The item that holds the event, if it is not this candidate's.
    pub winner: Option<Box<LockItem>>,
    /// The seat of its attempt, if it had one.
    pub seat: Option<Seat>,
    pub end: SeatEnd,
    /// The seat of the same batch whose claim the outcome relies on, if it is not its own.
    pub relied_on: Option<Seq>,
    /// Whether the environment may remember the claim.
    pub may_be_remembered: bool,
    /// The object with a body whose claim was not written and never will be. The caller must remove it.
    pub unused: Option<Box<Overflow>>,
}

impl ClaimResult {
    /// Returns the result of a candidate that got no seat.
    pub fn failed(first: usize) -> ClaimResult {
        ClaimResult {
            first,
            outcome: Outcome::Failed,
            winner: None,
            seat: None,
            end: SeatEnd::Free,
            relied_on: None,
            may_be_remembered: false,
            unused: None,
        }
    }

    /// Returns the result of a candidate whose event is claimed by a claim that the environment remembers.
    pub fn known(first: usize, existing: ExistingClaim) -> ClaimResult {
        ClaimResult {
            outcome: existing.outcome(),
            ..ClaimResult::failed(first)
        }
    }

    /// Returns the seat of the claim that was made.
    pub fn claimed(&self) -> Option<Seat> {
        self.seat.filter(|_| self.outcome == Outcome::Claimed)
    }

    /// Returns the seat of its batch without which it may not be acknowledged.
    pub fn relies_on(&self) -> Option<Seq> {
        let own = self.claimed().map(|seat| seat.seq);
        own.or(self.relied_on)
    }

    /// Returns the result if it is not known that the batch counts the claim that it relies on: the message comes again.
    pub fn uncounted(self) -> ClaimResult {
        match self.relies_on() {
            // A seat that is free stays so.
            Some(_) => ClaimResult {
                outcome: Outcome::Failed,
                winner: None,
                relied_on: None,
                may_be_remembered: false,
                ..self
            },
            None => self,
        }
    }
}

impl Keyed for ClaimAttempt<'_> {
    fn key(&self) -> BatchShard {
        self.seated.seat.shard()
    }
}

impl<'a> ClaimAttempt<'a> {
    /// Returns an attempt that is not written yet.
    pub fn new(seated: Seated<'a>) -> ClaimAttempt<'a> {
        ClaimAttempt {
            seated,
            state: State::Unwritten,
            unanswered: false,
            overflow: None,
            has_past: false,
        }
    }

    /// Has the body go to `bucket`, if it does not fit the lock item.
    pub fn with_overflow(mut self, bucket: Option<&Arc<str>>) -> ClaimAttempt<'a> {
        let Seated {
            candidate, seat, ..
        } = &self.seated;
        let overflow = bucket.and_then(|bucket| candidate.overflow(bucket, *seat));
        self.overflow = overflow.map(Box::new);
        self
    }

    /// Returns the claim to write, with these past deliveries.
    pub fn claim(&self, past: PastDeliveries) -> Claim {
        Claim {
            candidate: self.seated.candidate.clone(),
            seat: self.seated.seat,
            overflow: self.overflow.as_deref().cloned(),
            past,
        }
    }

    /// Counts or logs the error of a write. Returns whether the write may be applied all the same.
    pub fn report(&self, error: &PortError, counts: &InvocationCounts) -> bool {
        match error {
            PortError::Throttled { .. } => counts.claim_throttled(),
            PortError::Unknown { .. } => return true,
            PortError::Refused { .. } => {
                warn!(batch_id = %self.seated.seat.batch, %error, "claim refused");
            }
            PortError::DeadlineReached => {}
        }
        false
    }

    /// Records the error of a write. Returns whether the write may be retried.
    pub fn failed(&mut self, error: &PortError, counts: &InvocationCounts) -> bool {
        self.unanswered |= self.report(error, counts);
        error.retryable()
    }

    /// Returns the state after the attempt found `item`.
    pub fn classify(&self, item: LockItem, rules: &ClaimRules, now: Timestamp) -> State {
        let Seated {
            candidate, seat, ..
        } = &self.seated;
        let decision = classify(candidate, Some(*seat), &item, rules, now);
        self.state_of(decision, Box::new(item))
    }

    /// Returns whether a claim is in the attempt's own batch. Then it is alive if the slot of the attempt is filled: the batch is not closed
    /// before.
    fn in_own_batch(&self, item: &LockItem) -> bool {
        let claimed = item.state.claimed_seat();
        claimed.is_some_and(|(batch, _)| batch == self.seated.seat.batch)
    }

    /// Returns the state after the attempt found a claim whose batch has the record `record`.
    pub fn classify_live(
        &self,
        item: Box<LockItem>,
        existing: ExistingClaim,
        record: Option<&BatchRecord>,
        rules: &ClaimRules,
        now: Timestamp,
    ) -> State {
        let resolution = seat_resolution(record, &item.state, rules.dedup_window, now);
        let decision = decide_live(
            self.seated.candidate,
            &item,
            existing,
            resolution,
            rules,
            now,
        );
        self.state_of(decision, item)
    }

    fn state_of(&self, decision: Decision, item: Box<LockItem>) -> State {
        match decision {
            Decision::Done(outcome) => State::Done(outcome, Some(item)),
            Decision::Live(existing) if self.in_own_batch(&item) => {
                State::Done(existing.outcome(), Some(item))
            }
            Decision::Live(existing) => State::Live(item, existing),
            Decision::Replace { past } => {
                State::Replace(Box::new(Replacement { item: *item, past }))
            }
        }
    }

    /// Returns the outcome. An attempt that is not done has failed.
    pub fn finish(self) -> ClaimResult {
        let (outcome, winner) = match self.state {
            State::Done(outcome, winner) => (outcome, winner),
            // The time was over, or the existing item could not be read.
            State::Unwritten | State::Unread | State::Live(..) | State::Replace(_) => {
                (Outcome::Failed, None)
            }
        };
        let end = match outcome {
            Outcome::Claimed => SeatEnd::Claimed,
            // A write without a reply may be applied later, whatever was read in the table since.
            _ if self.unanswered => SeatEnd::Uncertain,
            _ => SeatEnd::Free,
        };
        let Seated { first, seat, .. } = self.seated;
        // A repeat of a conflict may be a duplicate of the same claim.
        let relies = matches!(
            outcome,
            Outcome::Redelivered | Outcome::Duplicate | Outcome::Conflict
        );
        let relied_on = winner.as_ref().filter(|_| relies).and_then(|item| {
            let (batch, seq) = item.state.claimed_seat()?;
            (batch == seat.batch).then_some(seq)
        });
        ClaimResult {
            first,
            outcome,
            winner,
            seat: Some(seat),
            end,
            relied_on,
            may_be_remembered: outcome == Outcome::Claimed && !self.has_past,
            unused: self.overflow.filter(|_| end == SeatEnd::Free),
        }
    }
}
