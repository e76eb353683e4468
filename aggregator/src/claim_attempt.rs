//! One candidate on its way to an outcome.

use std::sync::Arc;

use protocol::allocator::SeatEnd;
use protocol::claim::{
    BatchFate, Claim, ClaimRules, ExistingClaim, LockItem, Outcome, Overflow, PastDeliveries,
    Verdict, classify, settle_live,
};
use protocol::ids::{BatchShard, Seat};
use protocol::planted::{Bug, planted};
use protocol::time::Timestamp;
use shared::ports::PortError;
use shared::retry::Keyed;
use tracing::warn;

use crate::invocation::InvocationCounts;
use crate::shared_allocator::Seated;

/// What the attempts to claim one seat came to.
#[derive(Debug)]
pub struct ClaimAttempt<'a> {
    /// Whose.
    pub seated: Seated<'a>,
    /// What is known now.
    pub state: State,
    /// Whether a write had no reply: it may still arrive.
    pub unanswered: bool,
    /// Where its body goes, if it does not fit the item.
    pub overflow: Option<Box<Overflow>>,
    /// Whether its claim remembers earlier messages: then only the table can tell a duplicate from a redelivery.
    pub has_past: bool,
}

/// How far a candidate has come. Items stand in the way seldom; boxed, they take no room where there is none.
#[derive(Debug)]
pub enum State {
    /// To be written.
    Open,
    /// An item stands in the way, which is not read yet.
    Met,
    /// Decided.
    Done(Outcome, Option<Box<LockItem>>),
    /// A live claim stands in the way; its batch must be asked.
    Live(Box<LockItem>, ExistingClaim),
    /// The item may be replaced.
    Replace(Box<LockItem>, Box<PastDeliveries>),
}

/// A candidate whose outcome is known.
#[derive(Debug)]
pub struct Settled {
    /// Position among the leaders of the invocation.
    pub leader: usize,
    pub outcome: Outcome,
    /// What holds the event, where it is not this candidate.
    pub winner: Option<Box<LockItem>>,
    /// The seat it claimed.
    pub seat: Option<Seat>,
    /// A body that was stored for a claim there is not, and never will be.
    pub unused: Option<Box<Overflow>>,
}

impl Settled {
    /// A candidate that was not tried.
    pub fn failed(leader: usize) -> Settled {
        Settled {
            leader,
            outcome: Outcome::Failed,
            winner: None,
            seat: None,
            unused: None,
        }
    }

    /// A candidate whose event is held by a claim that nothing needs to be asked about.
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
    /// A candidate with a seat, to be written; with its body in `bucket` if it does not fit the item.
    pub fn new(seated: Seated<'a>, bucket: Option<&Arc<str>>) -> ClaimAttempt<'a> {
        let overflow = bucket.and_then(|bucket| seated.candidate.overflow(bucket, seated.seat));
        ClaimAttempt {
            seated,
            state: State::Open,
            unanswered: false,
            overflow: overflow.map(Box::new),
            has_past: false,
        }
    }

    /// The claim as it is written.
    pub fn claim(&self, past: PastDeliveries) -> Claim {
        Claim {
            candidate: self.seated.candidate.clone(),
            seat: self.seated.seat,
            overflow: self.overflow.as_deref().cloned(),
            past,
        }
    }

    /// Takes in the error of a write; returns whether it shall be written again.
    pub fn failed(&mut self, error: &PortError, counts: &InvocationCounts) -> bool {
        match error {
            PortError::Throttled { .. } => counts.claim_throttled(),
            PortError::Unknown { .. } => self.unanswered = true,
            PortError::Refused { .. } => warn!(%error, "claim refused"),
            PortError::DeadlineReached => {}
        }
        error.retryable()
    }

    /// What `item`, which stands in the way, means for the candidate.
    pub fn judge(&self, item: LockItem, rules: &ClaimRules, now: Timestamp) -> State {
        let Seated {
            candidate, seat, ..
        } = &self.seated;
        let verdict = classify(candidate, Some(*seat), &item, rules, now);
        State::of(verdict, Box::new(item))
    }

    /// What a live claim means, the fate of its batch being known.
    pub fn judge_live(
        &self,
        item: Box<LockItem>,
        existing: ExistingClaim,
        fate: &BatchFate,
        rules: &ClaimRules,
        now: Timestamp,
    ) -> State {
        let verdict = settle_live(self.seated.candidate, &item, existing, fate, rules, now);
        State::of(verdict, item)
    }

    /// Ends the seat and keeps the outcome.
    pub fn settle(self) -> Settled {
        let State::Done(outcome, winner) = self.state else {
            // Never carried on: out of time, or what stood in the way could not be read.
            return self.fail();
        };
        let (leader, seat) = (self.seated.leader, self.seated.seat);
        let end = match outcome {
            Outcome::Claimed => SeatEnd::Claimed,
            // What went unanswered may still arrive in the table, after whatever was read there.
            _ if self.unanswered && !planted(Bug::UncertainTakenForFree) => SeatEnd::Uncertain,
            _ => SeatEnd::Free,
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
            unused,
        }
    }

    fn fail(mut self) -> Settled {
        self.state = State::Done(Outcome::Failed, None);
        self.settle()
    }
}

impl State {
    fn of(verdict: Verdict, item: Box<LockItem>) -> State {
        match verdict {
            Verdict::Done(outcome) => State::Done(outcome, Some(item)),
            Verdict::Live(existing) => State::Live(item, existing),
            Verdict::Replace { past } => State::Replace(item, Box::new(past)),
        }
    }
}
