//! The checks of numbers of parts.

use protocol::invariants::{Check, hold};
use protocol::sequence::{PartId, SequenceScope};

/// INV-31: the parts that a sink has of a source and a batch key are numbered 1, 2, 3 and so on, in the order in which it got
/// them. `before` is the number of the last part before this one.
pub fn inv31_numbers_have_no_gaps(
    key: &str,
    scope: &SequenceScope,
    before: u64,
    number: u64,
) -> Check {
    hold("INV-31 numbers_have_no_gaps", number == before + 1, || {
        format!("part {key} of {scope:?} has number {number}, the one before {before}")
    })
}

/// INV-31: a part has the same number at every attempt.
pub fn inv31_a_part_keeps_its_number(key: &str, first: Option<u64>, again: Option<u64>) -> Check {
    hold("INV-31 a_part_keeps_its_number", first == again, || {
        format!("part {key} had number {first:?}, now it has {again:?}")
    })
}

/// INV-32: a batch is complete only after it gave its last number up. While its record lasts, it can tell whether the number was used.
pub fn inv32_a_complete_batch_holds_no_number(held: Option<PartId>) -> Check {
    hold(
        "INV-32 a_complete_batch_holds_no_number",
        held.is_none(),
        || format!("complete, and {held:?} holds the last number"),
    )
}
