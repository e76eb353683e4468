//! One claim attempt: from its seat to the outcome of its candidate.

use std::sync::Arc;

use protocol::allocator::SeatEnd;
use protocol::batch::BatchRecord;
use protocol::claim::{
    Claim, ClaimRules, Decision, ExistingClaim, LockItem, Outcome, Overflow, PastDeliveries,
    classify, decide_live, seat_resolution,
};
use protocol::ids::{BatchShard, Seat};
use protocol::quota::{Place, QuotaScope};
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
    pub place: SeatPlace,
}

/// Whether the seat of an attempt has a place in the account of its event's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatPlace {
    /// It has one, or the event has no quota.
    Reserved,
    /// It has none. The attempt may only take over the place of an event that was set aside; this is its outcome if the event is not
    /// claimed and has no such place.
    None(Outcome),
    /// It is not known: the account could not be written. The attempt may not claim the event.
    Unknown,
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
    /// Whether the claim takes over the place of its event in a quota.
    pub takes_over: bool,
}

/// A candidate whose outcome is known.
#[derive(Debug)]
pub struct ClaimResult {
    /// The position of the candidate among the first messages of each event id in the invocation.
    pub first: usize,
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

impl ClaimResult {
    /// Returns the result of a candidate that got no seat.
    pub fn failed(first: usize) -> ClaimResult {
        ClaimResult {
            first,
            outcome: Outcome::Failed,
            winner: None,
            seat: None,
            freed: None,
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
}

impl Keyed for ClaimAttempt<'_> {
    fn key(&self) -> BatchShard {
        self.seated.seat.shard()
    }
}

impl<'a> ClaimAttempt<'a> {
    /// Returns an attempt that is not written yet. Without a place, it first reads whether the event is claimed already.
    pub fn new(seated: Seated<'a>, place: SeatPlace) -> ClaimAttempt<'a> {
        ClaimAttempt {
            seated,
            state: match place {
                SeatPlace::Reserved => State::Unwritten,
                SeatPlace::None(_) | SeatPlace::Unknown => State::Unread,
            },
            unanswered: false,
            overflow: None,
            has_past: false,
            place,
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

    /// Returns the state after the attempt found no item.
    pub fn absent(&self) -> State {
        match self.place {
            SeatPlace::Reserved => State::Unwritten,
            SeatPlace::None(outcome) => State::Done(outcome, None),
            SeatPlace::Unknown => State::Done(Outcome::Failed, None),
        }
    }

    /// Returns whether the claim takes over a place, and its seat has one that must be given back before. A write without a reply may be
    /// applied in this seat later, and then needs it.
    pub fn holds_two_places(&self) -> bool {
        let takes_over =
            matches!(&self.state, State::Replace(replacement) if replacement.takes_over);
        takes_over && self.place == SeatPlace::Reserved
    }

    /// Returns the claim to write, with these past deliveries.
    pub fn claim(&self, past: PastDeliveries, is_taken_over: bool) -> Claim {
        let candidate = self.seated.candidate;
        let account = candidate.quota.as_ref().map(QuotaScope::account);
        Claim {
            candidate: candidate.clone(),
            seat: self.seated.seat,
            overflow: self.overflow.as_deref().cloned(),
            past,
            place: account.map(|account| Place {
                account,
                is_taken_over,
            }),
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
            Decision::Live(existing) => State::Live(item, existing),
            Decision::Replace { past, takes_over } => match (self.place, takes_over) {
                (SeatPlace::Reserved, _) | (SeatPlace::None(_), true) => {
                    State::Replace(Box::new(Replacement {
                        item: *item,
                        past,
                        takes_over,
                    }))
                }
                (SeatPlace::None(_), false) | (SeatPlace::Unknown, _) => self.absent(),
            },
        }
    }

    /// Reports the end of the seat to the allocator, and returns the outcome. An attempt that is not done has failed.
    pub fn finish(self) -> ClaimResult {
        let (outcome, winner) = match self.state {
            State::Done(outcome, winner) => (outcome, winner),
            // The time was over, or the existing item could not be read.
            State::Unwritten | State::Unread | State::Live(..) | State::Replace(_) => {
                (Outcome::Failed, None)
            }
        };
        let (first, seat) = (self.seated.first, self.seated.seat);
        let has_no_place = matches!(self.place, SeatPlace::None(_));
        let end = match outcome {
            Outcome::Claimed => SeatEnd::Claimed,
            // A write without a reply may be applied later, whatever was read in the table since.
            _ if self.unanswered => SeatEnd::Uncertain,
            _ => SeatEnd::Free,
        };
        let is_freed = match end {
            SeatEnd::Free => !has_no_place,
            SeatEnd::Uncertain | SeatEnd::Claimed => false,
        };
        let unused = self.overflow.filter(|_| end == SeatEnd::Free);
        self.seated
            .finish(end, outcome == Outcome::Claimed && !self.has_past);
        ClaimResult {
            first,
            outcome,
            winner,
            seat: (outcome == Outcome::Claimed).then_some(seat),
            freed: is_freed.then_some(seat),
            unused,
        }
    }
}
