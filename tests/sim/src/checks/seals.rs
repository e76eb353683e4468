//! The checks of when batches are sealed.

use protocol::batch::BatchRecord;
use protocol::ids::BatchId;
use protocol::invariants::{Check, hold};
use protocol::time::Timestamp;

/// P10 calendar: a batch is sealed before its window ends, and so before the end of its period, only for a reason.
pub fn p10_a_batch_is_sealed_for_a_reason(
    before: &BatchRecord,
    now: Timestamp,
    has_reason: bool,
) -> Check {
    hold("P10 a_batch_is_sealed_for_a_reason", has_reason, || {
        format!("sealed at {now}: {before:?}")
    })
}

/// P6 prompt, without faults: once an urgent event is claimed, its batch takes no more events.
pub fn p6_an_urgent_batch_is_sealed(open: Option<BatchId>) -> Check {
    hold("P6 an_urgent_batch_is_sealed", open.is_none(), || {
        format!("{open:?} has an urgent event, and is open")
    })
}
