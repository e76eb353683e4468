//! The fields that only the record of a batch of the log has, as attributes and back.

use aws_sdk_dynamodb::types::AttributeValue;
use protocol::batch::{LogResolution, LogState};
use protocol::bodies::Bodies;
use protocol::format_version::{FORMAT_VERSION_FIELD, LOG_FORMAT_VERSION};

use crate::attributes::{Item, MalformedItem, StoredItem, item_of, ms, n, required, s, seqs_value};

/// Whether the lines are decided, and whether the decisions are reported; absent before.
const RESOLUTION: &str = "resolution";
/// `resolution` of a batch whose lines are decided.
const DECIDED: &str = "decided";
/// `resolution` of a batch whose decisions are reported too.
pub(crate) const REPORTED: &str = "reported";

/// Returns the value of `resolution`.
pub(crate) fn state(resolution: &LogResolution) -> AttributeValue {
    s(match resolution.is_reported {
        true => REPORTED,
        false => DECIDED,
    })
}

/// Returns the attributes of a batch of the log.
pub(crate) fn log_item(log: &LogState) -> Item {
    let decided = log.resolution.as_ref();
    let duplicates = decided.and_then(|decided| seqs_value(&decided.duplicates));
    let conflicts = decided.and_then(|decided| seqs_value(&decided.conflicts));
    item_of([
        (FORMAT_VERSION_FIELD, Some(n(LOG_FORMAT_VERSION))),
        ("reserved", Some(n(log.reserved))),
        ("reservedBytes", Some(n(log.reserved_bytes))),
        ("slots", Some(n(log.slots))),
        ("lastAt", Some(ms(log.last_at))),
        (RESOLUTION, decided.map(state)),
        ("duplicates", duplicates),
        ("conflicts", conflicts),
    ])
}

/// Reads the attributes of a batch of the log; `None` if it is another batch.
pub(crate) fn read_log(
    item: &mut StoredItem<'_>,
    bodies: &Bodies,
) -> Result<Option<LogState>, MalformedItem> {
    if !bodies.is_log() {
        return Ok(None);
    }
    Ok(Some(LogState {
        reserved: required(item, "reserved", StoredItem::number)?,
        reserved_bytes: required(item, "reservedBytes", StoredItem::number)?,
        slots: required(item, "slots", StoredItem::number)?,
        last_at: required(item, "lastAt", StoredItem::time_ms)?,
        resolution: resolution(item)?,
    }))
}

fn resolution(item: &mut StoredItem<'_>) -> Result<Option<LogResolution>, MalformedItem> {
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
    Ok(Some(LogResolution {
        duplicates: item.decoded("duplicates")?.unwrap_or_default(),
        conflicts: item.decoded("conflicts")?.unwrap_or_default(),
        is_reported,
    }))
}
