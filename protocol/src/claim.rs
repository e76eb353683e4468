//! Classifies a claim attempt that finds a lock item: the tables of docs/protocol.md, "What a claim meets", as pure
//! functions.
//!
//! Two of the rules are there because a crash could lose or repeat an event without them:
//!
//! * **A claim is worth nothing once its batch is complete.** A claim that becomes visible after its batch completed
//!   would never be processed. So an attempt that finds a claim first reads the record of the claim's batch, and classifies
//!   by the [`SeatResolution`]. While the batch is alive, the claim stands. If the batch ended without delivering the seat,
//!   the claim is an orphan and is replaced. If the batch delivered the seat, the claim is classified as the tombstone that
//!   its release makes, or would have made.
//! * **`requeue` replaces tombstones, which hold the ids of delivered messages.** The replacing claim carries the past
//!   deliveries that are still within the dedup window, so that a redelivery of an older message is recognised.

use std::time::Duration;

use crate::ids::{Seat, SqsMessageId};
use crate::planted::planted;
use crate::time::Timestamp;

mod candidate;
mod lock_item;
mod resolution;

pub use candidate::{Candidate, Claim, Overflow, PastDeliveries};
pub use lock_item::{LockItem, LockState};
pub use resolution::{SeatResolution, listed_seat_resolution, seat_resolution};

/// The treatment of a message whose event id is claimed already, or was delivered within the dedup window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateRule {
    /// Acknowledge the message without delivering it.
    Drop,
    /// Leave the message in the queue, so that its event is delivered after the first one.
    Requeue,
}

/// The configuration by which an existing lock item is classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRules {
    /// `ON_DUPLICATE`.
    pub on_duplicate: DuplicateRule,
    /// `DEDUP_WINDOW`.
    pub dedup_window: Duration,
    pub past_deliveries_max: usize,
}

/// How a live claim relates to the candidate that found it.
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
    /// Returns the outcome while the batch of the claim is alive.
    pub fn outcome(self) -> Outcome {
        match self {
            ExistingClaim::Redelivered => Outcome::Redelivered,
            ExistingClaim::Duplicate => Outcome::Duplicate,
            ExistingClaim::Conflict => Outcome::Conflict,
        }
    }

    /// Returns whether the candidate is acknowledged because this claim exists. Then the claim's batch must know the
    /// claim before the acknowledgement.
    pub fn relies_on_it(self, rule: DuplicateRule) -> bool {
        match (self, rule) {
            (ExistingClaim::Redelivered, _) => true,
            // A repeat of a conflict may be a duplicate of the same claim.
            (ExistingClaim::Duplicate | ExistingClaim::Conflict, DuplicateRule::Drop) => true,
            (ExistingClaim::Duplicate | ExistingClaim::Conflict, DuplicateRule::Requeue) => false,
        }
    }
}

/// The result of a claim attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Claimed,
    /// SQS delivered the same message again, and its event is claimed or was delivered.
    Redelivered,
    /// SQS delivered the same message again, after the dedup window of its event, after it was set aside, or after another
    /// message claimed the event. It is acknowledged, but it is no reason to drop another message of the event.
    RedeliveredLate,
    /// Another message carries the same event with the same content (with `requeue`, with any content).
    Duplicate,
    /// Another message carries the same event id with other content.
    Conflict,
    /// The table refused the item permanently, because it is too large.
    Unstorable,
    /// The attempt was throttled until its time was over, or its result is unknown.
    Failed,
}

/// The aggregator's response to SQS for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// SQS deletes the message.
    Success,
    /// SQS delivers the message again.
    Failure,
    /// The aggregator sends the message to the quarantine, then returns success, or failure if that was impossible.
    Quarantine,
}

impl Outcome {
    /// Returns the response for a message with this outcome.
    pub fn response(self, rule: DuplicateRule) -> Response {
        match (self, rule) {
            (Outcome::Claimed | Outcome::Redelivered | Outcome::RedeliveredLate, _) => {
                Response::Success
            }
            (Outcome::Duplicate, DuplicateRule::Drop) => Response::Success,
            (Outcome::Duplicate | Outcome::Conflict, DuplicateRule::Requeue) => Response::Failure,
            (Outcome::Conflict, DuplicateRule::Drop) | (Outcome::Unstorable, _) => {
                Response::Quarantine
            }
            (Outcome::Failed, _) if planted("failed-acknowledged") => Response::Success,
            (Outcome::Failed, _) => Response::Failure,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The outcome is known.
    Done(Outcome),
    /// The outcome depends on the resolution of the claim's seat. Read the record of its batch, then call [`decide_live`].
    Live(ExistingClaim),
    /// The candidate may replace the item, on condition that the item is still exactly what was read.
    Replace {
        /// The past deliveries that the new claim must carry.
        past: PastDeliveries,
    },
}

/// Classifies the item that refused a conditional write. `own` is the seat with which the write tried to claim.
pub fn classify(
    candidate: &Candidate,
    own: Option<Seat>,
    item: &LockItem,
    rules: &ClaimRules,
    now: Timestamp,
) -> Decision {
    let same_message = item.sqs_message_id == candidate.sqs_message_id;
    let is_own = |seat: Seat| same_message && item.state.is_claim_of(seat);
    match item.state {
        LockState::Live { .. } => {
            if own.is_some_and(is_own) {
                return Decision::Done(Outcome::Claimed);
            }
            if remembers(&item.past, &candidate.sqs_message_id, now) {
                return Decision::Done(Outcome::RedeliveredLate);
            }
            Decision::Live(existing(candidate, item))
        }
        LockState::Tombstone { expires_at } => {
            let is_remembered = remembers(&item.past, &candidate.sqs_message_id, now);
            if is_remembered || (item.set_aside && same_message) {
                return Decision::Done(Outcome::RedeliveredLate);
            }
            if item.set_aside {
                // The tombstone lasts longer than its message must be remembered.
                let until = expires_at.min(now + rules.dedup_window);
                return after_set_aside(item, until, rules, now);
            }
            if same_message {
                return Decision::Done(redelivered(expires_at, now));
            }
            against_tombstone(candidate, item, expires_at, rules, now)
        }
    }
}

/// Classifies an existing claim once the resolution of its seat is known.
pub fn decide_live(
    candidate: &Candidate,
    item: &LockItem,
    existing: ExistingClaim,
    resolution: SeatResolution,
    rules: &ClaimRules,
    now: Timestamp,
) -> Decision {
    let same_message = existing == ExistingClaim::Redelivered;
    match resolution {
        SeatResolution::Alive => Decision::Done(existing.outcome()),
        // The claim is classified as the tombstone that a release makes, or would have made.
        SeatResolution::Delivered { until } if same_message => {
            Decision::Done(redelivered(until, now))
        }
        SeatResolution::Delivered { until } => {
            against_tombstone(candidate, item, until, rules, now)
        }
        // The event is in the quarantine or in a reject list. Its message is done, and another message may claim the event.
        SeatResolution::SetAside { .. } if same_message => Decision::Done(Outcome::RedeliveredLate),
        SeatResolution::SetAside { until } => after_set_aside(item, until, rules, now),
        // The claim was not delivered and never will be, so any candidate may replace it.
        SeatResolution::Orphan | SeatResolution::Expired => Decision::Replace {
            past: still_remembered(&item.past, now),
        },
        SeatResolution::Unknown => Decision::Done(Outcome::Failed),
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
) -> Decision {
    let mut past = still_remembered(&item.past, now);
    if expires_at <= now && !planted("expired-tombstone-believed") {
        return Decision::Replace { past };
    }
    match rules.on_duplicate {
        DuplicateRule::Drop if item.body_hash == candidate.body_hash => {
            Decision::Done(Outcome::Duplicate)
        }
        DuplicateRule::Drop => Decision::Done(Outcome::Conflict),
        // The candidate waits until an older delivery is past its window. No delivery is forgotten earlier to make
        // room.
        DuplicateRule::Requeue if past.len() >= rules.past_deliveries_max => {
            Decision::Done(Outcome::Duplicate)
        }
        DuplicateRule::Requeue => {
            past.insert(item.sqs_message_id.clone(), expires_at);
            Decision::Replace { past }
        }
    }
}

/// Classifies another message of an event that was set aside or rejected. It may claim the event, whatever its content.
/// The message that was set aside or rejected may not, so the new claim remembers it as a past delivery until `expires_at`.
fn after_set_aside(
    item: &LockItem,
    expires_at: Timestamp,
    rules: &ClaimRules,
    now: Timestamp,
) -> Decision {
    let mut past = still_remembered(&item.past, now);
    if expires_at <= now {
        return Decision::Replace { past };
    }
    if past.len() >= rules.past_deliveries_max {
        // SQS delivers the message again, and it claims the event once an older delivery is past its window.
        return Decision::Done(Outcome::Failed);
    }
    past.insert(item.sqs_message_id.clone(), expires_at);
    Decision::Replace { past }
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

/// Returns the outcome of a later message (the repeat) with the same event id and in the same invocation as `first`,
/// once the outcome of `first` is known.
///
/// `winner` is the item that holds the event: the claim of `first`, or the item that it found.
pub fn classify_repeat(
    repeat: &Candidate,
    first: &Candidate,
    first_outcome: Outcome,
    winner: Option<&LockItem>,
) -> Outcome {
    if first_outcome == Outcome::Failed {
        // The first may or may not claim the event later, so acknowledging the repeat would not be safe.
        return Outcome::Failed;
    }
    if repeat.sqs_message_id == first.sqs_message_id {
        return first_outcome;
    }
    if first_outcome == Outcome::RedeliveredLate {
        // The event of the first message is past its window: the repeat may claim the event at its next delivery.
        return Outcome::Failed;
    }
    let (message, hash) = match (first_outcome, winner) {
        // The repeat itself holds the event. Its next delivery finds its own item and is classified by that.
        (_, Some(item)) if item.sqs_message_id == repeat.sqs_message_id => {
            return Outcome::Failed;
        }
        (Outcome::Claimed | Outcome::Redelivered, _) | (_, None) => {
            (&first.sqs_message_id, first.body_hash)
        }
        (_, Some(item)) => (&item.sqs_message_id, item.body_hash),
    };
    debug_assert_ne!(*message, repeat.sqs_message_id);
    if first_outcome == Outcome::Unstorable {
        // The first does not hold the event; a smaller repeat may claim it at its next delivery.
        return Outcome::Failed;
    }
    if hash == repeat.body_hash {
        Outcome::Duplicate
    } else {
        Outcome::Conflict
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod props;
