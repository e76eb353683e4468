//! Items of the batch table: a batch record as attributes, and back.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use protocol::batch::{BatchRecord, Failure, Lease, Listing, OperatorNote, Status};
use protocol::bodies::Bodies;
use protocol::ids::BatchId;
use protocol::limits::STATUS_SHARDS;
use protocol::period::Period;
use shared::named_items::ANSWERS;
use shared::ports::Overdue;

use crate::attributes::{
    Item, MalformedItem, StoredItem, item_of, list, ms, n, required, s, seqs_value, ttl,
};
use crate::notice_items::{notice_value, read_notice};
use crate::part_items::{part_value, read_part};
use crate::reservation_items::{read_reservations, reservation_item};

/// Partition key: the batch id.
pub(crate) const BATCH_ID: &str = "batchId";
/// Partition key of `status-index`: the status and a shard.
pub(crate) const STATUS_SHARD: &str = "statusShard";
/// Where the bodies are; absent if they are in the lock items.
const BODIES: &str = "bodies";
/// Returns the key of `status-index` for a batch with this status.
pub(crate) fn status_shard(status: Status, batch: BatchId) -> AttributeValue {
    listing_shard(Listing::Status(status), batch)
}

/// Returns the key of `status-index` for a batch in this list.
pub(crate) fn listing_shard(listing: Listing, batch: BatchId) -> AttributeValue {
    let shard = batch.random_byte() % STATUS_SHARDS;
    listing_shard_key(listing, shard)
}

/// Returns a key of `status-index`.
pub(crate) fn listing_shard_key(listing: Listing, shard: u8) -> AttributeValue {
    s(format!("{}#{shard}", listing.as_str()))
}

/// Returns a record as an item. Fields that are `None` or empty have no attribute.
pub(crate) fn record_item(record: &BatchRecord) -> Item {
    let (key, period) = (record.batch_key.as_ref(), record.period);
    let (lease, failure) = (record.lease.as_ref(), record.last_failure.as_ref());
    let is_log = record.bodies.is_log();
    let window = record.dedup_window.as_secs();
    let shard = |listing| listing_shard(listing, record.batch_id);
    let positive = |count: u64| (count > 0).then(|| n(count));
    let mut item = item_of([
        (BATCH_ID, Some(s(record.batch_id.to_string()))),
        ("status", record.status.map(|status| s(status.as_str()))),
        (STATUS_SHARD, record.listing().map(shard)),
        ("dueAt", Some(ms(record.due_at))),
        ("source", Some(s(record.source.as_str()))),
        ("batchKey", key.map(|key| s(key.as_str()))),
        ("periodBegins", period.map(|period| ms(period.begins))),
        ("periodEnds", period.map(|period| ms(period.ends))),
        ("createdAt", Some(ms(record.created_at))),
        ("closesAt", Some(ms(record.closes_at))),
        // Without `shards`, a batch-processor of an earlier version refuses the record. It would look for the claims in the
        // index, find none, and complete the batch.
        ("shards", (!is_log).then(|| n(record.shards))),
        (BODIES, is_log.then(|| s(record.bodies.to_string()))),
        ("window", is_log.then(|| n(window))),
        ("confirmed", Some(n(record.confirmed))),
        ("uncertain", Some(n(record.uncertain))),
        ("settled", seqs_value(&record.settled)),
        ("claimed", seqs_value(&record.claimed)),
        ("accounts", Some(n(record.counts_version))),
        ("sealedAt", record.sealed_at.map(ms)),
        ("witnessed", seqs_value(&record.witnessed)),
        ("witnesses", Some(n(record.witnesses))),
        ("lockedBy", lease.map(|lease| s(lease.owner.as_str()))),
        ("lockedUntil", lease.map(|lease| ms(lease.until))),
        ("attempts", Some(n(record.attempts))),
        ("parts", list(&record.parts, part_value)),
        ("delivered", seqs_value(&record.delivered)),
        ("setAside", seqs_value(&record.set_aside)),
        ("setAsides", positive(record.set_asides)),
        ("quarantine", record.quarantine.as_deref().map(s)),
        ("verifyAt", record.verify_at.map(ms)),
        ("turnAt", record.turn_at.map(ms)),
        ("lastFailure", failure.map(|failure| s(&failure.text))),
        ("lastFailureAt", failure.map(|failure| ms(failure.at))),
        ("completedAt", record.completed_at.map(ms)),
        ("error", record.error.as_deref().map(s)),
        ("expiresAt", record.expires_at.map(ttl)),
        ("notices", list(&record.notices, notice_value)),
        ("notes", list(&record.notes, note_value)),
        ("noteCount", positive(record.notes_count)),
    ]);
    item.extend(record.reservations.iter().flat_map(reservation_item));
    item
}

/// Returns a note as an element of `notes`.
pub(crate) fn note_value(note: &OperatorNote) -> AttributeValue {
    AttributeValue::M(item_of([
        ("at", ms(note.at)),
        ("by", s(&note.by)),
        ("action", s(&note.action)),
        ("why", s(&note.why)),
    ]))
}

/// Reads a record. `expires_at` is in whole seconds, rounded up when it was written.
pub(crate) fn read_record(table: &str, item: Item) -> Result<BatchRecord, MalformedItem> {
    let mut item = StoredItem::new(table, BATCH_ID, item)?;
    let bodies = bodies(&mut item)?;
    let is_log = bodies.is_log();
    let reservations = read_reservations(&mut item, &bodies)?;
    Ok(BatchRecord {
        batch_id: item.parsed_key(BATCH_ID)?,
        status: status(&mut item)?,
        due_at: required(&mut item, "dueAt", StoredItem::time_ms)?,
        source: required(&mut item, "source", StoredItem::parsed)?,
        batch_key: item.parsed("batchKey")?,
        period: period(&mut item)?,
        created_at: required(&mut item, "createdAt", StoredItem::time_ms)?,
        closes_at: required(&mut item, "closesAt", StoredItem::time_ms)?,
        shards: match is_log {
            true => 1,
            false => required(&mut item, "shards", StoredItem::number)?,
        },
        bodies,
        dedup_window: match is_log {
            true => Duration::from_secs(required(&mut item, "window", StoredItem::number)?),
            false => Duration::ZERO,
        },
        confirmed: required(&mut item, "confirmed", StoredItem::number)?,
        uncertain: required(&mut item, "uncertain", StoredItem::number)?,
        settled: item.decoded("settled")?.unwrap_or_default(),
        claimed: item.decoded("claimed")?.unwrap_or_default(),
        counts_version: required(&mut item, "accounts", StoredItem::number)?,
        reservations,
        sealed_at: item.time_ms("sealedAt")?,
        witnessed: item.decoded("witnessed")?.unwrap_or_default(),
        delivered: item.decoded("delivered")?.unwrap_or_default(),
        set_aside: item.decoded("setAside")?.unwrap_or_default(),
        set_asides: item.number("setAsides")?.unwrap_or_default(),
        quarantine: item.string("quarantine")?,
        witnesses: required(&mut item, "witnesses", StoredItem::number)?,
        lease: lease(&mut item)?,
        attempts: required(&mut item, "attempts", StoredItem::number)?,
        parts: item.list("parts", read_part)?,
        verify_at: item.time_ms("verifyAt")?,
        turn_at: item.time_ms("turnAt")?,
        last_failure: last_failure(&mut item)?,
        completed_at: item.time_ms("completedAt")?,
        error: item.string("error")?,
        expires_at: item.time_secs("expiresAt")?,
        notes: item.list("notes", read_note)?,
        notices: item.list("notices", read_notice)?,
        notes_count: item.number("noteCount")?.unwrap_or_default(),
    })
}

/// Reads an entry of `status-index`: of a batch, or of the answers about one.
pub(crate) fn read_overdue(table: &str, item: Item) -> Result<Overdue, MalformedItem> {
    let mut item = StoredItem::new(table, BATCH_ID, item)?;
    Ok(Overdue {
        batch_id: item.parsed_key_after(ANSWERS, BATCH_ID)?,
        source: required(&mut item, "source", StoredItem::parsed)?,
        due_at: required(&mut item, "dueAt", StoredItem::time_ms)?,
    })
}

fn status(item: &mut StoredItem<'_>) -> Result<Option<Status>, MalformedItem> {
    let Some(text) = item.string("status")? else {
        return Ok(None);
    };
    let mut all = Status::ALL.into_iter();
    match all.find(|status| status.as_str() == text) {
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
    match item.parsed("lockedBy")? {
        None => Ok(None),
        Some(owner) => Ok(Some(Lease {
            owner,
            until: required(item, "lockedUntil", StoredItem::time_ms)?,
        })),
    }
}

fn read_note(mut note: StoredItem<'_>) -> Result<OperatorNote, MalformedItem> {
    Ok(OperatorNote {
        at: required(&mut note, "at", StoredItem::time_ms)?,
        by: required(&mut note, "by", StoredItem::string)?,
        action: required(&mut note, "action", StoredItem::string)?,
        why: required(&mut note, "why", StoredItem::string)?,
    })
}

#[cfg(test)]
mod tests {
    use protocol::batch::{Notice, PartRecord, PartState};
    use protocol::seqs::SeqSet;
    use protocol::time::Timestamp;

    use super::*;
    use crate::attributes::b;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    /// Returns a record with notices and with a part without members, which no property draws.
    fn record() -> BatchRecord {
        let at = Timestamp::from_ms(1_700_000_000_001);
        let source = "arn:aws:sqs:eu-west-1:1:q".parse().unwrap();
        let mut record = BatchRecord::open(BATCH.parse().unwrap(), source, None, 10, at, at);
        record.lease = Some(Lease {
            owner: "f/1".parse().unwrap(),
            until: at,
        });
        record.notices = vec![
            Notice::of_error(&record, "no", at),
            Notice::of_completion(&record, at),
        ];
        record.parts = vec![PartRecord {
            state: PartState::SetAside,
            members: SeqSet::new(),
            ..PartRecord::frozen((0..3).collect(), [9; 32], None)
        }];
        record
    }

    fn with_bodies(bodies: &str) -> BatchRecord {
        record().with_bodies(bodies.parse().unwrap(), Duration::from_secs(60))
    }

    fn of_log() -> BatchRecord {
        with_bodies("log:s3://bucket/prefix")
    }

    /// Returns why a record is refused if an attribute has another value, or is missing. The error names the record and the attribute
    /// `named`.
    fn refusal(
        record: &BatchRecord,
        attribute: &str,
        value: Option<AttributeValue>,
        named: &str,
    ) -> String {
        let mut item = record_item(record);
        match value {
            Some(value) => item.insert(attribute.to_owned(), value),
            None => item.remove(attribute),
        };
        let error = read_record("batch-table", item).unwrap_err().to_string();
        let words = format!("table `batch-table`, item `{BATCH}`, attribute `{named}`: ");
        let problem = error.strip_prefix(&words);
        problem.expect(&error).to_owned()
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let item = record_item(&record());
        assert!(!item.contains_key("settled"));
        assert_eq!(read_record("t", item).unwrap(), record());
    }

    #[test]
    fn a_record_of_the_log_reads_back_and_older_code_refuses_it() {
        let item = record_item(&of_log());
        assert_eq!(item.get("formatVersion"), Some(&n(2)));
        assert_eq!(read_record("t", item).unwrap(), of_log());
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
            refusal(&record(), attribute, Some(value), attribute);
        }
        let unknown = refusal(&of_log(), "resolution", Some(s("else")), "resolution");
        assert_eq!(unknown, "not a resolution: got `else`");
        for attribute in ["dueAt", "source", "lockedUntil", "accounts"] {
            let problem = refusal(&record(), attribute, None, attribute);
            assert_eq!(problem, "missing");
        }
        for attribute in ["reserved", "reservedBytes", "slots", "lastAt"] {
            let problem = refusal(&of_log(), attribute, None, attribute);
            assert_eq!(problem, "missing");
        }
    }

    #[test]
    fn an_edited_record_of_a_batch_of_the_log_is_refused_with_its_key_and_attribute() {
        for record in ["log:table", "log:s3://bucket/prefix/"].map(with_bodies) {
            assert_eq!(read_record("t", record_item(&record)).unwrap(), record);
            for (attribute, value, named) in [
                ("bodies", Some(s("elsewhere")), "bodies"),
                ("bodies", Some(AttributeValue::Bool(true)), "bodies"),
                // Without `bodies`, the record reads like one of lock items, and lacks an attribute of those.
                ("bodies", None, "shards"),
                ("window", Some(s("an hour")), "window"),
                ("window", None, "window"),
                ("claimed", Some(b([1, 2, 3])), "claimed"),
            ] {
                refusal(&record, attribute, value, named);
            }
        }
    }

    #[test]
    fn a_record_of_a_batch_of_chunks_of_a_former_version_is_refused() {
        for former in ["table", "s3://bucket/prefix/"] {
            let problem = refusal(&of_log(), BODIES, Some(s(former)), BODIES);
            let words = "expected `items`, `log:table` or `log:s3://<bucket>/<prefix>`";
            assert_eq!(problem, format!("unknown: got `{former}`, {words}"));
        }
    }
}
