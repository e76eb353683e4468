//! Items of the lock table: a claim as attributes, and back.

use aws_sdk_dynamodb::types::AttributeValue;
use protocol::claim::{Claim, LockItem, LockState, Overflow, PastDeliveries};
use protocol::ids::{BatchId, BatchShard, EventId, SeatKey, Seq, SourceArn, SqsMessageId};
use protocol::limits::DYNAMODB_ITEM_BYTES_MAX;
use protocol::time::Timestamp;
use shared::message_attributes::MessageAttributes;
use shared::ports::{ClaimReply, IndexEntry, StoredEvent};

use crate::attributes::{
    Item, MalformedItem, StoredBody, StoredItem, b, item_of, ms, n, required, s, ttl,
};

/// Partition key: the event id.
pub(crate) const MESSAGE_ID: &str = "messageId";
/// The message that made the claim.
pub(crate) const SQS_MESSAGE_ID: &str = "sqsMessageId";
pub(crate) const BODY_HASH: &str = "bodyHash";
/// `<batch uuid>#<shard>`; only live claims have it.
pub(crate) const BATCH_ID: &str = "batchId";
/// The batch of a chunk claim, which versions up to 0.2 wrote; only such claims have it, and they are refused.
pub(crate) const BATCH: &str = "batch";
/// The seq; only live claims have it.
pub(crate) const SEQ: &str = "seq";
/// The body: a string, compressed bytes, or a map that names an S3 object; only live claims have it.
pub(crate) const MESSAGE: &str = "message";
/// The bucket, in the map of an S3 object.
const BUCKET: &str = "bucket";
/// The object's key, in the map of an S3 object.
const KEY: &str = "key";
/// The length of the body, in the map of an S3 object.
const BYTES: &str = "bytes";
/// The source; only live claims have it.
pub(crate) const SOURCE: &str = "source";
/// When the message was sent; only live claims have it.
pub(crate) const SENT_AT: &str = "sentAt";
/// The SQS message attributes as JSON text, if there are any; only live claims have it.
pub(crate) const ATTRIBUTES: &str = "attributes";
/// The table's TTL attribute; only tombstones have it.
pub(crate) const EXPIRES_AT: &str = "expiresAt";
/// `true` for the tombstone of an event that was set aside; absent otherwise.
pub(crate) const SET_ASIDE: &str = "setAside";
/// The seat of the claim that was released, `<batch uuid>/<seq>`; only tombstones have it. It tells people which batch had the
/// event; no decision depends on it.
pub(crate) const LAST_SEAT: &str = "lastSeat";
/// Message id to epoch ms; absent when empty.
pub(crate) const PAST_DELIVERIES: &str = "pastDeliveries";

/// Why an item with [`BATCH`] is refused.
const CHUNK_CLAIM: &str =
    "the claim of a former version (chunk claims, up to 0.2), which this version does not read";

/// The attributes that a release removes.
pub(crate) const OF_LIVE_CLAIMS: [&str; 6] = [BATCH_ID, SEQ, MESSAGE, SOURCE, SENT_AT, ATTRIBUTES];
/// The attributes that [`read_lock_item`] needs. The body is not among them, because it may be large.
pub(crate) const LOCK_ITEM_PROJECTION: &str = "messageId, sqsMessageId, bodyHash, batchId, #batch, seq, expiresAt, setAside, pastDeliveries, formatVersion";
/// The placeholder in [`LOCK_ITEM_PROJECTION`], with its attribute. `batch` is a reserved word.
pub(crate) const LOCK_ITEM_NAME: (&str, &str) = ("#batch", BATCH);
/// The attributes that [`read_event`] needs. `source` is a reserved word.
pub(crate) const EVENT_PROJECTION: &str = "messageId, sqsMessageId, bodyHash, batchId, seq, message, #source, sentAt, attributes, formatVersion";
/// The placeholder in [`EVENT_PROJECTION`], with its attribute.
pub(crate) const EVENT_NAME: (&str, &str) = ("#source", SOURCE);

/// The attributes that every claim has, in the order of [`claim_values`].
pub(crate) const OF_EVERY_CLAIM: [&str; 8] = [
    MESSAGE_ID,
    SQS_MESSAGE_ID,
    BODY_HASH,
    BATCH_ID,
    SEQ,
    MESSAGE,
    SOURCE,
    SENT_AT,
];

/// Returns the values of a claim: those of [`OF_EVERY_CLAIM`] in that order, then [`ATTRIBUTES`] and [`PAST_DELIVERIES`]
/// if the claim has them.
pub(crate) fn claim_values(claim: &Claim) -> Vec<AttributeValue> {
    let candidate = &claim.candidate;
    let body = match (&claim.overflow, &candidate.compressed) {
        (Some(overflow), _) => overflow_value(overflow),
        (None, Some(bytes)) => b(&**bytes),
        (None, None) => s(&*candidate.body),
    };
    let mut values = vec![
        s(candidate.event_id.as_str()),
        s(candidate.sqs_message_id.as_str()),
        b(candidate.body_hash.as_bytes()),
        s(claim.seat.shard().to_string()),
        n(claim.seat.seq),
        body,
        s(candidate.source.as_str()),
        ms(candidate.sent_at),
    ];
    values.extend(candidate.attributes.as_deref().map(s));
    values.extend((!claim.past.is_empty()).then(|| past_value(&claim.past)));
    values
}

/// Returns the names that go with [`claim_values`].
pub(crate) fn claim_names(form: ClaimForm) -> impl Iterator<Item = &'static str> {
    OF_EVERY_CLAIM
        .into_iter()
        .chain(form.has_attributes.then_some(ATTRIBUTES))
        .chain(form.has_past.then_some(PAST_DELIVERIES))
}

/// Which attributes a claim has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaimForm {
    pub(crate) has_attributes: bool,
    pub(crate) has_past: bool,
}

impl ClaimForm {
    /// Returns every form.
    pub(crate) fn all() -> impl Iterator<Item = ClaimForm> {
        (0..4_u8).map(|bits| ClaimForm {
            has_attributes: bits & 1 != 0,
            has_past: bits & 2 != 0,
        })
    }

    pub(crate) fn of(claim: &Claim) -> ClaimForm {
        ClaimForm {
            has_attributes: claim.candidate.attributes.is_some(),
            has_past: !claim.past.is_empty(),
        }
    }
}

/// Returns a claim as an item.
pub(crate) fn claim_item(claim: &Claim) -> Item {
    claim_names(ClaimForm::of(claim))
        .map(str::to_owned)
        .zip(claim_values(claim))
        .collect()
}

/// Returns a tombstone as an item, with the seat of the claim that ended, if it is known.
pub(crate) fn tombstone_item(
    id: &EventId,
    tombstone: &LockItem,
    seat: Option<(BatchId, Seq)>,
) -> Item {
    let past = (!tombstone.past.is_empty()).then(|| past_value(&tombstone.past));
    let set_aside = tombstone.set_aside;
    item_of([
        (MESSAGE_ID, Some(s(id.as_str()))),
        (SQS_MESSAGE_ID, Some(s(tombstone.sqs_message_id.as_str()))),
        (BODY_HASH, Some(b(tombstone.body_hash.as_bytes()))),
        (EXPIRES_AT, tombstone.expires_at().map(ttl)),
        (SET_ASIDE, set_aside.then_some(AttributeValue::Bool(true))),
        (LAST_SEAT, seat.map(last_seat)),
        (PAST_DELIVERIES, past),
    ])
}

fn overflow_value(overflow: &Overflow) -> AttributeValue {
    AttributeValue::M(item_of([
        (BUCKET, s(&*overflow.bucket)),
        (KEY, s(&overflow.key)),
        (BYTES, n(overflow.bytes)),
    ]))
}

fn past_value(past: &PastDeliveries) -> AttributeValue {
    let entries = past.iter();
    let entry = |(id, until): (&SqsMessageId, &Timestamp)| (id.as_str().to_owned(), ms(*until));
    AttributeValue::M(entries.map(entry).collect())
}

/// Returns the reply for a claim that is too large for an item. Such a claim is not sent, because it may get its whole
/// request refused.
pub(crate) fn unstorable(claim: &Claim) -> Option<ClaimReply> {
    let bytes = claim.item_bytes() + past_bytes(&claim.past);
    (bytes > DYNAMODB_ITEM_BYTES_MAX).then(|| {
        ClaimReply::Unstorable(format!(
            "lock item: too large: got {bytes} bytes, expected at most {DYNAMODB_ITEM_BYTES_MAX}"
        ))
    })
}

/// Returns the size of the past deliveries in bytes. The map takes its name and 3 bytes; each entry takes its name, at
/// most 21 bytes for the number, and 1 byte.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html> (2026-08).
pub(crate) fn past_bytes(past: &PastDeliveries) -> usize {
    match past.len() {
        0 => 0,
        _ => {
            PAST_DELIVERIES.len() + 3 + past.keys().map(|id| id.as_str().len() + 22).sum::<usize>()
        }
    }
}

/// Reads an item. It may have more attributes than [`LOCK_ITEM_PROJECTION`] names.
pub(crate) fn read_lock_item(
    table: &str,
    item: Item,
) -> Result<(EventId, LockItem), MalformedItem> {
    let mut item = StoredItem::of_event(table, MESSAGE_ID, item)?;
    let id = item.parsed_key(MESSAGE_ID)?;
    // Taken for a tombstone, it would pass for delivered.
    if item.has(BATCH) {
        return Err(item.malformed(BATCH, CHUNK_CLAIM));
    }
    let state = if item.has(BATCH_ID) {
        LockState::Live {
            shard: required(&mut item, BATCH_ID, StoredItem::parsed)?,
            seq: required(&mut item, SEQ, StoredItem::number)?,
        }
    } else {
        LockState::Tombstone {
            expires_at: required(&mut item, EXPIRES_AT, StoredItem::time_secs)?,
        }
    };
    let lock_item = LockItem {
        sqs_message_id: required(&mut item, SQS_MESSAGE_ID, StoredItem::parsed)?,
        body_hash: required(&mut item, BODY_HASH, StoredItem::decoded)?,
        past: past_deliveries(&mut item)?,
        state,
        set_aside: item.has(SET_ASIDE),
    };
    Ok((id, lock_item))
}

/// Reads a live claim with its body; `None` for a tombstone. `known` is the last source that was read, which is shared
/// by most events.
pub(crate) fn read_event(
    table: &str,
    item: Item,
    known: &mut Option<SourceArn>,
) -> Result<Option<StoredEvent>, MalformedItem> {
    let mut item = StoredItem::of_event(table, MESSAGE_ID, item)?;
    if !item.has(BATCH_ID) {
        return Ok(None);
    }
    let (body, overflow) = match required(&mut item, MESSAGE, StoredItem::body)? {
        StoredBody::Inline(body) => (body, None),
        StoredBody::InS3(fields) => ("".into(), Some(Box::new(overflow(&item, fields)?))),
    };
    let text = required(&mut item, SOURCE, StoredItem::string)?;
    let source = match &*known {
        Some(source) if source.as_str() == text => source.clone(),
        Some(_) | None => {
            let source = SourceArn::try_from(text);
            let source = source.map_err(|error| item.malformed(SOURCE, error))?;
            known.insert(source).clone()
        }
    };
    let attributes = item.string(ATTRIBUTES)?;
    let attributes = attributes.as_deref().map(MessageAttributes::read);
    // The error may quote a value.
    let wrong = |error| item.malformed(ATTRIBUTES, format_args!("«{error}»"));
    let attributes = attributes.transpose().map_err(wrong)?.flatten();
    Ok(Some(StoredEvent {
        event_id: item.parsed_key(MESSAGE_ID)?,
        sqs_message_id: required(&mut item, SQS_MESSAGE_ID, StoredItem::parsed)?,
        body_hash: required(&mut item, BODY_HASH, StoredItem::decoded)?,
        shard: required(&mut item, BATCH_ID, StoredItem::parsed)?,
        seq: required(&mut item, SEQ, StoredItem::number)?,
        body,
        overflow,
        source,
        sent_at: required(&mut item, SENT_AT, StoredItem::time_ms)?,
        attributes,
        quota: None,
    }))
}

fn overflow(item: &StoredItem<'_>, mut fields: Item) -> Result<Overflow, MalformedItem> {
    if let [
        Some(AttributeValue::S(bucket)),
        Some(AttributeValue::S(key)),
        Some(AttributeValue::N(bytes)),
    ] = [BUCKET, KEY, BYTES].map(|name| fields.remove(name))
        && let Ok(bytes) = bytes.parse()
    {
        return Ok(Overflow {
            bucket: bucket.into(),
            key,
            bytes,
        });
    }
    Err(item.malformed(MESSAGE, "map without bucket, key and bytes of the body"))
}

/// Reads an entry of the index, or the key at which a page ended.
pub(crate) fn read_index_entry(table: &str, item: Item) -> Result<IndexEntry, MalformedItem> {
    let mut item = StoredItem::of_event(table, MESSAGE_ID, item)?;
    Ok(IndexEntry {
        event_id: item.parsed_key(MESSAGE_ID)?,
        seq: required(&mut item, SEQ, StoredItem::number)?,
    })
}

/// Returns the key at which a page of the index ended.
pub(crate) fn index_key(shard: BatchShard, entry: &IndexEntry) -> Item {
    item_of([
        (MESSAGE_ID, s(entry.event_id.as_str())),
        (BATCH_ID, s(shard.to_string())),
        (SEQ, n(entry.seq)),
    ])
}

/// Returns a seat as the value of [`LAST_SEAT`].
pub(crate) fn last_seat_value(seat: SeatKey) -> AttributeValue {
    last_seat((seat.shard.batch, seat.seq))
}

fn last_seat((batch, seq): (BatchId, Seq)) -> AttributeValue {
    s(format!("{batch}/{seq}"))
}

/// Reads the seat that a tombstone had as a claim; `None` if the item does not say. Tombstones of earlier versions do not.
pub(crate) fn read_last_seat(
    table: &str,
    item: Item,
) -> Result<Option<(BatchId, Seq)>, MalformedItem> {
    let mut item = StoredItem::new(table, MESSAGE_ID, item)?;
    let Some(text) = item.string(LAST_SEAT)? else {
        return Ok(None);
    };
    let seat = text.split_once('/');
    let seat = seat.and_then(|(batch, seq)| Some((batch.parse().ok()?, seq.parse().ok()?)));
    let problem = format_args!("malformed: got `{text}`, expected `<batch uuid>/<seq>`");
    let malformed = || item.malformed(LAST_SEAT, problem);
    seat.map(Some).ok_or_else(malformed)
}

/// Returns the key of an event.
pub(crate) fn key(id: &EventId) -> Item {
    item_of([(MESSAGE_ID, s(id.as_str()))])
}

fn past_deliveries(item: &mut StoredItem<'_>) -> Result<PastDeliveries, MalformedItem> {
    let past = item.map(PAST_DELIVERIES)?;
    let entry = |(id, until): (String, AttributeValue)| {
        let id = SqsMessageId::try_from(id.as_str())
            .map_err(|error| item.malformed(PAST_DELIVERIES, error))?;
        let until = match until {
            AttributeValue::N(number) => number.parse().ok(),
            _ => None,
        };
        let until = until.ok_or_else(|| {
            item.malformed(PAST_DELIVERIES, "wrong time: expected epoch milliseconds")
        })?;
        Ok((id, Timestamp::from_ms(until)))
    };
    past.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests;
