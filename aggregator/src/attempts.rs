//! Writing claims: attempts, repetitions, lost replies, and what was met.

use std::sync::Arc;

use protocol::allocator::SeatEnd;
use protocol::claim::{
    BatchFate, Claim, LockItem, LockState, Meeting, Outcome, Overflow, PastDeliveries, Verdict,
    classify, settle_live,
};
use protocol::ids::{BatchShard, EventId};
use protocol::limits::{BATCH_GET_KEYS_MAX, OVERFLOW_CALLS_MAX, REPLACE_ROUNDS_MAX};
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::calls::{Budget, attempt_timeout, bounded};
use shared::ports::{ClaimReply, PortError};
use shared::writes::{Member, WriteQueue};
use tracing::{debug, warn};

use crate::current::Seated;
use crate::handler::{Handler, Tally};

/// What the attempts to claim one seat came to.
#[derive(Debug)]
pub struct Attempted<'a> {
    /// Whose.
    pub seated: Seated<'a>,
    /// What is known now.
    pub state: State,
    /// Whether an attempt had no reply: its write may still arrive.
    pub unanswered: bool,
    /// Where its body goes, if it does not fit the item.
    overflow: Option<Box<Overflow>>,
    /// Whether its claim remembers earlier messages: then only the table can tell a duplicate from a redelivery.
    has_past: bool,
}

/// How far a candidate has come. Items are met seldom; boxed, they take no room where there is none.
#[derive(Debug)]
pub enum State {
    /// To be written.
    Open,
    /// Something stands in the way, which nobody has read yet.
    Met,
    /// Decided.
    Done(Outcome, Option<Box<LockItem>>),
    /// A live claim stands in the way; its batch must be asked.
    Live(Box<LockItem>, Meeting),
    /// The item may be replaced.
    Replace(Box<LockItem>, Box<PastDeliveries>),
}

/// A candidate whose outcome is known.
#[derive(Debug)]
pub struct Settled {
    /// Position among the leaders of the invocation.
    pub leader: usize,
    /// The outcome.
    pub outcome: Outcome,
    /// What holds the event, where it is not this candidate.
    pub winner: Option<Box<LockItem>>,
    /// The seat it claimed.
    pub seat: Option<protocol::ids::Seat>,
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
    pub fn known(leader: usize, meeting: Meeting) -> Settled {
        Settled {
            outcome: meeting.outcome(),
            ..Settled::failed(leader)
        }
    }
}

impl Member for Attempted<'_> {
    fn key(&self) -> BatchShard {
        self.seated.seat.shard()
    }
}

fn error_of(reply: &ClaimReply) -> Option<&PortError> {
    match reply {
        ClaimReply::Error(error) => Some(error),
        ClaimReply::Written | ClaimReply::Exists(_) | ClaimReply::Unstorable(_) => None,
    }
}

impl<'a> Attempted<'a> {
    /// A candidate with a seat, to be written; with its body in `bucket` if it does not fit the item.
    pub fn new(seated: Seated<'a>, bucket: Option<&Arc<str>>) -> Attempted<'a> {
        let overflow = bucket.and_then(|bucket| seated.candidate.overflow(bucket, seated.seat));
        Attempted {
            seated,
            state: State::Open,
            unanswered: false,
            overflow: overflow.map(Box::new),
            has_past: false,
        }
    }

    fn claim(&self, past: PastDeliveries) -> Claim {
        Claim {
            candidate: self.seated.candidate.clone(),
            seat: self.seated.seat,
            overflow: self.overflow.as_deref().cloned(),
            past,
        }
    }

    /// Takes in what an attempt answered; `true` when it should be repeated.
    fn take(&mut self, error: &PortError, tally: &Tally) -> bool {
        match error {
            PortError::Throttled { .. } => tally.throttled(),
            PortError::Unknown { .. } => self.unanswered = true,
            PortError::Refused { .. } => warn!(%error, "claim refused"),
            PortError::DeadlineReached => {}
        }
        error.retryable()
    }

    /// Ends the seat and keeps the outcome.
    pub fn settle(self) -> Settled {
        let State::Done(outcome, winner) = self.state else {
            // Never carried on: out of time, or what it met could not be read.
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

impl Handler {
    /// Stores the bodies that do not fit their items, before any claim says where they are. A candidate whose body could
    /// not be stored has failed.
    pub async fn store_bodies(&self, members: &mut [Attempted<'_>], budget: &Budget<'_>) {
        let large = members
            .iter_mut()
            .filter(|member| member.overflow.is_some());
        let stores = large
            .map(|member| self.store_body(member, budget))
            .collect();
        bounded(stores, OVERFLOW_CALLS_MAX).await;
    }

    async fn store_body(&self, member: &mut Attempted<'_>, budget: &Budget<'_>) {
        let Some(place) = &member.overflow else {
            return;
        };
        if planted(Bug::OverflowLost) {
            return;
        }
        let body = &member.seated.candidate.body;
        let overflow = &*self.ports().overflow_store;
        let put = || self.limited(budget, overflow.put(place, body));
        if let Err(error) = budget.call(RetryPolicy::ITEMS, put).await {
            let event_id = &member.seated.candidate.event_id;
            warn!(%event_id, %error, "body not stored");
            member.state = State::Done(Outcome::Failed, None);
        }
    }

    /// Removes bodies of claims that came to nothing. What is left is for the bucket's lifecycle.
    pub async fn remove_unused(&self, settled: &mut [Settled], budget: &Budget<'_>) {
        let unused = settled.iter_mut().filter_map(|one| one.unused.take());
        let removals = unused
            .map(|place| async move {
                let overflow = &*self.ports().overflow_store;
                let remove = || self.limited(budget, overflow.remove(&place));
                if let Err(error) = budget.call(RetryPolicy::ITEMS, remove).await {
                    warn!(key = place.key, %error, "unused body not removed");
                }
            })
            .collect();
        bounded(removals, OVERFLOW_CALLS_MAX).await;
    }

    /// Claims what the queue hands out, putting back what was throttled or lost. What stands in the way of a member is
    /// left unread: the members of many requests are read together.
    pub async fn claim_from<'a>(
        &self,
        queue: &WriteQueue<'_, Attempted<'a>>,
        budget: &Budget<'_>,
        tally: &Tally,
    ) -> Vec<Attempted<'a>> {
        let mut claimed = Vec::new();
        let mut losses = 0;
        loop {
            let members = queue.next(budget).await;
            if members.is_empty() {
                return claimed;
            }
            // Other invocations of this environment may hold all places until there is no time left.
            let Ok(place) = self.place(budget).await else {
                queue.put_back(members);
                return claimed;
            };
            let claims: Vec<Claim> = members
                .iter()
                .map(|member| member.claim(PastDeliveries::new()))
                .collect();
            let replies = self.ports().lock_store.claim(&claims).await;
            drop(place);
            let now = budget.clock.now();
            let keys = members.iter().map(Member::key);
            queue.replied(keys.zip(replies.iter().map(error_of)), now);
            let mut again = Vec::new();
            let mut lost = false;
            for (mut member, reply) in members.into_iter().zip(replies) {
                member.state = match reply {
                    ClaimReply::Written => State::Done(Outcome::Claimed, None),
                    ClaimReply::Exists(Some(item)) => self.judge(&member, item, now),
                    ClaimReply::Exists(None) => State::Met,
                    ClaimReply::Unstorable(_) => State::Done(Outcome::Unstorable, None),
                    ClaimReply::Error(error) if member.take(&error, tally) => {
                        lost |= matches!(error, PortError::Unknown { .. });
                        again.push(member);
                        continue;
                    }
                    ClaimReply::Error(_) => State::Done(Outcome::Failed, None),
                };
                claimed.push(member);
            }
            losses = if lost { losses + 1 } else { 0 };
            if !queue.repeat(again, losses, budget).await {
                return claimed;
            }
        }
    }

    /// Ends what there was no time to write (again).
    pub async fn fail_rest<'a>(
        &self,
        mut rest: Vec<Attempted<'a>>,
        budget: &Budget<'_>,
    ) -> Vec<Attempted<'a>> {
        for member in &mut rest {
            member.state = State::Done(Outcome::Failed, None);
        }
        self.settle_unanswered(&mut rest, budget).await;
        rest
    }

    /// Reads what stands in the way of members that met something. Where it is gone again, the member is taken out, for
    /// another attempt; where it cannot be read, the member has failed.
    pub async fn read_met<'a>(
        &self,
        members: &mut Vec<Attempted<'a>>,
        budget: &Budget<'_>,
    ) -> Vec<Attempted<'a>> {
        let met: Vec<(usize, EventId)> = members
            .iter()
            .enumerate()
            .filter(|(_, member)| matches!(member.state, State::Met))
            .map(|(index, member)| (index, member.seated.candidate.event_id.clone()))
            .collect();
        let reads = met
            .chunks(BATCH_GET_KEYS_MAX)
            .map(|some| self.read_items(some, budget))
            .collect();
        let read = bounded(reads, self.config().common.write_concurrency).await;
        for (index, item) in read.into_iter().flatten() {
            members[index].state = match item {
                Some(item) => self.judge(&members[index], item, budget.clock.now()),
                None => State::Open,
            };
        }
        members
            .extract_if(.., |member| matches!(member.state, State::Open))
            .collect()
    }

    /// Reads items by event id; answers the items with what came with their ids, as far as they can be read.
    async fn read_items(
        &self,
        mut wanted: &[(usize, EventId)],
        budget: &Budget<'_>,
    ) -> Vec<(usize, Option<LockItem>)> {
        let mut found = Vec::with_capacity(wanted.len());
        while !wanted.is_empty() {
            let ids: Vec<EventId> = wanted.iter().map(|(_, id)| id.clone()).collect();
            let read = budget
                .call(RetryPolicy::ITEMS, || {
                    self.limited(budget, self.ports().lock_store.read(&ids))
                })
                .await
                .inspect_err(|error| warn!(%error, "items not read"));
            let Ok(items) = read else { break };
            let (read, rest) = wanted.split_at(items.len().min(wanted.len()));
            found.extend(read.iter().map(|(index, _)| *index).zip(items));
            wanted = rest;
        }
        found
    }

    /// Out of time: whether the lost replies were successes can still be read, once.
    async fn settle_unanswered(&self, members: &mut [Attempted<'_>], budget: &Budget<'_>) {
        let mut unanswered: Vec<&mut Attempted<'_>> = members
            .iter_mut()
            .filter(|member| member.unanswered)
            .collect();
        let concurrency = self.config().common.write_concurrency;
        let reads = unanswered
            .chunks_mut(BATCH_GET_KEYS_MAX)
            .map(|members| self.settle_by_reading(members, budget))
            .collect();
        bounded(reads, concurrency).await;
    }

    async fn settle_by_reading(&self, members: &mut [&mut Attempted<'_>], budget: &Budget<'_>) {
        let ids: Vec<EventId> = members
            .iter()
            .map(|member| member.seated.candidate.event_id.clone())
            .collect();
        let late = self.settling(budget);
        let read = self.ports().lock_store.read(&ids);
        let Ok(items) = self.limited(&late, read).await else {
            return;
        };
        let now = budget.clock.now();
        for (member, item) in members.iter_mut().zip(items) {
            if let Some(item) = item
                && let state @ State::Done(..) = self.judge(member, item, now)
            {
                member.state = state;
            }
        }
    }

    fn judge(&self, member: &Attempted<'_>, item: LockItem, now: Timestamp) -> State {
        let Seated {
            candidate, seat, ..
        } = &member.seated;
        let verdict = classify(
            candidate,
            Some(*seat),
            &item,
            &self.config().claim_rules(),
            now,
        );
        state(verdict, Box::new(item))
    }

    /// Carries one candidate on from whatever it met, to an outcome: asks batches, replaces items.
    pub async fn settle_one<'a>(
        &self,
        mut member: Attempted<'a>,
        budget: &Budget<'_>,
        tally: &Tally,
    ) -> Settled {
        for round in 0..REPLACE_ROUNDS_MAX {
            let step = std::mem::replace(&mut member.state, State::Done(Outcome::Failed, None));
            member.state = match step {
                State::Done(..) => {
                    member.state = step;
                    return member.settle();
                }
                State::Open | State::Met => break,
                State::Live(item, meeting) => {
                    self.ask_and_judge(&member, item, meeting, budget).await
                }
                State::Replace(expected, past) => {
                    debug!(event_id = %member.seated.candidate.event_id, round, "replacing a lock item");
                    self.replace(&mut member, &expected, *past, budget, tally)
                        .await
                }
            };
        }
        member.settle()
    }

    async fn ask_and_judge(
        &self,
        member: &Attempted<'_>,
        item: Box<LockItem>,
        meeting: Meeting,
        budget: &Budget<'_>,
    ) -> State {
        let LockState::Live { shard, seq } = item.state else {
            return self.judge(member, *item, budget.clock.now());
        };
        let relied_on = meeting.relies_on_it(self.config().rule).then_some(seq);
        match self
            .fate(shard.batch, relied_on.into_iter().collect(), budget)
            .await
        {
            Some(fate) => self.judge_live(member, item, meeting, &fate, budget.clock.now()),
            None => State::Done(Outcome::Failed, Some(item)),
        }
    }

    /// What a live claim means, its batch's fate being known.
    pub fn judge_live(
        &self,
        member: &Attempted<'_>,
        item: Box<LockItem>,
        meeting: Meeting,
        fate: &BatchFate,
        now: Timestamp,
    ) -> State {
        let candidate = member.seated.candidate;
        let rules = self.config().claim_rules();
        let verdict = settle_live(candidate, &item, meeting, fate, &rules, now);
        state(verdict, item)
    }

    async fn replace(
        &self,
        member: &mut Attempted<'_>,
        expected: &LockItem,
        past: PastDeliveries,
        budget: &Budget<'_>,
        tally: &Tally,
    ) -> State {
        member.has_past = !past.is_empty();
        let claim = member.claim(past);
        let mut attempt = 0;
        while budget.open() {
            let Ok(place) = self.place(budget).await else {
                break;
            };
            let reply = self.ports().lock_store.replace(&claim, expected).await;
            drop(place);
            match reply {
                ClaimReply::Written => return State::Done(Outcome::Claimed, None),
                ClaimReply::Exists(Some(item)) => {
                    return self.judge(member, item, budget.clock.now());
                }
                // The store does not show what refused, or it is gone: for a read to say.
                ClaimReply::Exists(None) => return self.read_one(member, budget).await,
                ClaimReply::Unstorable(_) => return State::Done(Outcome::Unstorable, None),
                ClaimReply::Error(error) if !member.take(&error, tally) => break,
                ClaimReply::Error(_) => {}
            }
            attempt += 1;
            if !budget.pause(RetryPolicy::ITEMS, attempt).await {
                break;
            }
        }
        // Many may come here when the time is over: only those that wrote something read what became of it.
        if !member.unanswered {
            return State::Done(Outcome::Failed, None);
        }
        match self.read_one(member, budget).await {
            state @ State::Done(..) => state,
            State::Open | State::Met | State::Live(..) | State::Replace(..) => {
                State::Done(Outcome::Failed, None)
            }
        }
    }

    /// The time for reads that tell what became of writes: as much longer as one attempt may take.
    fn settling<'b>(&self, budget: &Budget<'b>) -> Budget<'b> {
        budget.later(attempt_timeout(self.config().common.deadline_margin))
    }

    /// What stands in the table now, read once. Gone is failed: the message's redelivery finds the place free. So is what
    /// there is no time to read: many may come here one after the other.
    async fn read_one(&self, member: &Attempted<'_>, budget: &Budget<'_>) -> State {
        let late = self.settling(budget);
        let id = std::slice::from_ref(&member.seated.candidate.event_id);
        match self
            .limited(&late, self.ports().lock_store.read(id))
            .await
            .map(|items| items.into_iter().next())
        {
            Ok(Some(Some(item))) => self.judge(member, item, budget.clock.now()),
            Ok(Some(None) | None) | Err(_) => State::Done(Outcome::Failed, None),
        }
    }
}

fn state(verdict: Verdict, item: Box<LockItem>) -> State {
    match verdict {
        Verdict::Done(outcome) => State::Done(outcome, Some(item)),
        Verdict::Live(meeting) => State::Live(item, meeting),
        Verdict::Replace { past } => State::Replace(item, Box::new(past)),
    }
}
