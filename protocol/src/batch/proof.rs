//! Conclusions from a batch's record: whether claims are missing, and whether the batch is complete.

use std::time::Duration;

use super::part::PartState;
use super::record::BatchRecord;
use crate::ids::Seq;
use crate::planted::planted;
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// Claims that must exist and that the index does not show yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    pub confirmed: u64,
    /// Counted claims that are found.
    pub found: u64,
    /// Witnessed claims that are not found.
    pub witnessed_missing: u64,
}

/// Returns the claims that must exist and are neither in a part nor in `new`; `None` when nothing is missing.
pub fn lag(record: &BatchRecord, new: &SeqSet) -> Option<Lag> {
    let mut known = record.members();
    known.extend_from(new);
    let found = known.intersection_len(record.counted());
    let witnessed_missing = record.witnessed.difference_len(&known);
    (found < record.confirmed || witnessed_missing > 0).then_some(Lag {
        confirmed: record.confirmed,
        found,
        witnessed_missing,
    })
}

/// Returns whether no claim of the batch can be left: its counts are final, no seat is uncertain, every counted claim is
/// in a delivered part, and this run saw the release of every member acknowledged.
///
/// The record of a batch of the log alone proves it: nothing is released. Such a batch must be resolved and reported.
pub fn proven(record: &BatchRecord, released: &SeqSet) -> bool {
    if record.bodies.is_log() {
        return record.is_reported()
            && record.frozen_part().is_none()
            && record.undelivered().is_empty();
    }
    record.has_final_counts()
        && record.uncertain == 0
        && record.frozen_part().is_none()
        && lag(record, &SeqSet::new()).is_none()
        && record.members().is_subset(released)
}

/// Returns whether the record knows of no event that is still to be delivered, and the last look found no others. Such a batch may
/// end although deliveries are kept from the sink. If another look finds an event all the same, that event must wait.
pub fn nothing_to_deliver(record: &BatchRecord) -> bool {
    let was_looked_at = record.has_final_counts() || record.verify_at.is_some();
    record.frozen_part().is_none()
        && lag(record, &SeqSet::new()).is_none()
        && record.is_reported()
        && (record.bodies.is_log() || was_looked_at)
}

/// How an entry of the index relates to its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The seq is in a delivered part or set aside. Its release is still due, and it is never delivered again.
    Leftover,
    /// The seq is in the frozen part.
    Frozen,
    /// The seq is in no part.
    New,
}

/// Returns the role of a live claim of this batch.
pub fn role(record: &BatchRecord, seq: Seq) -> Role {
    let ended = || record.delivered.contains(seq) || record.set_aside.contains(seq);
    match record.parts.iter().find(|part| part.members.contains(seq)) {
        Some(part) if part.state == PartState::Frozen => Role::Frozen,
        Some(_) => Role::Leftover,
        None if ended() => Role::Leftover,
        None => Role::New,
    }
}

/// The next step after a look at a leased batch that found nothing new and nothing missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyIndex {
    /// Complete the batch: it is proven, or this was the second look, late enough after the first.
    Complete,
    /// Look again at this time, and send a ticket for it. An earlier ticket may have been lost, or may be the present
    /// one, delivered too early.
    VerifyAt(Timestamp),
}

/// Returns what to do after an empty look at `now`.
pub fn empty_index(
    record: &BatchRecord,
    released: &SeqSet,
    now: Timestamp,
    verify_delay: Duration,
) -> EmptyIndex {
    if proven(record, released) || planted("completion-without-verify") {
        return EmptyIndex::Complete;
    }
    match record.verify_at {
        None => EmptyIndex::VerifyAt(now + verify_delay),
        Some(at) if at <= now => EmptyIndex::Complete,
        Some(at) => EmptyIndex::VerifyAt(at),
    }
}
