//! Reads the events of a batch that are not delivered, as lines for a file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use protocol::batch::{BatchRecord, Role, lag, role};
use protocol::ids::{BatchShard, BodyHash};
use protocol::limits::BATCH_GET_KEYS_MAX;
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::slot::ClaimCounts;
use protocol::text::counted;
use serde::Serialize;
use shared::message_attributes::MessageAttributes;
use shared::ports::{IndexEntry, StoredEvent};
use shared::retry::read_events;

use crate::failure::Failure;
use crate::object_events::{lost_slots, objects, read, slots, unreported, unresolved};
use crate::service::Service;

/// What was read.
#[derive(Debug, Default)]
pub struct Saved {
    pub events: u64,
    /// Why events could not be read, for each load or body that is lost.
    pub lost: Vec<String>,
}

/// Adds a line to the file.
type Add<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

/// An event as a line of JSON: the fields of the sinks' format `envelope`, without a part.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    batch_id: String,
    seq: u32,
    event_id: &'a str,
    sqs_message_id: &'a str,
    source: &'a str,
    sent_at: u64,
    body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<&'a MessageAttributes>,
}

/// Gets an event.
type Each<'a> = dyn FnMut(&StoredEvent) -> Result<(), Failure> + 'a;

/// Adds a line for every event of `record` that was neither delivered nor set aside.
///
/// # Errors
/// As [`read_each`].
pub async fn save(
    service: &Service,
    record: &BatchRecord,
    add: &mut Add<'_>,
) -> Result<Saved, Failure> {
    let mut add = |event: &StoredEvent| {
        add(&line(event)).map_err(Failure::file(Path::new("the file of events")))
    };
    read_each(service, record, &mut add).await
}

/// Reads every event of `record` that was neither delivered nor set aside, in any order.
///
/// # Errors
/// [`Failure::Refused`] if the index does not show all of them yet; try again.
pub async fn read_each(
    service: &Service,
    record: &BatchRecord,
    each: &mut Each<'_>,
) -> Result<Saved, Failure> {
    match record.bodies.is_log() {
        true => read_objects(service, record, each).await,
        false => read_items(service, record, each).await,
    }
}

async fn read_items(
    service: &Service,
    record: &BatchRecord,
    each: &mut Each<'_>,
) -> Result<Saved, Failure> {
    let mut saved = Saved::default();
    let mut seqs = SeqSet::new();
    for shard in 0..record.shards {
        let shard = BatchShard {
            batch: record.batch_id,
            shard,
        };
        let mut after: Option<IndexEntry> = None;
        loop {
            let query = || service.lock_store.index(shard, after.as_ref());
            let page = service.budget().call(RetryPolicy::INDEX, query).await?;
            let of_part = |entry: &&IndexEntry| role(record, entry.seq) != Role::Leftover;
            let ids: Vec<_> = page.entries.iter().filter(of_part).collect();
            for ids in ids.chunks(BATCH_GET_KEYS_MAX) {
                let ids: Vec<_> = ids.iter().map(|entry| entry.event_id.clone()).collect();
                let budget = service.budget();
                let read = read_events(&*service.lock_store, &ids, &service.permits, &budget);
                for event in read.await? {
                    // The index may be behind: the item may be another batch's claim by now.
                    if event.shard == shard && role(record, event.seq) != Role::Leftover {
                        seqs.insert(event.seq);
                        pass(service, event, each, &mut saved).await?;
                    }
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    let frozen = record.undelivered_of_frozen_part().difference_len(&seqs);
    let lag = lag(&with_counts(service, record).await?, &seqs);
    let counted = lag.map_or(0, |lag| lag.confirmed.saturating_sub(lag.found));
    let witnessed = lag.map_or(0, |lag| lag.witnessed_missing);
    if frozen + counted + witnessed > 0 {
        return Err(Failure::Refused(format!(
            "batch `{}`: the index does not show every claim yet: missing are {frozen} of the frozen part, {counted} counted and {witnessed} \
             witnessed ones; try again",
            record.batch_id
        )));
    }
    Ok(saved)
}

/// Returns the record with the counts of its claims. Its slots have them if it was put in error before they were read.
async fn with_counts(service: &Service, record: &BatchRecord) -> Result<BatchRecord, Failure> {
    let mut record = record.clone();
    if !record.is_resolved() {
        let counts = ClaimCounts::of(&slots(service, &record).await?);
        record.confirmed = counts.confirmed;
        record.settled = counts.settled;
        record.witnessed.extend_from(&counts.witnessed);
    }
    Ok(record)
}

async fn read_objects(
    service: &Service,
    record: &BatchRecord,
    each: &mut Each<'_>,
) -> Result<Saved, Failure> {
    let mut saved = Saved::default();
    let mut seqs = record.undelivered();
    seqs.extend_from(&record.undelivered_of_frozen_part());
    seqs.extend_from(&unreported(record));
    let decided = seqs.clone();
    // Seats of holes are among these.
    seqs.extend_from(&unresolved(record));
    let objects = objects(service, record, &seqs).await?;
    saved.lost.extend(lost_slots(&decided, &objects));
    for (object, wanted) in objects {
        let (events, problem) = read(service, record, &object, &wanted).await?;
        let missing = wanted.len().saturating_sub(events.len() as u64);
        let with = |problem| format!("{problem}, with {}", counted(missing, "event"));
        saved.lost.extend(problem.map(with));
        for event in events {
            pass(service, event, each, &mut saved).await?;
        }
    }
    Ok(saved)
}

/// Passes an event on with its body, which may be in an object.
async fn pass(
    service: &Service,
    mut event: StoredEvent,
    each: &mut Each<'_>,
    saved: &mut Saved,
) -> Result<(), Failure> {
    if let Some(object) = event.overflow.take() {
        let get = || service.overflow_store.get(&object);
        let body: Option<Arc<str>> = service.budget().call(RetryPolicy::ITEMS, get).await?;
        let claimed = |body: &Arc<str>| BodyHash::of(body.as_bytes()) == event.body_hash;
        match body.filter(claimed) {
            Some(body) => event.body = body,
            None => {
                saved.lost.push(format!(
                    "body `{object}`: missing, or not the one that was claimed"
                ));
                return Ok(());
            }
        }
    }
    each(&event)?;
    saved.events += 1;
    Ok(())
}

fn line(event: &StoredEvent) -> Vec<u8> {
    let line = Line {
        batch_id: event.shard.batch.to_string(),
        seq: event.seq,
        event_id: event.event_id.as_str(),
        sqs_message_id: event.sqs_message_id.as_str(),
        source: event.source.as_str(),
        sent_at: event.sent_at.as_ms(),
        body: &event.body,
        attributes: event.attributes.as_ref(),
    };
    let mut text = serde_json::to_vec(&line).expect("texts and numbers are JSON");
    text.push(b'\n');
    text
}
