//! The checks of the log.

use protocol::ids::{ObjectId, SlotId};
use protocol::invariants::{Check, hold};

/// INV-36: the manifest names a list that is stored, which names runs that are stored.
pub fn inv36_a_manifest_names_stored_objects(object: ObjectId, is_stored: bool) -> Check {
    hold("INV-36 a_manifest_names_stored_objects", is_stored, || {
        format!("`{object}` is not stored, or cannot be read")
    })
}

/// INV-37: every slot of a batch whose lines are decided has a value.
pub fn inv37_every_slot_of_a_decided_batch_has_a_value(slot: SlotId, has_value: bool) -> Check {
    hold(
        "INV-37 every_slot_of_a_decided_batch_has_a_value",
        has_value,
        || format!("slot `{slot}` is empty"),
    )
}

/// INV-38: a filled slot names a load that is stored, and that has its lines.
pub fn inv38_a_filled_slot_names_a_stored_load(slot: SlotId, is_stored: bool) -> Check {
    hold(
        "INV-38 a_filled_slot_names_a_stored_load",
        is_stored,
        || format!("slot `{slot}` names a load that is not stored, or is another"),
    )
}
