//! The checks of what deliveries cost.

use protocol::ids::BatchId;
use protocol::invariants::{Check, hold};

/// The pauses, the last number, the record of its holder, and the turns.
const LOOK_READS_MAX: u64 = 4;
/// The last number and the record of its holder again, if another part took the number since.
const NUMBER_READS_MAX: u64 = 2;

/// P13 cost, without faults: the bodies of a batch are read about as often as it has events.
pub fn p13_bodies_are_read_about_once(batch: BatchId, read: u64, read_max: u64) -> Check {
    hold("P13 bodies_are_read_about_once", read <= read_max, || {
        format!("batch {batch}: {read} bodies or pieces read, expected at most {read_max}")
    })
}

/// P13 cost, without faults: to find that a batch must wait, the pauses, the last number, its holder and the turns are read.
pub fn p13_a_look_reads_four_items(batch: BatchId, is_frozen: bool, read: u64) -> Check {
    let read_max = LOOK_READS_MAX + if is_frozen { NUMBER_READS_MAX } else { 0 };
    hold("P13 a_look_reads_four_items", read <= read_max, || {
        format!("batch {batch} must wait: {read} items read, expected at most {read_max}")
    })
}

/// P13 cost, without faults: a batch whose turn has not come is not read.
pub fn p13_no_body_is_read_early(batch: BatchId, is_early: bool) -> Check {
    hold("P13 no_body_is_read_early", !is_early, || {
        format!("bodies of batch {batch} are read before its turn")
    })
}
