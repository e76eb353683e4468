//! `batchctl tombstones`.

use std::collections::BTreeMap;
use std::fmt;

use clap::Args;
use futures::stream::{self, StreamExt};
use protocol::batch::BatchRecord;
use protocol::claim::{
    LockItem, LockState, PastDeliveries, SeatResolution, listed_seat_resolution,
};
use protocol::ids::{BatchId, EventId, Seq, SqsMessageId};
use protocol::limits::PAST_DELIVERIES_MAX;
use protocol::log::Owner;
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::ports::StoredEvent;

use crate::change::{ChangeArgs, NOTHING_IS_CHANGED};
use crate::failure::{Done, Failure};
use crate::lock_table::{self, Ended};
use crate::log_index::{Contents, contents, no_index};
use crate::object_events::read_each;
use crate::outcome::Output;
use crate::progress::Progress;
use crate::service::{REQUESTS_MAX, Service};

#[derive(Args)]
pub struct TombstonesArgs {
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// What `tombstones` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Batches of the log that have one of these events.
    batches: usize,
    /// Events that were delivered, and are remembered.
    events: usize,
    /// Messages of other events: they were set aside or rejected, and other messages may claim them.
    messages: usize,
    /// How many of both the lock table remembers already.
    present: usize,
    /// Primed events that the lock table does not remember. The index has only hashes of their ids.
    primed: usize,
    /// Why events of batches could not be read. They are not remembered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<String>,
    done: bool,
}

/// A tombstone of an event, with the seat of its claim, if it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tombstone {
    item: LockItem,
    seat: Option<(BatchId, Seq)>,
}

/// A tombstone that is to be put.
struct Put {
    id: EventId,
    tombstone: Tombstone,
    /// The item in whose place it is put.
    expected: Option<LockItem>,
}

/// What the log remembers.
#[derive(Default)]
struct OfLog {
    batches: usize,
    tombstones: BTreeMap<EventId, Tombstone>,
    unread: Vec<String>,
}

/// Has the lock table remember what the log remembers, as long as it would.
pub async fn run(
    service: &Service,
    args: &TombstonesArgs,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    // Before the index: it has all that these batches have won.
    let batches = complete_batches(service).await?;
    let mut index = contents(service).await?.ok_or_else(no_index)?;
    let of_log = OfLog::read(service, &index, &batches).await?;
    let ended = lock_table::read(service).await?;
    let remembered = ended.iter().filter(|one| one.memory.is_some());
    for one in remembered {
        index.primed.remove(&index.secret.id(&one.id));
    }
    let all = of_log.tombstones.len();
    let is_event = |one: &&Tombstone| !one.item.set_aside;
    let events = of_log.tombstones.values().filter(is_event).count();
    let puts = puts(of_log.tombstones, ended, service.now());
    let mut report = Report {
        batches: of_log.batches,
        events,
        messages: all - events,
        present: all - puts.len(),
        primed: index.primed.len(),
        unread: of_log.unread,
        done: false,
    };
    if operator.is_none() {
        return args.change.only_shown(output, &report, NOTHING_IS_CHANGED);
    }
    let progress = Progress::new(output);
    let requests = puts.iter().map(|one| put(service, one));
    let mut written = stream::iter(requests).buffer_unordered(REQUESTS_MAX);
    let mut count = 0;
    while let Some(result) = written.next().await {
        result?;
        count += 1;
        progress.show(|| format!("tombstones: {count} of {} written", puts.len()));
    }
    drop(progress);
    report.done = true;
    output.print(&report, &report);
    Ok(Done::Yes)
}

async fn put(service: &Service, one: &Put) -> Result<(), Failure> {
    let Put {
        id,
        tombstone,
        expected,
    } = one;
    let items = &service.lock_items;
    let budget = service.budget();
    let put = async |expected: Option<&LockItem>| {
        let remember = || items.remember(id, &tombstone.item, tombstone.seat, expected);
        budget.call(RetryPolicy::ITEMS, remember).await
    };
    // DynamoDB may have removed an item that had ended.
    match put(expected.as_ref()).await? || put(None).await? {
        true => Ok(()),
        false => Err(Failure::Refused(format!(
            "event `{id}`: its lock item changed since it was read. Stop the event source mapping, and run the command again"
        ))),
    }
}

/// Returns the batches of the log of which something is remembered.
///
/// # Errors
/// [`Failure::Refused`] if a batch is not complete, of whatever kind.
async fn complete_batches(service: &Service) -> Result<Vec<Remembered>, Failure> {
    let now = service.now();
    let mut open = lock_table::not_complete(service, |_| true).await?;
    let mut batches = Vec::new();
    for batch in service.catalogue.of_log().await? {
        match service.record(batch).await? {
            Some(record) if !record.bodies.is_log() => {}
            // The list of those that are not complete may be a moment behind.
            Some(record) if record.status.is_some() => {
                open.insert(batch);
            }
            Some(record) => batches.extend(Remembered::of(record, now)),
            None => {}
        }
    }
    lock_table::refuse(&open)?;
    Ok(batches)
}

impl OfLog {
    /// Reads the events of `batches` that the index still remembers.
    async fn read(
        service: &Service,
        index: &Contents,
        batches: &[Remembered],
    ) -> Result<OfLog, Failure> {
        let now = service.now();
        let mut of_log = OfLog::default();
        for remembered in batches {
            of_log.add(service, index, remembered, now).await?;
        }
        Ok(of_log)
    }

    async fn add(
        &mut self,
        service: &Service,
        index: &Contents,
        remembered: &Remembered,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let record = &remembered.record;
        let batch = record.batch_id;
        self.batches += 1;
        let problems = read_each(service, record, &remembered.seqs, |event| {
            let id = index.secret.id(&event.event_id);
            if index.winners.contains(&(id, batch, event.seq)) {
                let tombstone = remembered.tombstone(&event, now);
                self.insert(event.event_id, tombstone);
            }
        });
        let problems = problems.await?.into_iter();
        self.unread
            .extend(problems.map(|problem| format!("batch `{batch}`: {problem}")));
        Ok(())
    }

    fn insert(&mut self, id: EventId, tombstone: Option<Tombstone>) {
        let Some(tombstone) = tombstone else {
            return;
        };
        let merged = match self.tombstones.remove(&id) {
            Some(other) => tombstone.with(other),
            None => tombstone,
        };
        self.tombstones.insert(id, merged);
    }
}

/// A complete batch of which something is remembered.
struct Remembered {
    record: BatchRecord,
    /// The seats of which something is remembered.
    seqs: SeqSet,
}

impl Remembered {
    /// Returns `None` if nothing of the batch is remembered. The lines of a batch that was set aside before it was decided are among the
    /// seats, and not in the index.
    fn of(record: BatchRecord, now: Timestamp) -> Option<Remembered> {
        let remembered = record.claimed.iter();
        let remembered = remembered.filter(|seq| end_of(&record, *seq, now).is_some());
        let seqs: SeqSet = remembered.collect();
        (!seqs.is_empty()).then_some(Remembered { record, seqs })
    }

    /// Returns the tombstone of an event of the batch; `None` if it is not remembered any more.
    fn tombstone(&self, event: &StoredEvent, now: Timestamp) -> Option<Tombstone> {
        let (expires_at, set_aside) = end_of(&self.record, event.seq, now)?;
        Some(Tombstone {
            item: LockItem {
                sqs_message_id: event.sqs_message_id.clone(),
                body_hash: event.body_hash,
                past: BTreeMap::new(),
                state: LockState::Tombstone { expires_at },
                set_aside,
            },
            seat: Some((self.record.batch_id, event.seq)),
        })
    }
}

/// Returns until when the log remembers the event in a seat, and whether it was set aside or rejected, so that only its message is
/// remembered.
fn end_of(record: &BatchRecord, seq: Seq, now: Timestamp) -> Option<(Timestamp, bool)> {
    let (until, set_aside) = match listed_seat_resolution(record, seq, now) {
        SeatResolution::Delivered { until } => (until, false),
        SeatResolution::SetAside { .. } => {
            let owner = Owner::batch(record.batch_id, record.created_at, record.dedup_window);
            (owner.ends_at(), true)
        }
        SeatResolution::Alive
        | SeatResolution::Orphan
        | SeatResolution::Expired
        | SeatResolution::Unknown => return None,
    };
    (until > now).then_some((until, set_aside))
}

impl Tombstone {
    /// Returns one tombstone in the place of two: that of an event that was delivered, or the later one. It has the message of the other
    /// one among its past deliveries.
    #[must_use]
    fn with(self, other: Tombstone) -> Tombstone {
        let rank = |one: &Tombstone| (!one.item.set_aside, one.item.expires_at());
        let (mut kept, other) = match rank(&self) >= rank(&other) {
            true => (self, other),
            false => (other, self),
        };
        let end = other.item.expires_at();
        let message = end.map(|end| (other.item.sqs_message_id, end));
        for (message, until) in other.item.past.into_iter().chain(message) {
            let end = kept.item.past.entry(message).or_insert(until);
            *end = until.max(*end);
        }
        kept.item.past.remove(&kept.item.sqs_message_id);
        // One less than a claim may have: the claim that replaces the tombstone adds its message.
        while kept.item.past.len() >= PAST_DELIVERIES_MAX
            && let Some(first) = first_to_end(&kept.item.past)
        {
            kept.item.past.remove(&first);
        }
        kept
    }
}

fn first_to_end(past: &PastDeliveries) -> Option<SqsMessageId> {
    let first = past.iter().min_by_key(|(_, until)| **until);
    first.map(|(message, _)| message.clone())
}

/// Returns the tombstones that must be put, so that the lock table remembers all of `tombstones` and forgets nothing.
fn puts(tombstones: BTreeMap<EventId, Tombstone>, ended: Vec<Ended>, now: Timestamp) -> Vec<Put> {
    let ended = ended.into_iter();
    let ended = ended.filter(|one| tombstones.contains_key(&one.id));
    let mut items: BTreeMap<EventId, Ended> = ended.map(|one| (one.id.clone(), one)).collect();
    let mut puts = Vec::new();
    let mut put = |id, tombstone, expected| {
        puts.push(Put {
            id,
            tombstone,
            expected,
        });
    };
    for (id, mut tombstone) in tombstones {
        let Some(Ended { item, memory, .. }) = items.remove(&id) else {
            put(id, tombstone, None);
            continue;
        };
        let mut of_item = item.clone();
        of_item.past.retain(|_, until| *until > now);
        let Some(memory) = memory else {
            tombstone.item.past.extend(of_item.past);
            put(id, tombstone, Some(item));
            continue;
        };
        // A claim is remembered as the tombstone that it became.
        let expires_at = memory.until;
        of_item.state = LockState::Tombstone { expires_at };
        of_item.set_aside = memory.set_aside;
        let seat = item.state.claimed_seat();
        let present = Tombstone {
            item: of_item,
            seat,
        };
        let merged = present.clone().with(tombstone);
        if merged.item != present.item {
            put(id, merged, Some(item));
        }
    }
    puts
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.done {
            true => "remembered",
            false => "to be remembered",
        };
        let events = counted(self.events as u64, "event");
        let batches = counted(self.batches as u64, "batch");
        writeln!(f, "{words}: {events} of {batches}")?;
        if self.messages > 0 {
            let messages = counted(self.messages as u64, "message");
            writeln!(f, "{words}: {messages} of events that may come again")?;
        }
        writeln!(f, "there already: {} of them", self.present)?;
        if self.primed > 0 {
            let primed = counted(self.primed as u64, "primed event");
            writeln!(
                f,
                "cannot be remembered: {primed}, because the index has only hashes of their ids"
            )?;
        }
        for problem in &self.unread {
            writeln!(f, "not read: {problem}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
