//! One claim attempt: from its seat to the outcome of its candidate.

use std::sync::Arc;

use protocol::allocator::SeatEnd;
use protocol::batch::BatchRecord;
use protocol::claim::{
    Claim, ClaimRules, ExistingClaim, LockItem, Outcome, Overflow, PastDeliveries, Verdict,
    classify, seat_fate, settle_live,
};
use protocol::ids::{BatchShard, Seat};
use protocol::planted::{Bug, planted};
use protocol::time::Timestamp;
use shared::ports::PortError;
use shared::retry::Keyed;
use tracing::warn;

use crate::invocation::InvocationCounts;
use crate::shared_allocator::Seated;

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
    /// The outcome if the event is not claimed already, of an attempt that may not claim it: its quota has no place.
    pub without_place: Option<Outcome>,
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
    /// A live claim exists. The outcome depends on the fate of its batch.
    Live(Box<LockItem>, ExistingClaim),
    /// The claim may replace this item, and must carry these past deliveries.
    Replace(Box<LockItem>, Box<PastDeliveries>),
}

/// A candidate whose outcome is known.
#[derive(Debug)]
pub struct Settled {
    /// The position of the candidate among the leaders of the invocation.
    pub leader: usize,
    pub outcome: Outcome,
    /// The item that holds the event, if it is not this candidate's.
    pub winner: Option<Box<LockItem>>,
    /// The seat of the claim, if the outcome is `Claimed`.
    pub seat: Option<Seat>,
    /// The seat of an attempt that made no claim and never will.
    pub freed: Option<Seat>,
    /// The object with a body whose claim was not written and never will be. The caller must remove it.
    pub unused: Option<Box<Overflow>>,
}

impl Settled {
    /// Returns the result of a candidate that got no seat.
    pub fn failed(leader: usize) -> Settled {
        Settled {
            leader,
            outcome: Outcome::Failed,
            winner: None,
            seat: None,
            freed: None,
            unused: None,
        }
    }

    /// Returns the result of a candidate whose event is claimed by a claim that the environment remembers.
    pub fn known(leader: usize, existing: ExistingClaim) -> Settled {
        Settled {
            outcome: existing.outcome(),
            ..Settled::failed(leader)
        }
    }
}

impl Keyed for ClaimAttempt<'_> {
    fn key(&self) -> BatchShard {
        self.seated.seat.shard()
    }
}

impl<'a> ClaimAttempt<'a> {
    /// Returns an attempt that is not written yet. A body that does not fit the lock item goes to `bucket`.
    pub fn new(seated: Seated<'a>, bucket: Option<&Arc<str>>) -> ClaimAttempt<'a> {
        let bucket = bucket.filter(|_| seated.seat.chunk.is_none());
        let overflow = bucket.and_then(|bucket| seated.candidate.overflow(bucket, seated.seat));
        ClaimAttempt {
            seated,
            state: State::Unwritten,
            unanswered: false,
            overflow: overflow.map(Box::new),
            has_past: false,
            without_place: None,
        }
    }

    /// Returns an attempt that only looks whether the event is claimed already.
    pub fn without_place(seated: Seated<'a>, outcome: Outcome) -> ClaimAttempt<'a> {
        ClaimAttempt {
            state: State::Unread,
            without_place: Some(outcome),
            ..ClaimAttempt::new(seated, None)
        }
    }

    /// Returns the state after the attempt found no item.
    pub fn absent(&self) -> State {
        match self.without_place {
            Some(outcome) => State::Done(outcome, None),
            None => State::Unwritten,
        }
    }

    /// Returns the claim to write.
    pub fn claim(&self, past: PastDeliveries) -> Claim {
        Claim {
            candidate: self.seated.candidate.clone(),
            seat: self.seated.seat,
            overflow: self.overflow.as_deref().cloned(),
            past,
        }
    }

    /// Records the error of a write. Returns whether the write may be retried.
    pub fn failed(&mut self, error: &PortError, counts: &InvocationCounts) -> bool {
        match error {
            PortError::Throttled { .. } => counts.claim_throttled(),
            PortError::Unknown { .. } => self.unanswered = true,
            PortError::Refused { .. } => {
                warn!(batch_id = %self.seated.seat.batch, %error, "claim refused");
            }
            PortError::DeadlineReached => {}
        }
        error.retryable()
    }

    /// Returns the state after the attempt found `item`.
    pub fn classify(&self, item: LockItem, rules: &ClaimRules, now: Timestamp) -> State {
        let Seated {
            candidate, seat, ..
        } = &self.seated;
        let verdict = classify(candidate, Some(*seat), &item, rules, now);
        self.state_of(verdict, Box::new(item))
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
        let fate = seat_fate(record, &item.state, rules.dedup_window, now);
        let verdict = settle_live(self.seated.candidate, &item, existing, fate, rules, now);
        self.state_of(verdict, item)
    }

    fn state_of(&self, verdict: Verdict, item: Box<LockItem>) -> State {
        match verdict {
            Verdict::Done(outcome) => State::Done(outcome, Some(item)),
            Verdict::Live(existing) => State::Live(item, existing),
            Verdict::Replace { past } => match self.without_place {
                Some(outcome) => State::Done(outcome, None),
                None => State::Replace(item, Box::new(past)),
            },
        }
    }

    /// Reports the end of the seat to the allocator, and returns the outcome. An attempt that is not done has failed.
    pub fn settle(self) -> Settled {
        let State::Done(outcome, winner) = self.state else {
            // The time was over, or the existing item could not be read.
            return self.fail();
        };
        let (leader, seat) = (self.seated.leader, self.seated.seat);
        // Whether a seat without a place was never reserved is known only if the account was read.
        let never_reserved = self.without_place == Some(Outcome::BeyondQuota);
        let end = match outcome {
            Outcome::Claimed => SeatEnd::Claimed,
            // A write without a reply may be applied later, whatever was read in the table since.
            _ if self.unanswered && !planted(Bug::UncertainTakenForFree) => SeatEnd::Uncertain,
            _ => SeatEnd::Free,
        };
        let is_freed = match end {
            SeatEnd::Free => !never_reserved,
            SeatEnd::Uncertain => planted(Bug::QuotaUncertainFreed),
            SeatEnd::Claimed => false,
        };
        let unused = self.overflow.filter(|_| {
            end == SeatEnd::Free || end == SeatEnd::Uncertain && planted(Bug::UncertainBodyRemoved)
        });
        self.seated
            .settle(end, outcome == Outcome::Claimed && !self.has_past);
        Settled {
            leader,
            outcome,
            winner,
            seat: (outcome == Outcome::Claimed).then_some(seat),
            freed: is_freed.then_some(seat),
            unused,
        }
    }

    fn fail(mut self) -> Settled {
        self.state = State::Done(Outcome::Failed, None);
        self.settle()
    }
}
