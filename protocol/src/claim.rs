//! What a claim that meets a lock item means: the tables of docs/protocol.md, "What a claim meets", as pure functions.
//!
//! Two of its rows are there because without them a crash could lose or repeat an event:
//!
//! * **A live claim is only as good as its batch.** A claim that surfaces in the index after its batch completed
//!   would never be processed. So whoever meets a live claim asks for its batch's [`BatchFate`] first: alive, the
//!   claim stands; ended without delivering this seat, it is an orphan and is replaced; ended after delivering it,
//!   it is the leftover of a release and counts as the tombstone it should have become.
//! * **`requeue` replaces tombstones, and with them the memory of who was delivered.** The replacing claim carries
//!   the past deliveries that are still inside the dedup window, so that a redelivery of an older message is known.

use std::time::Duration;

use crate::batch::BatchRecord;
use crate::ids::{BodyHash, Seat, Seq, SqsMessageId};
use crate::planted::{Bug, planted};
use crate::seqs::SeqSet;
use crate::time::Timestamp;

mod candidate;

pub use candidate::{Candidate, Claim, Overflow, PastDeliveries};

/// What to do with a message whose event id is already claimed or was delivered within the dedup window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateRule {
    /// It is dropped.
    Drop,
    /// It waits in the queue and is processed after the first.
    Requeue,
}

/// How what a claim meets is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRules {
    /// What happens to a duplicate.
    pub on_duplicate: DuplicateRule,
    /// How long a delivered event is remembered.
    pub dedup_window: Duration,
    /// Past deliveries that one lock item remembers.
    pub past_deliveries_max: usize,
}

/// One item of the lock table, without the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockItem {
    /// The message that made the claim.
    pub sqs_message_id: SqsMessageId,
    /// Content hash of its body.
    pub body_hash: BodyHash,
    /// Earlier deliveries of the event.
    pub past: PastDeliveries,
    /// Live, or a tombstone.
    pub state: LockState,
    /// Whether it is the tombstone of an event that an operator set aside: nothing was delivered.
    pub set_aside: bool,
}

impl LockItem {
    /// Whether the item is still in the state `expected` was read in: the condition of a replacement.
    pub fn is_same_state(&self, expected: &LockItem) -> bool {
        self.sqs_message_id == expected.sqs_message_id && self.state == expected.state
    }

    /// The end of a tombstone's window, `None` for a live claim.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match self.state {
            LockState::Live { .. } if planted(Bug::TtlOnLiveClaim) => Some(Timestamp::EPOCH),
            LockState::Live { .. } => None,
            LockState::Tombstone { expires_at } => Some(expires_at),
        }
    }
}

/// What a lock item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// A claim not yet released.
    Live {
        /// The batch of the claim.
        shard: crate::ids::BatchShard,
        /// Position in the batch.
        seq: Seq,
    },
    /// Delivered and released; remembered until `expires_at`.
    Tombstone {
        /// End of the dedup window.
        expires_at: Timestamp,
    },
}

/// How a live claim relates to the candidate that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExistingClaim {
    /// The same message: SQS delivered it again.
    Redelivered,
    /// Another message with the same content.
    Duplicate,
    /// Another message with other content.
    Conflict,
}

impl ExistingClaim {
    /// What it comes to while the claim's batch is alive.
    pub fn outcome(self) -> Outcome {
        match self {
            ExistingClaim::Redelivered => Outcome::Redelivered,
            ExistingClaim::Duplicate => Outcome::Duplicate,
            ExistingClaim::Conflict => Outcome::Conflict,
        }
    }

    /// Whether a message is acknowledged because this claim exists: then its batch must know of it first.
    pub fn relies_on_it(self, rule: DuplicateRule) -> bool {
        match (self, rule) {
            (ExistingClaim::Redelivered, _) | (ExistingClaim::Duplicate, DuplicateRule::Drop) => {
                true
            }
            (ExistingClaim::Duplicate, DuplicateRule::Requeue) | (ExistingClaim::Conflict, _) => {
                false
            }
        }
    }
}

/// What became of the batch a live claim names.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchFate {
    /// It is not complete: it will process the claim, or has done so and is about to release it.
    Alive,
    /// It is complete.
    Ended {
        /// The seats it delivered.
        delivered: SeqSet,
        /// The seats whose events an operator sent to the quarantine.
        set_aside: SeqSet,
        /// When it completed.
        completed_at: Timestamp,
    },
    /// There is no record of it; records outlive every dedup window.
    Unknown,
}

impl From<Option<&BatchRecord>> for BatchFate {
    fn from(record: Option<&BatchRecord>) -> BatchFate {
        match record {
            None => BatchFate::Unknown,
            Some(record) if record.status.is_some() => BatchFate::Alive,
            Some(_) if planted(Bug::OrphanTakenForAlive) => BatchFate::Alive,
            Some(record) => BatchFate::Ended {
                delivered: record.members(),
                set_aside: record.set_aside.clone(),
                completed_at: record
                    .completed_at
                    .filter(|_| !planted(Bug::LeftoversWindowFromOpening))
                    .unwrap_or(record.created_at),
            },
        }
    }
}

/// What a candidate's attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// This message now holds the claim.
    Claimed,
    /// SQS delivered the same message again; its event is claimed or was delivered.
    Redelivered,
    /// The same message once more, after its event was forgotten: harmless itself, but no reason to drop another.
    RedeliveredLate,
    /// Another message carries the same event with the same content (or any content, under `requeue`).
    Duplicate,
    /// Another message carries the same event id with other content.
    Conflict,
    /// The table refused the item for good (too large for it).
    Unstorable,
    /// Throttled, unknown or out of time.
    Failed,
}

/// What the aggregator answers for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// SQS may delete it.
    Success,
    /// SQS shall deliver it again.
    Failure,
    /// To the quarantine, then success; failure where that is impossible.
    Quarantine,
}

impl Outcome {
    /// What to answer for a message with this outcome.
    pub fn response(self, rule: DuplicateRule) -> Response {
        match (self, rule) {
            (Outcome::Claimed | Outcome::Redelivered | Outcome::RedeliveredLate, _) => {
                Response::Success
            }
            (Outcome::Duplicate, DuplicateRule::Drop) => Response::Success,
            (Outcome::Duplicate | Outcome::Conflict, DuplicateRule::Requeue) => Response::Failure,
            (Outcome::Unstorable, _) if planted(Bug::BadMessageDropped) => Response::Success,
            (Outcome::Conflict, DuplicateRule::Drop) | (Outcome::Unstorable, _) => {
                Response::Quarantine
            }
            (Outcome::Failed, _) if planted(Bug::FailedAcknowledged) => Response::Success,
            (Outcome::Failed, _) => Response::Failure,
        }
    }
}

/// What the item in the table means for a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Settled.
    Done(Outcome),
    /// Depends on the fate of the batch that the live claim names; ask, then call [`settle_live`].
    Live(ExistingClaim),
    /// The item may be replaced, on condition that it is still exactly what was read.
    Replace {
        /// The past deliveries the new claim must carry.
        past: PastDeliveries,
    },
}

/// Judges the item a conditional write met. `own` is the seat the write tried to claim.
pub fn classify(
    candidate: &Candidate,
    own: Option<Seat>,
    item: &LockItem,
    rules: &ClaimRules,
    now: Timestamp,
) -> Verdict {
    let same_message = item.sqs_message_id == candidate.sqs_message_id
        && !(planted(Bug::RedeliveryTakenForDuplicate)
            && rules.on_duplicate == DuplicateRule::Requeue);
    match item.state {
        LockState::Live { shard, seq } => {
            let here = |seat: Seat| seat.shard() == shard && seat.seq == seq;
            if same_message && own.is_some_and(here) {
                return Verdict::Done(Outcome::Claimed);
            }
            if remembers(&item.past, &candidate.sqs_message_id, now) {
                return Verdict::Done(Outcome::Redelivered);
            }
            Verdict::Live(existing(candidate, item))
        }
        LockState::Tombstone { expires_at } => {
            if remembers(&item.past, &candidate.sqs_message_id, now) {
                return Verdict::Done(Outcome::Redelivered);
            }
            if item.set_aside {
                return match same_message {
                    true => Verdict::Done(Outcome::RedeliveredLate),
                    false => after_set_aside(item, expires_at, rules, now),
                };
            }
            if same_message {
                return Verdict::Done(redelivered(expires_at, now));
            }
            against_tombstone(candidate, item, expires_at, rules, now)
        }
    }
}

/// Judges a live claim once the fate of its batch is known.
pub fn settle_live(
    candidate: &Candidate,
    item: &LockItem,
    existing: ExistingClaim,
    fate: &BatchFate,
    rules: &ClaimRules,
    now: Timestamp,
) -> Verdict {
    let LockState::Live { seq, .. } = item.state else {
        return classify(candidate, None, item, rules, now);
    };
    match fate {
        BatchFate::Alive => Verdict::Done(existing.outcome()),
        // Its event is in the quarantine, which ends the message; another message may claim the event.
        BatchFate::Ended {
            set_aside,
            completed_at,
            ..
        } if set_aside.contains(seq) => match existing {
            ExistingClaim::Redelivered => Verdict::Done(Outcome::RedeliveredLate),
            ExistingClaim::Duplicate | ExistingClaim::Conflict => {
                after_set_aside(item, *completed_at + rules.dedup_window, rules, now)
            }
        },
        BatchFate::Ended {
            delivered,
            completed_at,
            ..
        } if delivered.contains(seq) => {
            // Its release never reached the table: it counts as the tombstone it should have become.
            let expires_at = *completed_at + rules.dedup_window;
            if existing == ExistingClaim::Redelivered {
                return Verdict::Done(redelivered(expires_at, now));
            }
            against_tombstone(candidate, item, expires_at, rules, now)
        }
        // Never delivered, and nobody is going to: the claim is free for whoever comes.
        BatchFate::Unknown if planted(Bug::UnknownFateTakenForAlive) => {
            Verdict::Done(existing.outcome())
        }
        BatchFate::Ended { .. } | BatchFate::Unknown if planted(Bug::OrphansPastDropped) => {
            Verdict::Replace {
                past: PastDeliveries::new(),
            }
        }
        BatchFate::Ended { .. } | BatchFate::Unknown => Verdict::Replace {
            past: still_remembered(&item.past, now),
        },
    }
}

fn existing(candidate: &Candidate, item: &LockItem) -> ExistingClaim {
    if item.sqs_message_id == candidate.sqs_message_id {
        ExistingClaim::Redelivered
    } else if item.body_hash == candidate.body_hash {
        ExistingClaim::Duplicate
    } else {
        ExistingClaim::Conflict
    }
}

fn redelivered(expires_at: Timestamp, now: Timestamp) -> Outcome {
    if expires_at <= now {
        Outcome::RedeliveredLate
    } else {
        Outcome::Redelivered
    }
}

fn against_tombstone(
    candidate: &Candidate,
    item: &LockItem,
    expires_at: Timestamp,
    rules: &ClaimRules,
    now: Timestamp,
) -> Verdict {
    let mut past = still_remembered(&item.past, now);
    if planted(Bug::PastForgotten) {
        past.clear();
    }
    if expires_at <= now && !planted(Bug::ExpiredTombstoneBelieved) {
        return Verdict::Replace { past };
    }
    match rules.on_duplicate {
        DuplicateRule::Drop if item.body_hash == candidate.body_hash => {
            Verdict::Done(Outcome::Duplicate)
        }
        DuplicateRule::Drop => Verdict::Done(Outcome::Conflict),
        // It waits until an older delivery is forgotten: the memory of the others must not be cut short for it.
        DuplicateRule::Requeue if past.len() >= rules.past_deliveries_max => {
            if planted(Bug::OldestPastDropped) {
                let oldest = past.iter().min_by_key(|(_, until)| **until);
                let oldest = oldest.map(|(id, _)| id.clone());
                past.retain(|id, _| Some(id) != oldest.as_ref());
                past.insert(item.sqs_message_id.clone(), expires_at);
                return Verdict::Replace { past };
            }
            Verdict::Done(Outcome::Duplicate)
        }
        DuplicateRule::Requeue => {
            if !planted(Bug::PastForgotten) {
                past.insert(item.sqs_message_id.clone(), expires_at);
            }
            Verdict::Replace { past }
        }
    }
}

/// Judges another message that meets an event which an operator set aside: it may claim the event. The message that was
/// set aside may not, so it is remembered like one that was delivered.
fn after_set_aside(
    item: &LockItem,
    expires_at: Timestamp,
    rules: &ClaimRules,
    now: Timestamp,
) -> Verdict {
    let mut past = still_remembered(&item.past, now);
    if expires_at <= now || planted(Bug::SetAsideMessageForgotten) {
        return Verdict::Replace { past };
    }
    if past.len() >= rules.past_deliveries_max {
        // It comes back, and claims the event once an older delivery is forgotten.
        return Verdict::Done(Outcome::Failed);
    }
    past.insert(item.sqs_message_id.clone(), expires_at);
    Verdict::Replace { past }
}

fn remembers(past: &PastDeliveries, message: &SqsMessageId, now: Timestamp) -> bool {
    past.get(message).is_some_and(|until| *until > now)
}

fn still_remembered(past: &PastDeliveries, now: Timestamp) -> PastDeliveries {
    past.iter()
        .filter(|(_, until)| **until > now)
        .map(|(id, until)| (id.clone(), *until))
        .collect()
}

/// What a later message of the same invocation is to the first one of its event id, once that one is settled.
///
/// `winner` is the item that holds the event: the leader's own claim, or the item it met.
pub fn classify_follower(
    follower: &Candidate,
    leader: &Candidate,
    leader_outcome: Outcome,
    winner: Option<&LockItem>,
) -> Outcome {
    if leader_outcome == Outcome::Failed {
        // The leader may come back with either result; nothing is known that would make acknowledging safe.
        return Outcome::Failed;
    }
    if follower.sqs_message_id == leader.sqs_message_id {
        return leader_outcome;
    }
    if leader_outcome == Outcome::RedeliveredLate {
        // What the leader repeats is forgotten: the follower may claim the event for itself next time.
        return Outcome::Failed;
    }
    let (message, hash) = match (leader_outcome, winner) {
        // The message that holds the event is judged by its own delivery, which will find itself in the table.
        (_, Some(item)) if item.sqs_message_id == follower.sqs_message_id => {
            return Outcome::Failed;
        }
        (Outcome::Claimed | Outcome::Redelivered, _) | (_, None) => {
            (&leader.sqs_message_id, leader.body_hash)
        }
        (_, Some(item)) => (&item.sqs_message_id, item.body_hash),
    };
    debug_assert_ne!(*message, follower.sqs_message_id);
    if leader_outcome == Outcome::Unstorable {
        // The first one does not hold the event; a smaller one may still claim it next time.
        return Outcome::Failed;
    }
    if hash == follower.body_hash {
        Outcome::Duplicate
    } else {
        Outcome::Conflict
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod props;
