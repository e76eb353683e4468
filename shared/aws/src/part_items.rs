//! Parts of a batch record as attributes, and back.

use aws_sdk_dynamodb::types::AttributeValue;
use protocol::batch::{PartRecord, PartState};
use protocol::chain::{ChainHash, Link};
use protocol::seqs::SeqSet;

use crate::attributes::{MalformedItem, StoredItem, b, item_of, ms, n, required, s, seqs_value};

/// `state` of a part that the sink may or may not have.
pub(crate) const FROZEN: &str = "frozen";
/// `state` of a part that the sink has.
pub(crate) const DELIVERED: &str = "delivered";
/// When the sink had a part.
const DELIVERED_AT: &str = "deliveredAt";
/// How many records of a part are only in a reject list; absent if there are none.
const REJECTED: &str = "rejected";
/// The number of a part; absent if its sink needs none.
const SEQUENCE: &str = "sequence";
/// When a part took its number; absent, as are the other two, if the part has no link.
pub(crate) const LINK_TAKEN_AT: &str = "linkAt";
/// The number of the link that a part's link is after.
pub(crate) const LINK_AFTER: &str = "linkAfter";
/// The hash of that link.
pub(crate) const LINK_PREVIOUS: &str = "linkHash";
/// `state` of a part whose events were sent to the quarantine.
pub(crate) const SET_ASIDE: &str = "setAside";

/// Returns a part as an element of `parts`.
pub(crate) fn part_value(part: &PartRecord) -> AttributeValue {
    let (state, receipt, delivered_at) = match &part.state {
        PartState::Frozen => (FROZEN, None, None),
        PartState::SetAside => (SET_ASIDE, None, None),
        PartState::Delivered { receipt, at } => (DELIVERED, Some(receipt), *at),
    };
    let rejected = receipt.is_some() && part.rejected > 0;
    AttributeValue::M(item_of([
        ("count", Some(n(part.count))),
        ("hash", Some(b(part.hash))),
        ("members", seqs_value(&part.members)),
        ("sink", part.sink.as_ref().map(s)),
        (SEQUENCE, part.file_number.map(n)),
        (LINK_TAKEN_AT, part.link.map(|link| ms(link.taken_at))),
        (LINK_AFTER, part.link.map(|link| n(link.after))),
        (
            LINK_PREVIOUS,
            part.link.map(|link| b(link.previous.as_bytes().to_vec())),
        ),
        ("state", Some(s(state))),
        ("receipt", receipt.map(s)),
        (DELIVERED_AT, delivered_at.map(ms)),
        (REJECTED, rejected.then(|| n(part.rejected))),
    ]))
}

/// Reads an element of `parts`.
pub(crate) fn read_part(mut part: StoredItem<'_>) -> Result<PartRecord, MalformedItem> {
    let members: Option<SeqSet> = part.decoded("members")?;
    let count: u64 = required(&mut part, "count", StoredItem::number)?;
    if let Some(members) = members.as_ref()
        && count != members.len()
    {
        let expected = members.len();
        let problem = format_args!("wrong: got {count}, expected {expected} as in `members`");
        return Err(part.malformed("count", problem));
    }
    let hash = hash(&mut part, "hash")?;
    let sink = part.string("sink")?;
    let rejected = part.number(REJECTED)?.unwrap_or_default();
    let file_number = part.number(SEQUENCE)?;
    let link = read_link(&mut part)?;
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
        link,
    })
}

fn read_link(part: &mut StoredItem<'_>) -> Result<Option<Link>, MalformedItem> {
    let Some(taken_at) = part.time_ms(LINK_TAKEN_AT)? else {
        return Ok(None);
    };
    Ok(Some(Link {
        taken_at,
        after: required(part, LINK_AFTER, StoredItem::number)?,
        previous: ChainHash::new(hash(part, LINK_PREVIOUS)?),
    }))
}

fn hash(part: &mut StoredItem<'_>, attribute: &str) -> Result<[u8; 32], MalformedItem> {
    let hash = required(part, attribute, StoredItem::bytes)?;
    <[u8; 32]>::try_from(hash).map_err(|bytes| {
        let problem = format!("wrong length: got {} bytes, expected 32", bytes.len());
        part.malformed(attribute, problem)
    })
}
