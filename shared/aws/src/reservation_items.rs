//! The reservations of a batch, as attributes of its record and back.

use aws_sdk_dynamodb::types::AttributeValue;
use protocol::batch::{Reservations, Resolution};
use protocol::bodies::Bodies;
use protocol::format_version::{FORMAT_VERSION, FORMAT_VERSION_FIELD};
use protocol::time::Timestamp;

use crate::attributes::{Item, MalformedItem, StoredItem, item_of, ms, n, required, s, seqs_value};

/// Whether it is known what became of the seats, and whether decisions about lines are reported; absent before.
const RESOLUTION: &str = "resolution";
/// `resolution` of a batch whose lines are decided.
const DECIDED: &str = "decided";
/// `resolution` of a batch whose decisions are reported too, and of one whose claims are counted.
pub(crate) const REPORTED: &str = "reported";

/// Returns the value of `resolution`.
pub(crate) fn state(resolution: &Resolution) -> AttributeValue {
    s(match resolution.is_reported {
        true => REPORTED,
        false => DECIDED,
    })
}

/// Number of slots. Each record with reservations has it.
const SLOTS: &str = "slots";

/// Returns the attributes of reservations. Older code must refuse their record.
pub(crate) fn reservation_item(reservations: &Reservations) -> Item {
    let decided = reservations.resolution.as_ref();
    let duplicates = decided.and_then(|decided| seqs_value(&decided.duplicates));
    let conflicts = decided.and_then(|decided| seqs_value(&decided.conflicts));
    let beyond_quota = decided.and_then(|decided| seqs_value(&decided.beyond_quota));
    item_of([
        (FORMAT_VERSION_FIELD, Some(n(FORMAT_VERSION))),
        ("reserved", Some(n(reservations.reserved))),
        ("reservedBytes", Some(n(reservations.reserved_bytes))),
        (SLOTS, Some(n(reservations.slots))),
        ("lastAt", Some(ms(reservations.last_at))),
        ("busyUntil", Some(ms(reservations.busy_until))),
        (RESOLUTION, decided.map(state)),
        ("duplicates", duplicates),
        ("conflicts", conflicts),
        ("beyondQuota", beyond_quota),
    ])
}

/// Reads the attributes of reservations; `None` if a version before 0.3 opened the batch.
pub(crate) fn read_reservations(
    item: &mut StoredItem<'_>,
    bodies: &Bodies,
) -> Result<Option<Reservations>, MalformedItem> {
    if !bodies.is_log() && !item.has(SLOTS) {
        return Ok(None);
    }
    Ok(Some(Reservations {
        reserved: required(item, "reserved", StoredItem::number)?,
        reserved_bytes: required(item, "reservedBytes", StoredItem::number)?,
        slots: required(item, SLOTS, StoredItem::number)?,
        last_at: required(item, "lastAt", StoredItem::time_ms)?,
        // The first previews of the log did not write it.
        busy_until: item.time_ms("busyUntil")?.unwrap_or(Timestamp::EPOCH),
        resolution: resolution(item)?,
    }))
}

fn resolution(item: &mut StoredItem<'_>) -> Result<Option<Resolution>, MalformedItem> {
    let Some(state) = item.string(RESOLUTION)? else {
        return Ok(None);
    };
    let is_reported = match state.as_str() {
        DECIDED => false,
        REPORTED => true,
        _ => {
            let problem = format_args!("not a resolution: got `{state}`");
            return Err(item.malformed(RESOLUTION, problem));
        }
    };
    Ok(Some(Resolution {
        duplicates: item.decoded("duplicates")?.unwrap_or_default(),
        conflicts: item.decoded("conflicts")?.unwrap_or_default(),
        beyond_quota: item.decoded("beyondQuota")?.unwrap_or_default(),
        is_reported,
    }))
}
