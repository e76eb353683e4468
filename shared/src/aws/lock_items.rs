//! Items of the lock table: which attributes a claim has, and what a stored one says.

use std::borrow::Cow;
use std::sync::Arc;

use protocol::claim::{Claim, LockItem, LockState, Overflow, PastDeliveries};
use protocol::ids::{BatchShard, BodyHash, EventId, SourceArn, SqsMessageId};
use protocol::limits::DYNAMODB_ITEM_BYTES_MAX;
use protocol::time::Timestamp;
use serde::Serialize;

use super::attributes::{Item, MalformedItem, SdkItem, Sent, StoredBody, StoredItem, Value, s};
use crate::ports::{ClaimReply, IndexEntry, StoredEvent};

/// Partition key: the event id.
pub(super) const MESSAGE_ID: &str = "messageId";
/// The message that made the claim.
pub(super) const SQS_MESSAGE_ID: &str = "sqsMessageId";
/// Content hash of the body.
pub(super) const BODY_HASH: &str = "bodyHash";
/// `<batch uuid>#<shard>`; only live claims have it.
pub(super) const BATCH_ID: &str = "batchId";
/// Position in the batch; only live claims have it.
pub(super) const SEQ: &str = "seq";
/// The body: a text, compressed bytes, or a map that says where it is; only live claims have it.
pub(super) const MESSAGE: &str = "message";
/// In that map, the bucket.
const BUCKET: &str = "bucket";
/// In that map, the object's key.
const KEY: &str = "key";
/// In that map, the length of the body.
const BYTES: &str = "bytes";
/// Where it came from; only live claims have it.
pub(super) const SOURCE: &str = "source";
/// When it was sent; only live claims have it.
pub(super) const SENT_AT: &str = "sentAt";
/// The SQS message attributes as JSON text, where there are any; only live claims have it.
pub(super) const ATTRIBUTES: &str = "attributes";
/// The table's TTL attribute; only tombstones have it.
pub(super) const EXPIRES_AT: &str = "expiresAt";
/// Whether the tombstone is of an event that was set aside; absent where it is not.
pub(super) const SET_ASIDE: &str = "setAside";
/// Message id to epoch ms; absent when empty.
pub(super) const PAST_DELIVERIES: &str = "pastDeliveries";

/// Every attribute that a release takes away.
pub(super) const OF_LIVE_CLAIMS: [&str; 6] = [BATCH_ID, SEQ, MESSAGE, SOURCE, SENT_AT, ATTRIBUTES];
/// What [`read_lock_item`] needs: no body, which may be of any size.
pub(super) const LOCK_ITEM_PROJECTION: &str =
    "messageId, sqsMessageId, bodyHash, batchId, seq, expiresAt, setAside, pastDeliveries";
/// What [`read_event`] needs. `source` is a reserved word.
pub(super) const EVENT_PROJECTION: &str =
    "messageId, sqsMessageId, bodyHash, batchId, seq, message, #source, sentAt";
/// The names that stand for others in [`EVENT_PROJECTION`].
pub(super) const EVENT_NAMES: Names = Names { source: SOURCE };

/// `ExpressionAttributeNames` of a request.
#[derive(Serialize)]
pub(super) struct Names {
    #[serde(rename = "#source")]
    source: &'static str,
}

/// The attributes every claim has, in the order of [`claim_values`].
pub(super) const OF_EVERY_CLAIM: [&str; 8] = [
    MESSAGE_ID,
    SQS_MESSAGE_ID,
    BODY_HASH,
    BATCH_ID,
    SEQ,
    MESSAGE,
    SOURCE,
    SENT_AT,
];

/// Hands out the values of a claim: those of [`OF_EVERY_CLAIM`] in that order, then [`ATTRIBUTES`] and
/// [`PAST_DELIVERIES`] where it has them. An iterator would hold all of them at once, which costs more than writing them.
pub(super) fn claim_values<'a>(claim: &'a Claim, mut take: impl FnMut(Sent<'a>)) {
    let candidate = &claim.candidate;
    take(Sent::Text(candidate.event_id.as_str()));
    take(Sent::Text(candidate.sqs_message_id.as_str()));
    take(Sent::Bytes(candidate.body_hash.as_bytes()));
    take(Sent::Shard(claim.seat.shard()));
    take(Sent::Number(claim.seat.seq.into()));
    match (&claim.overflow, &candidate.compressed) {
        (Some(overflow), _) => take(overflow_value(overflow)),
        (None, Some(bytes)) => take(Sent::Bytes(bytes)),
        (None, None) => take(Sent::Text(&candidate.body)),
    }
    take(Sent::Text(candidate.source.as_str()));
    take(Sent::Number(candidate.sent_at.as_ms()));
    if let Some(attributes) = &candidate.attributes {
        take(Sent::Text(attributes));
    }
    if !claim.past.is_empty() {
        take(past_value(&claim.past));
    }
}

/// The names that go with [`claim_values`].
pub(super) fn claim_names(
    has_attributes: bool,
    has_past: bool,
) -> impl Iterator<Item = &'static str> {
    OF_EVERY_CLAIM
        .into_iter()
        .chain(has_attributes.then_some(ATTRIBUTES))
        .chain(has_past.then_some(PAST_DELIVERIES))
}

/// A claim as an item, for the SDK.
pub(super) fn claim_item(claim: &Claim) -> SdkItem {
    let mut item = SdkItem::new();
    let mut names = claim_names(claim.candidate.attributes.is_some(), !claim.past.is_empty());
    claim_values(claim, |value| {
        let name = names.next().expect("each value has a name");
        item.insert(name.to_owned(), value.into());
    });
    item
}

fn overflow_value(overflow: &Overflow) -> Sent<'_> {
    Sent::Map(vec![
        (BUCKET, Sent::Text(&overflow.bucket)),
        (KEY, Sent::Text(&overflow.key)),
        (BYTES, Sent::Number(overflow.bytes)),
    ])
}

fn past_value(past: &PastDeliveries) -> Sent<'_> {
    Sent::Map(
        past.iter()
            .map(|(id, until)| (id.as_str(), Sent::Number(until.as_ms())))
            .collect(),
    )
}

/// The answer for a claim that no table takes, so that it is not sent: one such member may get a whole request
/// refused, and its neighbours with it.
pub(super) fn unstorable(claim: &Claim) -> Option<ClaimReply> {
    let bytes = claim.item_bytes() + past_bytes(&claim.past);
    (bytes > DYNAMODB_ITEM_BYTES_MAX).then(|| {
        ClaimReply::Unstorable(format!(
            "item of `{bytes}` bytes, at most {DYNAMODB_ITEM_BYTES_MAX} are stored"
        ))
    })
}

/// Of the map: its name and 3 of overhead; of each entry: its name, at most 21 of number and 1 of overhead.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html> (2026-08).
fn past_bytes(past: &PastDeliveries) -> usize {
    match past.len() {
        0 => 0,
        _ => {
            PAST_DELIVERIES.len() + 3 + past.keys().map(|id| id.as_str().len() + 22).sum::<usize>()
        }
    }
}

/// Reads an item, whatever it holds besides what [`LOCK_ITEM_PROJECTION`] names.
pub(super) fn read_lock_item<'a>(
    table: &'a str,
    item: Item<'a>,
) -> Result<(EventId, LockItem), MalformedItem> {
    let mut item = StoredItem::new(table, MESSAGE_ID, item)?;
    let id = event_id(&item)?;
    let state = if item.has(BATCH_ID) {
        let (shard, seq) = live(&mut item)?;
        LockState::Live { shard, seq }
    } else {
        let expires_at = item.time_secs(EXPIRES_AT)?;
        LockState::Tombstone {
            expires_at: item.required(EXPIRES_AT, expires_at)?,
        }
    };
    let lock_item = LockItem {
        sqs_message_id: sqs_message_id(&mut item)?,
        body_hash: body_hash(&mut item)?,
        past: past_deliveries(&mut item)?,
        state,
        set_aside: item.has(SET_ASIDE),
    };
    Ok((id, lock_item))
}

/// Reads a live claim with its body; `None` for a tombstone. `known` is the source that was read last.
pub(super) fn read_event(
    table: &str,
    item: Item<'_>,
    known: &mut Option<SourceArn>,
) -> Result<Option<StoredEvent>, MalformedItem> {
    let mut item = StoredItem::new(table, MESSAGE_ID, item)?;
    if !item.has(BATCH_ID) {
        return Ok(None);
    }
    let event_id = event_id(&item)?;
    let (shard, seq) = live(&mut item)?;
    let body = item.body(MESSAGE)?;
    let (body, overflow) = match item.required(MESSAGE, body)? {
        StoredBody::Here(body) => (body, None),
        StoredBody::Elsewhere(fields) => ("".into(), Some(Box::new(overflow(&item, fields)?))),
    };
    let source = match item.string(SOURCE)? {
        Some(text) if known.as_ref().is_none_or(|source| source.as_str() != text) => {
            let source = SourceArn::try_from(&*text);
            *known = Some(source.map_err(|error| item.malformed(SOURCE, error))?);
            known.clone()
        }
        Some(_) => known.clone(),
        None => None,
    };
    let sent_at = item.time_ms(SENT_AT)?;
    Ok(Some(StoredEvent {
        event_id,
        sqs_message_id: sqs_message_id(&mut item)?,
        body_hash: body_hash(&mut item)?,
        shard,
        seq,
        body,
        overflow,
        source: item.required(SOURCE, source)?,
        sent_at: item.required(SENT_AT, sent_at)?,
    }))
}

fn overflow(item: &StoredItem<'_>, fields: Item<'_>) -> Result<Overflow, MalformedItem> {
    let (mut bucket, mut key, mut bytes) = (None, None, None);
    for (name, value) in fields {
        match (&*name, value) {
            (BUCKET, Value::S(text)) => bucket = Some(Arc::from(&*text)),
            (KEY, Value::S(text)) => key = Some(text.into_owned()),
            (BYTES, Value::N(number)) => bytes = number.parse().ok(),
            _ => {}
        }
    }
    match (bucket, key, bytes) {
        (Some(bucket), Some(key), Some(bytes)) => Ok(Overflow { bucket, key, bytes }),
        _ => Err(item.malformed(MESSAGE, "says nowhere where the body is")),
    }
}

/// Reads an entry of the index, or the key where a page of it ended.
pub(super) fn read_index_entry<'a>(
    table: &'a str,
    item: Item<'a>,
) -> Result<IndexEntry, MalformedItem> {
    let mut item = StoredItem::new(table, MESSAGE_ID, item)?;
    let seq = item.number(SEQ)?;
    Ok(IndexEntry {
        event_id: event_id(&item)?,
        seq: item.required(SEQ, seq)?,
    })
}

/// The key where a page of the index ended.
pub(super) fn index_key(shard: BatchShard, entry: &IndexEntry) -> Item<'_> {
    [
        (MESSAGE_ID, Value::text(entry.event_id.as_str())),
        (BATCH_ID, Value::text(shard.to_string())),
        (SEQ, Value::number(entry.seq)),
    ]
    .map(|(name, value)| (name.into(), value))
    .into_iter()
    .collect()
}

/// The partition key of an event.
pub(super) fn key(id: &EventId) -> SdkItem {
    [(MESSAGE_ID.to_owned(), s(id.as_str()))].into()
}

fn event_id(item: &StoredItem<'_>) -> Result<EventId, MalformedItem> {
    EventId::try_from(item.key()).map_err(|error| item.malformed(MESSAGE_ID, error))
}

fn live(item: &mut StoredItem<'_>) -> Result<(BatchShard, u32), MalformedItem> {
    let shard = item.parsed(BATCH_ID)?;
    let seq = item.number(SEQ)?;
    Ok((item.required(BATCH_ID, shard)?, item.required(SEQ, seq)?))
}

fn sqs_message_id(item: &mut StoredItem<'_>) -> Result<SqsMessageId, MalformedItem> {
    let id = item.text(SQS_MESSAGE_ID)?;
    item.required(SQS_MESSAGE_ID, id)
}

fn body_hash(item: &mut StoredItem<'_>) -> Result<BodyHash, MalformedItem> {
    let bytes = item.bytes(BODY_HASH)?;
    let bytes = item.required(BODY_HASH, bytes)?;
    BodyHash::try_from(bytes.as_slice()).map_err(|error| item.malformed(BODY_HASH, error))
}

fn past_deliveries(item: &mut StoredItem<'_>) -> Result<PastDeliveries, MalformedItem> {
    let past = item.map(PAST_DELIVERIES)?;
    let entry = |(id, until): (Cow<'_, str>, Value<'_>)| {
        let id =
            SqsMessageId::try_from(&*id).map_err(|error| item.malformed(PAST_DELIVERIES, error))?;
        let until = match until {
            Value::N(number) => number.parse().ok(),
            _ => None,
        };
        let until = until.ok_or_else(|| {
            item.malformed(PAST_DELIVERIES, "has a time that is not epoch milliseconds")
        })?;
        Ok((id, Timestamp::from_ms(until)))
    };
    past.into_iter().map(entry).collect()
}
