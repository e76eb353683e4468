//! The invariants of a batch's reservations.

use super::check::{Check, hold};
use crate::batch::{BatchRecord, BatchWrite, Reservations, Resolution, Status};
use crate::seqs::SeqSet;

/// Checks INV-34 and INV-35 of a step.
pub(super) fn step_is_sound(
    before: &BatchRecord,
    write: &BatchWrite,
    after: &BatchRecord,
) -> Check {
    let (Some(was), Some(is)) = (&before.reservations, &after.reservations) else {
        let is_none = before.reservations.is_none() && after.reservations.is_none();
        return hold("INV-34 slots_are_final_once_closed", is_none, || {
            format!("batch {} got reservations, or lost them", before.batch_id)
        });
    };
    slots_are_final_once_closed(before, was, is)?;
    decisions_never_change(before, write, after, (was, is))
}

/// INV-34: seats and slots are reserved one slot after the other while the batch is open, and are final afterwards.
fn slots_are_final_once_closed(
    before: &BatchRecord,
    was: &Reservations,
    is: &Reservations,
) -> Check {
    let reserved = |one: &Reservations| (one.slots, one.reserved, one.reserved_bytes);
    let is_next = is.slots == was.slots + 1
        && was.reserved < is.reserved
        && was.reserved_bytes <= is.reserved_bytes;
    let is_reserved = before.status == Some(Status::Open) && is_next;
    let is_sound = reserved(was) == reserved(is) || is_reserved;
    hold("INV-34 slots_are_final_once_closed", is_sound, || {
        format!("batch {}: {was:?} became {is:?}", before.batch_id)
    })
}

/// INV-35: claims are counted, and lines decided, once, after the batch was closed and before anything of it is frozen, and only seqs that
/// were reserved.
fn decisions_never_change(
    before: &BatchRecord,
    write: &BatchWrite,
    after: &BatchRecord,
    (was, is): (&Reservations, &Reservations),
) -> Check {
    let decided = |one: &Reservations| {
        let resolution = one.resolution.as_ref();
        resolution.map(|one: &Resolution| {
            [&one.duplicates, &one.conflicts, &one.beyond_quota].map(SeqSet::clone)
        })
    };
    let counts =
        |record: &BatchRecord| (record.confirmed, record.uncertain, record.settled.clone());
    let (first, then) = (decided(was), decided(is));
    let is_same =
        first == then && before.claimed == after.claimed && counts(before) == counts(after);
    let is_decision = matches!(write, BatchWrite::Resolve { .. } | BatchWrite::Count { .. })
        && first.is_none()
        && before.status == Some(Status::Processing)
        && before.parts.is_empty();
    let has_decisions = then.is_some() || after.members().is_empty();
    let mut seqs = after.claimed.union(&after.settled);
    let mut is_disjoint = true;
    for losers in then.iter().flatten() {
        is_disjoint &= seqs.is_disjoint(losers);
        seqs.extend_from(losers);
    }
    let last = seqs.iter().max();
    let are_reserved = last.is_none_or(|last| u64::from(last) < is.reserved);
    let is_sound = (is_same || is_decision) && has_decisions && is_disjoint && are_reserved;
    hold("INV-35 decisions_never_change", is_sound, || {
        let batch = before.batch_id;
        format!("batch {batch}: {was:?} became {is:?} by {write:?}")
    })
}
