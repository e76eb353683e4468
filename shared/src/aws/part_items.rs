//! Parts of a batch record as attributes, and back.

use aws_sdk_dynamodb::types::AttributeValue;
use protocol::batch::{PartRecord, PartState};

use super::attributes::{Item, MalformedItem, StoredItem, b, ms, n, required, s, seqs, seqs_value};

/// `state` of a part that the sink may or may not have.
pub(super) const FROZEN: &str = "frozen";
/// `state` of a part that the sink has.
pub(super) const DELIVERED: &str = "delivered";
/// When the sink had a part.
pub(super) const DELIVERED_AT: &str = "deliveredAt";
/// How many records of a part are only in a reject list; absent if there are none.
pub(super) const REJECTED: &str = "rejected";
/// The number of a part; absent if its sink needs none.
const SEQUENCE: &str = "sequence";
/// `state` of a part whose events were sent to the quarantine.
pub(super) const SET_ASIDE: &str = "setAside";

/// Returns a part as an element of `parts`.
pub(super) fn part_value(part: &PartRecord) -> AttributeValue {
    let mut map = Item::from([
        ("count".to_owned(), n(part.count)),
        ("hash".to_owned(), b(part.hash)),
    ]);
    if let Some(members) = seqs_value(&part.members) {
        map.insert("members".to_owned(), members);
    }
    if let Some(sink) = &part.sink {
        map.insert("sink".to_owned(), s(sink));
    }
    if let Some(number) = part.file_number {
        map.insert(SEQUENCE.to_owned(), n(number));
    }
    let state = match &part.state {
        PartState::Frozen => FROZEN,
        PartState::SetAside => SET_ASIDE,
        PartState::Delivered { receipt, at } => {
            map.insert("receipt".to_owned(), s(receipt));
            at.map(|at| map.insert(DELIVERED_AT.to_owned(), ms(at)));
            if part.rejected > 0 {
                map.insert(REJECTED.to_owned(), n(part.rejected));
            }
            DELIVERED
        }
    };
    map.insert("state".to_owned(), s(state));
    AttributeValue::M(map)
}

/// Reads the parts of a record.
pub(super) fn parts(item: &mut StoredItem<'_>) -> Result<Vec<PartRecord>, MalformedItem> {
    let parts = item.maps("parts")?;
    parts
        .into_iter()
        .map(|part| read_part(item.nested(part)))
        .collect()
}

fn read_part(mut part: StoredItem<'_>) -> Result<PartRecord, MalformedItem> {
    let members = seqs(&mut part, "members")?;
    let count: u64 = required(&mut part, "count", StoredItem::number)?;
    if let Some(members) = members.as_ref()
        && count != members.len()
    {
        let problem = format_args!(
            "wrong: got {count}, expected {} as in `members`",
            members.len()
        )
        .to_string();
        return Err(part.malformed("count", problem));
    }
    let hash = required(&mut part, "hash", StoredItem::bytes)?;
    let hash = <[u8; 32]>::try_from(hash).map_err(|bytes| {
        part.malformed(
            "hash",
            format!("wrong length: got {} bytes, expected 32", bytes.len()),
        )
    })?;
    let sink = part.string("sink")?;
    let rejected = part.number(REJECTED)?.unwrap_or_default();
    let file_number = part.number(SEQUENCE)?;
    let state = match required(&mut part, "state", StoredItem::string)?.as_str() {
        // A frozen part is to be delivered, so it must have its members.
        FROZEN if members.is_none() => return Err(part.malformed("members", "missing")),
        FROZEN => PartState::Frozen,
        SET_ASIDE => PartState::SetAside,
        DELIVERED => PartState::Delivered {
            receipt: required(&mut part, "receipt", StoredItem::string)?,
            at: part.time_ms(DELIVERED_AT)?,
        },
        other => {
            return Err(part.malformed("state", format_args!("not a state: got `{other}`")));
        }
    };
    Ok(PartRecord {
        count,
        members: members.unwrap_or_default(),
        hash,
        state,
        rejected,
        sink,
        file_number,
    })
}
