//! Items of the batch table: a batch record as attributes, and back.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use protocol::batch::{BatchRecord, Failure, Lease, Listing, OperatorNote, Status};
use protocol::bodies::Bodies;
use protocol::ids::{BatchId, SourceArn};
use protocol::limits::STATUS_SHARDS;
use protocol::period::Period;

use super::attributes::{
    Item, MalformedItem, StoredItem, ms, n, required, s, seqs, seqs_value, ttl,
};
use super::log_items;
use super::notice_items::{notices, notices_value};
use super::part_items::{part_value, parts};
use crate::ports::Overdue;

/// Partition key: the batch id.
pub(super) const BATCH_ID: &str = "batchId";
/// Partition key of `status-index`: the status and a shard.
pub(super) const STATUS_SHARD: &str = "statusShard";
/// Where the bodies are; absent if they are in the lock items.
const BODIES: &str = "bodies";
/// Returns the key of `status-index` for a batch with this status.
pub(super) fn status_shard(status: Status, batch: BatchId) -> AttributeValue {
    listing_shard(Listing::Status(status), batch)
}

/// Returns the key of `status-index` for a batch in this list.
pub(super) fn listing_shard(listing: Listing, batch: BatchId) -> AttributeValue {
    let shard = batch.random_byte() % STATUS_SHARDS;
    listing_shard_key(listing, shard)
}

/// Returns a key of `status-index`.
pub(super) fn listing_shard_key(listing: Listing, shard: u8) -> AttributeValue {
    s(format!("{}#{shard}", listing.as_str()))
}

/// Returns a record as an item. Fields that are `None` or empty have no attribute.
pub(super) fn record_item(record: &BatchRecord) -> Item {
    let mut item = Item::new();
    let mut put = |name: &str, value: AttributeValue| drop(item.insert(name.to_owned(), value));
    put(BATCH_ID, s(record.batch_id.to_string()));
    put("dueAt", ms(record.due_at));
    put("source", s(record.source.as_str()));
    put("createdAt", ms(record.created_at));
    put("closesAt", ms(record.closes_at));
    match record.bodies.lists_claims() {
        // Without `shards`, a batch-processor of an earlier version refuses the record. It would look for the claims in the
        // index, find none, and complete the batch.
        true => {
            put(BODIES, s(record.bodies.to_string()));
            put("window", n(record.dedup_window.as_secs()));
        }
        false => put("shards", n(record.shards)),
    }
    log_items::put(record, &mut put);
    put("confirmed", n(record.confirmed));
    put("uncertain", n(record.uncertain));
    put("accounts", n(record.counts_version));
    put("witnesses", n(record.witnesses));
    put("attempts", n(record.attempts));
    if let Some(lease) = &record.lease {
        put("lockedBy", s(lease.owner.as_str()));
        put("lockedUntil", ms(lease.until));
    }
    if !record.parts.is_empty() {
        put(
            "parts",
            AttributeValue::L(record.parts.iter().map(part_value).collect()),
        );
    }
    let failure = record.last_failure.as_ref();
    let optional = [
        ("status", record.status.map(|status| s(status.as_str()))),
        (
            STATUS_SHARD,
            record
                .listing()
                .map(|listing| listing_shard(listing, record.batch_id)),
        ),
        (
            "batchKey",
            record.batch_key.as_ref().map(|key| s(key.as_str())),
        ),
        (
            "periodBegins",
            record.period.map(|period| ms(period.begins)),
        ),
        ("periodEnds", record.period.map(|period| ms(period.ends))),
        ("settled", seqs_value(&record.settled)),
        ("claimed", seqs_value(&record.claimed)),
        ("chunks", seqs_value(&record.chunks)),
        ("witnessed", seqs_value(&record.witnessed)),
        ("witnessedChunks", seqs_value(&record.witnessed_chunks)),
        ("delivered", seqs_value(&record.delivered)),
        ("setAside", seqs_value(&record.set_aside)),
        (
            "setAsides",
            (record.set_asides > 0).then(|| n(record.set_asides)),
        ),
        ("quarantine", record.quarantine.as_deref().map(s)),
        ("sealedAt", record.sealed_at.map(ms)),
        ("verifyAt", record.verify_at.map(ms)),
        ("turnAt", record.turn_at.map(ms)),
        ("lastFailure", failure.map(|failure| s(&failure.text))),
        ("lastFailureAt", failure.map(|failure| ms(failure.at))),
        ("completedAt", record.completed_at.map(ms)),
        ("error", record.error.as_deref().map(s)),
        ("expiresAt", record.expires_at.map(ttl)),
        (
            "notices",
            (!record.notices.is_empty()).then(|| notices_value(&record.notices)),
        ),
        ("notes", some_notes(&record.notes)),
        (
            "noteCount",
            Some(record.notes_count).filter(|count| *count > 0).map(n),
        ),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            put(name, value);
        }
    }
    item
}

/// Returns notes as the value of `notes`; `None` when there are none.
fn some_notes(notes: &[OperatorNote]) -> Option<AttributeValue> {
    (!notes.is_empty()).then(|| notes_value(notes))
}

/// Returns notes as the value of `notes`.
pub(super) fn notes_value(notes: &[OperatorNote]) -> AttributeValue {
    let note = |note: &OperatorNote| {
        AttributeValue::M(Item::from([
            ("at".to_owned(), ms(note.at)),
            ("by".to_owned(), s(&note.by)),
            ("action".to_owned(), s(&note.action)),
            ("why".to_owned(), s(&note.why)),
        ]))
    };
    AttributeValue::L(notes.iter().map(note).collect())
}

/// Reads a record. `expires_at` is in whole seconds, rounded up when it was written.
pub(super) fn read_record(table: &str, item: Item) -> Result<BatchRecord, MalformedItem> {
    let mut item = StoredItem::new(table, BATCH_ID, item)?;
    let batch_id: BatchId = item
        .key()
        .parse()
        .map_err(|error| item.malformed(BATCH_ID, error))?;
    let bodies = bodies(&mut item)?;
    let lists_claims = bodies.lists_claims();
    let log = log_items::read(&mut item, &bodies)?;
    Ok(BatchRecord {
        batch_id,
        status: status(&mut item)?,
        due_at: required(&mut item, "dueAt", StoredItem::time_ms)?,
        source: required(&mut item, "source", StoredItem::text)?,
        batch_key: item.text("batchKey")?,
        period: period(&mut item)?,
        created_at: required(&mut item, "createdAt", StoredItem::time_ms)?,
        closes_at: required(&mut item, "closesAt", StoredItem::time_ms)?,
        shards: match lists_claims {
            true => 1,
            false => required(&mut item, "shards", StoredItem::number)?,
        },
        bodies,
        dedup_window: match lists_claims {
            true => Duration::from_secs(required(&mut item, "window", StoredItem::number)?),
            false => Duration::ZERO,
        },
        confirmed: required(&mut item, "confirmed", StoredItem::number)?,
        uncertain: required(&mut item, "uncertain", StoredItem::number)?,
        settled: seqs(&mut item, "settled")?.unwrap_or_default(),
        claimed: seqs(&mut item, "claimed")?.unwrap_or_default(),
        chunks: seqs(&mut item, "chunks")?.unwrap_or_default(),
        counts_version: required(&mut item, "accounts", StoredItem::number)?,
        log,
        sealed_at: item.time_ms("sealedAt")?,
        witnessed: seqs(&mut item, "witnessed")?.unwrap_or_default(),
        witnessed_chunks: seqs(&mut item, "witnessedChunks")?.unwrap_or_default(),
        delivered: seqs(&mut item, "delivered")?.unwrap_or_default(),
        set_aside: seqs(&mut item, "setAside")?.unwrap_or_default(),
        set_asides: item.number("setAsides")?.unwrap_or_default(),
        quarantine: item.string("quarantine")?,
        witnesses: required(&mut item, "witnesses", StoredItem::number)?,
        lease: lease(&mut item)?,
        attempts: required(&mut item, "attempts", StoredItem::number)?,
        parts: parts(&mut item)?,
        verify_at: item.time_ms("verifyAt")?,
        turn_at: item.time_ms("turnAt")?,
        last_failure: last_failure(&mut item)?,
        completed_at: item.time_ms("completedAt")?,
        error: item.string("error")?,
        expires_at: item.time_secs("expiresAt")?,
        notes: notes(&mut item)?,
        notices: notices(&mut item)?,
        notes_count: item.number("noteCount")?.unwrap_or_default(),
    })
}

/// Reads an entry of `status-index`.
pub(super) fn read_overdue(table: &str, item: Item) -> Result<Overdue, MalformedItem> {
    let mut item = StoredItem::new(table, BATCH_ID, item)?;
    let batch_id: BatchId = item
        .key()
        .parse()
        .map_err(|error| item.malformed(BATCH_ID, error))?;
    let source: SourceArn = required(&mut item, "source", StoredItem::text)?;
    Ok(Overdue {
        batch_id,
        source,
        due_at: required(&mut item, "dueAt", StoredItem::time_ms)?,
    })
}

fn status(item: &mut StoredItem<'_>) -> Result<Option<Status>, MalformedItem> {
    let Some(text) = item.string("status")? else {
        return Ok(None);
    };
    match Status::ALL
        .into_iter()
        .find(|status| status.as_str() == text)
    {
        Some(status) => Ok(Some(status)),
        None => Err(item.malformed("status", format_args!("not a status: got `{text}`"))),
    }
}

fn period(item: &mut StoredItem<'_>) -> Result<Option<Period>, MalformedItem> {
    let Some(begins) = item.time_ms("periodBegins")? else {
        return Ok(None);
    };
    let ends = required(item, "periodEnds", StoredItem::time_ms)?;
    Ok(Some(Period { begins, ends }))
}

fn bodies(item: &mut StoredItem<'_>) -> Result<Bodies, MalformedItem> {
    match item.string(BODIES)? {
        None => Ok(Bodies::Items),
        Some(text) => text.parse().map_err(|error| {
            item.malformed(BODIES, format_args!("unknown: got `{text}`, {error}"))
        }),
    }
}

fn last_failure(item: &mut StoredItem<'_>) -> Result<Option<Failure>, MalformedItem> {
    let (at, text) = (item.time_ms("lastFailureAt")?, item.string("lastFailure")?);
    Ok(at.zip(text).map(|(at, text)| Failure { at, text }))
}

fn lease(item: &mut StoredItem<'_>) -> Result<Option<Lease>, MalformedItem> {
    match item.text("lockedBy")? {
        None => Ok(None),
        Some(owner) => Ok(Some(Lease {
            owner,
            until: required(item, "lockedUntil", StoredItem::time_ms)?,
        })),
    }
}

fn notes(item: &mut StoredItem<'_>) -> Result<Vec<OperatorNote>, MalformedItem> {
    let notes = item.maps("notes")?;
    let note = |note| {
        let mut note = item.nested(note);
        Ok(OperatorNote {
            at: required(&mut note, "at", StoredItem::time_ms)?,
            by: required(&mut note, "by", StoredItem::string)?,
            action: required(&mut note, "action", StoredItem::string)?,
            why: required(&mut note, "why", StoredItem::string)?,
        })
    };
    notes.into_iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::batch::{LogResolution, LogState, Notice, PartRecord, PartState};
    use protocol::seqs::SeqSet;
    use protocol::time::Timestamp;

    use crate::aws::attributes::b;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    fn full() -> BatchRecord {
        let at = Timestamp::from_ms(1_700_000_000_001);
        let source = "arn:aws:sqs:eu-west-1:1:q".parse().unwrap();
        let mut record = BatchRecord::open(
            BATCH.parse().unwrap(),
            source,
            Some("k".parse().unwrap()),
            10,
            at,
            at,
        );
        record.settled = (0..5).collect();
        record.witnessed = [7].into_iter().collect();
        record.sealed_at = Some(at);
        record.verify_at = Some(at);
        record.completed_at = Some(at);
        record.error = Some("no".to_owned());
        record.expires_at = Some(Timestamp::from_ms(1_800_000_000_000));
        record.lease = Some(Lease {
            owner: "f/1".parse().unwrap(),
            until: at,
        });
        record.notices = vec![
            Notice::of_error(&record, "no", at),
            Notice::of_completion(&record, at),
        ];
        record.delivered = (10..12).collect();
        record.set_aside = [20].into_iter().collect();
        record.set_asides = 1;
        record.quarantine = Some("why".to_owned());
        let part = |state| PartRecord {
            state,
            ..PartRecord::frozen((0..3).collect(), [9; 32], None)
        };
        record.parts = vec![
            part(PartState::Delivered {
                receipt: "r".to_owned(),
                at: Some(at),
            }),
            PartRecord {
                members: SeqSet::new(),
                ..part(PartState::SetAside)
            },
            PartRecord {
                sink: Some("file:///out".to_owned()),
                file_number: Some(7),
                ..part(PartState::Frozen)
            },
        ];
        record
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        assert_eq!(read_record("t", record_item(&full())).unwrap(), full());
        let at = Timestamp::from_ms(5);
        let bare = BatchRecord::open(full().batch_id, full().source, None, 1, at, at);
        assert_eq!(read_record("t", record_item(&bare)).unwrap(), bare);
        assert!(!record_item(&bare).contains_key("settled"));
    }

    /// The record of a batch of the log with every attribute that only such a record has.
    fn of_log() -> BatchRecord {
        let bodies = "log:s3://bucket/prefix".parse().unwrap();
        let mut record = full().with_bodies(bodies, Duration::from_secs(60));
        record.log = Some(LogState {
            reserved: 9,
            reserved_bytes: 90,
            slots: 2,
            last_at: Timestamp::from_ms(7),
            resolution: Some(LogResolution {
                duplicates: [1].into_iter().collect(),
                conflicts: [2].into_iter().collect(),
                is_reported: false,
            }),
        });
        record
    }

    #[test]
    fn a_record_of_the_log_reads_back_and_older_code_refuses_it() {
        let item = record_item(&of_log());
        assert_eq!(item.get("formatVersion"), Some(&n(2)));
        assert_eq!(read_record("t", item).unwrap(), of_log());
    }

    #[test]
    fn a_record_of_the_log_with_a_missing_or_wrong_attribute_is_refused_by_its_name() {
        for name in ["reserved", "reservedBytes", "slots", "lastAt"] {
            let mut item = record_item(&of_log());
            item.remove(name);
            let error = read_record("t", item).unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}`: missing")), "{error}");
        }
        let mut item = record_item(&of_log());
        item.insert("resolution".to_owned(), s("else"));
        let error = read_record("t", item).unwrap_err().to_string();
        assert!(error.contains("not a resolution: got `else`"), "{error}");
    }

    #[test]
    fn an_edited_record_is_refused_with_its_key_and_attribute() {
        for (attribute, value) in [
            ("status", s("done")),
            ("dueAt", s("soon")),
            ("shards", n(70_000)),
            ("settled", b([1, 2, 3])),
            ("witnessed", b([1])),
            ("setAside", b([1])),
            ("setAsides", s("x")),
            ("parts", n(1)),
            ("parts", AttributeValue::L(vec![s("part")])),
            ("batchKey", s("")),
            ("confirmed", n(-1)),
            ("formatVersion", n(3)),
        ] {
            let mut item = record_item(&full());
            item.insert(attribute.to_owned(), value);
            let error = read_record("batch-table", item).unwrap_err().to_string();
            assert!(
                error.contains(attribute) && error.contains(BATCH) && error.contains("batch-table"),
                "{error}"
            );
        }
        for attribute in ["dueAt", "source", "lockedUntil", "accounts"] {
            let mut item = record_item(&full());
            item.remove(attribute);
            let error = read_record("t", item).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{attribute}`: missing")),
                "{error}"
            );
        }
    }

    #[test]
    fn an_edited_record_of_a_batch_of_chunks_is_refused_with_its_key_and_attribute() {
        for bodies in ["table", "s3://bucket/prefix/"] {
            let bodies = bodies.parse().unwrap();
            let record = full().with_bodies(bodies, Duration::from_secs(3_600));
            assert_eq!(read_record("t", record_item(&record)).unwrap(), record);
            for (attribute, value, named) in [
                ("bodies", Some(s("elsewhere")), "bodies"),
                ("bodies", Some(AttributeValue::Bool(true)), "bodies"),
                // Without `bodies`, the record reads like one of an earlier version, and lacks an attribute of those.
                ("bodies", None, "shards"),
                ("window", Some(s("an hour")), "window"),
                ("window", None, "window"),
                ("claimed", Some(b([1, 2, 3])), "claimed"),
                ("chunks", Some(b([1, 2, 3])), "chunks"),
                ("witnessedChunks", Some(s("0")), "witnessedChunks"),
            ] {
                let mut item = record_item(&record);
                match value {
                    Some(value) => item.insert(attribute.to_owned(), value),
                    None => item.remove(attribute),
                };
                let error = read_record("batch-table", item).unwrap_err().to_string();
                let words = format!("table `batch-table`, item `{BATCH}`, attribute `{named}`: ");
                assert!(error.starts_with(&words), "{error}");
            }
        }
    }
}
