//! What a batch's record proves: what is missing, and whether nothing can be left of the batch.

use std::time::Duration;

use super::record::{BatchRecord, PartState};
use crate::ids::Seq;
use crate::planted::{Bug, planted};
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// What the index has not shown yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// Claims that were counted.
    pub confirmed: u64,
    /// How many of those are found.
    pub found: u64,
    /// Witnessed claims that are not found.
    pub witnessed_missing: u64,
}

/// What is known to exist and is neither in a part nor among `new`; `None` when nothing is missing.
pub fn lag(record: &BatchRecord, new: &SeqSet) -> Option<Lag> {
    let mut known = record.members();
    known.extend_from(new);
    let found = match planted(Bug::CountsAlone) {
        true => known.len(),
        false => known.intersection_len(&record.settled),
    };
    let witnessed_missing = record.witnessed.difference_len(&known);
    if planted(Bug::SealedDeliveredShort) && record.sealed_at.is_some() {
        return None;
    }
    (found < record.confirmed || witnessed_missing > 0).then_some(Lag {
        confirmed: record.confirmed,
        found,
        witnessed_missing,
    })
}

/// Whether nothing can be left of a batch: sealed, nothing uncertain, everything counted is in a delivered part,
/// and this run saw every release acknowledged.
pub fn proven(record: &BatchRecord, released: &SeqSet) -> bool {
    record.sealed_at.is_some()
        && record.uncertain == 0
        && record.frozen_part().is_none()
        && lag(record, &SeqSet::new()).is_none()
        && record.members().is_subset(released)
}

/// What a collected seq is to its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Member of a part that has ended, or set aside: its release is still due, and it is never delivered again.
    Leftover,
    /// Member of the part that is frozen and not yet delivered.
    Frozen,
    /// Not in any part.
    New,
}

/// Judges a live claim of this batch.
pub fn role(record: &BatchRecord, seq: Seq) -> Role {
    let ended = || record.delivered.contains(seq) || record.set_aside.contains(seq);
    match record.parts.iter().find(|part| part.members.contains(seq)) {
        Some(part) if part.state == PartState::Frozen => Role::Frozen,
        Some(_) if planted(Bug::LeftoversDeliveredAgain) => Role::New,
        Some(_) => Role::Leftover,
        None if ended() => Role::Leftover,
        None => Role::New,
    }
}

/// What to do when a look at a leased batch found nothing new and nothing missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyIndex {
    /// Proven, or looked for twice with enough time between: call it complete.
    Complete,
    /// Look again then, and send a ticket for it: one that was sent before may have been lost, or be this one, early.
    VerifyAt(Timestamp),
}

/// Judges an empty look at `now`.
pub fn empty_index(
    record: &BatchRecord,
    released: &SeqSet,
    now: Timestamp,
    verify_delay: Duration,
) -> EmptyIndex {
    if proven(record, released) || planted(Bug::CompletionWithoutVerify) {
        return EmptyIndex::Complete;
    }
    match record.verify_at {
        None => EmptyIndex::VerifyAt(now + verify_delay),
        Some(at) if at <= now => EmptyIndex::Complete,
        Some(at) => EmptyIndex::VerifyAt(at),
    }
}
