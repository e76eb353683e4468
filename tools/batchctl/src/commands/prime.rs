//! `batchctl prime`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args};
use protocol::batch::BatchRecord;
use protocol::bodies::Bodies;
use protocol::claim::{LockItem, LockState, SeatResolution, seat_resolution};
use protocol::ids::{BatchId, EventId, SourceArn, SqsMessageId};
use protocol::limits::DEDUP_WINDOW_MAX;
use protocol::log::{Entry, IndexSecret, Owner, RunList};
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;

use crate::change::ChangeArgs;
use crate::failure::{Done, Failure};
use crate::log_index::{NewEntries, commit, place, store_entries};
use crate::outcome::Output;
use crate::service::Service;
use crate::times::duration;

#[derive(Args)]
#[command(group = ArgGroup::new("from").required(true).args(["ids", "lock_table"]))]
pub struct PrimeArgs {
    /// A file with an event id on each line, without `EVENT_ID_PREFIX`: events that were delivered. A message of one of them is a
    /// duplicate, whatever its body
    #[arg(long, value_name = "FILE")]
    pub ids: Option<PathBuf>,
    /// The lock table: what it remembers, as long as it would
    #[arg(long)]
    pub lock_table: bool,
    /// How long the ids of the file are remembered, from now on [default: `DEDUP_WINDOW`]
    #[arg(long = "for", value_name = "TIME", value_parser = duration, requires = "ids")]
    pub length: Option<Duration>,
    /// ARN of the source, if `EVENT_ID_PREFIX` contains `{source}` [default: the input queue]
    #[arg(long, value_name = "ARN", requires = "ids")]
    pub source: Option<SourceArn>,
    /// Where the entries are stored [default: where the index is, or the `BODIES` of the stack]
    #[arg(long, value_name = "BODIES")]
    pub bodies: Option<Bodies>,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// An event, or only a message of it, that the index is to remember.
struct Remembered {
    id: EventId,
    /// The message that is not to be delivered again.
    message: Option<SqsMessageId>,
    owner: Owner,
}

/// What `prime` prints.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Events that are remembered: messages of them are duplicates.
    events: usize,
    /// Messages that are remembered although their events are not.
    messages: usize,
    done: bool,
    #[serde(skip)]
    hint: String,
}

/// Has the index remember events that were delivered before it knew them.
pub async fn run(service: &Service, args: &PrimeArgs, output: Output) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    let bodies = place(service, args.bodies.as_ref()).await?;
    let remembered = match &args.ids {
        Some(path) => of_file(service, args, path).await?,
        None => of_lock_table(service).await?,
    };
    let is_event = |one: &&Remembered| matches!(one.owner, Owner::Primed { .. });
    let events = remembered.iter().filter(is_event).count();
    let mut report = Report {
        events,
        messages: remembered.len() - events,
        done: false,
        hint: args.change.hint(),
    };
    if operator.is_none() {
        output.print(&report, &report);
        return Ok(Done::OnlyShown);
    }
    // The secret is another one after `rebuild-dedup`, so the entries are made for each attempt.
    commit(service, &bodies, async |_, open, list: &RunList| {
        let entries = entries(&remembered, open.secret);
        let runs = store_entries(service, &bodies, entries).await?;
        Ok(list.with_all(runs))
    })
    .await?;
    report.done = true;
    output.print(&report, &report);
    Ok(Done::Yes)
}

fn entries(remembered: &[Remembered], secret: IndexSecret) -> NewEntries {
    let entry = |one: &Remembered| {
        let entry = Entry {
            id: secret.id(&one.id),
            owner: 0,
            seq: 0,
            // No message has the hash of no message, but for one in 2^64.
            message: one
                .message
                .as_ref()
                .map_or(0, |message| secret.message(message)),
            body: 0,
        };
        (one.owner, entry)
    };
    remembered.iter().map(entry).collect()
}

async fn of_file(
    service: &Service,
    args: &PrimeArgs,
    path: &Path,
) -> Result<Vec<Remembered>, Failure> {
    let length = args.length.unwrap_or(service.dedup_window);
    if length.is_zero() || length > DEDUP_WINDOW_MAX {
        let max = DEDUP_WINDOW_MAX.as_secs();
        return Err(Failure::Usage(format!(
            "`--for`: out of range: got {} s, expected 1 s to {max} s",
            length.as_secs()
        )));
    }
    let until = service.now() + length;
    let prefix = service.prefix(args.source.as_ref()).await?;
    let text = std::fs::read_to_string(path).map_err(|source| Failure::File {
        path: path.display().to_string(),
        source,
    })?;
    // A byte order mark is of the file, not of the first id.
    let lines = text.trim_start_matches('\u{feff}').lines();
    let mut remembered = Vec::new();
    for (number, line) in (1..).zip(lines) {
        if line.is_empty() {
            continue;
        }
        let id = EventId::try_from(format!("{prefix}{line}")).map_err(|error| {
            Failure::Usage(format!("`{}`, line {number}: {error}", path.display()))
        })?;
        remembered.push(Remembered {
            id,
            message: None,
            owner: Owner::Primed { until },
        });
    }
    Ok(remembered)
}

/// Returns what the lock table remembers.
///
/// # Errors
/// [`Failure::Refused`] if events are not delivered yet: the index would not know them.
async fn of_lock_table(service: &Service) -> Result<Vec<Remembered>, Failure> {
    let mut items: Vec<(EventId, LockItem)> = Vec::new();
    let mut each = |id, item| items.push((id, item));
    service.lock_items.scan(&mut each).await?;
    let seats = items
        .iter()
        .filter_map(|(_, item)| item.state.claimed_seat());
    let batches: BTreeSet<BatchId> = seats.map(|seat| seat.batch).collect();
    let mut records: BTreeMap<BatchId, BatchRecord> = BTreeMap::new();
    for batch in batches {
        if let Some(record) = service.record(batch).await? {
            records.insert(batch, record);
        }
    }
    let now = service.now();
    let mut remembered = Vec::new();
    let mut alive = 0;
    for (id, item) in items {
        let record = item
            .state
            .claimed_seat()
            .and_then(|seat| records.get(&seat.batch));
        match owner(&item, record, service.dedup_window, now) {
            Became::Alive => alive += 1,
            Became::Nothing => {}
            Became::Ended(owner) => remembered.push(Remembered {
                id: id.clone(),
                message: Some(item.sqs_message_id.clone()),
                owner,
            }),
        }
        for (message, until) in item.past.into_iter().filter(|(_, until)| *until > now) {
            remembered.push(Remembered {
                id: id.clone(),
                message: Some(message),
                owner: Owner::PrimedMessage { until },
            });
        }
    }
    match alive {
        0 => Ok(remembered),
        count => Err(Failure::Refused(format!(
            "events that are claimed and not delivered yet: got {count}, expected none. Stop the event source mapping, and wait until every batch is complete"
        ))),
    }
}

/// What became of the claim of a lock item.
enum Became {
    Alive,
    /// It ended, and others remember that for a time.
    Ended(Owner),
    /// Nobody needs to remember it.
    Nothing,
}

fn owner(
    item: &LockItem,
    record: Option<&BatchRecord>,
    dedup_window: Duration,
    now: Timestamp,
) -> Became {
    let (until, set_aside) = match item.state {
        LockState::Tombstone { expires_at } => (expires_at, item.set_aside),
        LockState::Live { .. } | LockState::InChunk { .. } => {
            match seat_resolution(record, &item.state, dedup_window, now) {
                SeatResolution::Alive => return Became::Alive,
                SeatResolution::Delivered { until } => (until, false),
                SeatResolution::SetAside { until } => (until, true),
                SeatResolution::Orphan | SeatResolution::Expired | SeatResolution::Unknown => {
                    return Became::Nothing;
                }
            }
        }
    };
    match (until > now, set_aside) {
        (false, _) => Became::Nothing,
        (true, true) => Became::Ended(Owner::PrimedMessage { until }),
        (true, false) => Became::Ended(Owner::Primed { until }),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.done {
            true => "remembered",
            false => "to be remembered",
        };
        writeln!(f, "{words}: {}", counted(self.events as u64, "event"))?;
        if self.messages > 0 {
            let messages = counted(self.messages as u64, "message");
            writeln!(f, "{words}: {messages} of events that may come again")?;
        }
        match self.done {
            true => Ok(()),
            false => writeln!(f, "nothing is changed; to do it, add {}", self.hint),
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::ids::BodyHash;

    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(1_000_000);

    fn item(state: LockState, set_aside: bool) -> LockItem {
        LockItem {
            sqs_message_id: "m".parse().unwrap(),
            body_hash: BodyHash::of(b"body"),
            past: BTreeMap::new(),
            state,
            set_aside,
            place: None,
        }
    }

    #[test]
    fn a_tombstone_is_remembered_to_its_end_and_one_of_a_set_aside_event_by_its_message_only() {
        let became = |expires_at, set_aside| {
            let item = item(LockState::Tombstone { expires_at }, set_aside);
            owner(&item, None, Duration::from_secs(1), NOW)
        };
        let until = NOW + Duration::from_secs(1);
        assert!(matches!(
            became(until, false),
            Became::Ended(Owner::Primed { until: end }) if end == until
        ));
        assert!(matches!(
            became(until, true),
            Became::Ended(Owner::PrimedMessage { until: end }) if end == until
        ));
        assert!(matches!(became(NOW, false), Became::Nothing));
    }

    #[test]
    fn a_claim_whose_batch_is_gone_is_not_remembered() {
        let batch = BatchId::new(uuid::Uuid::from_u128(1));
        let shard = protocol::ids::BatchShard { batch, shard: 0 };
        let item = item(LockState::Live { shard, seq: 0 }, false);
        let became = owner(&item, None, Duration::from_secs(1), NOW);
        assert!(matches!(became, Became::Nothing));
    }
}
