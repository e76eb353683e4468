//! The checks of what deliveries cost.

use protocol::ids::BatchId;
use protocol::invariants::{Check, hold};

/// P13 cost, without faults: the bodies of a batch are read about as often as it has events.
pub fn p13_bodies_are_read_about_once(batch: BatchId, read: u64, read_max: u64) -> Check {
    hold("P13 bodies_are_read_about_once", read <= read_max, || {
        format!("batch {batch}: {read} bodies or pieces read, expected at most {read_max}")
    })
}
