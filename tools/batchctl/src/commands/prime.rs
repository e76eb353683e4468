//! `batchctl prime`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args};
use protocol::bodies::Bodies;
use protocol::ids::{BodyHash, EventId, SourceArn, SqsMessageId};
use protocol::limits::DEDUP_WINDOW_MAX;
use protocol::log::{Entry, IndexSecret, NO_BODY, Owner, RunList};
use protocol::retry::RetryPolicy;
use protocol::text::counted;
use serde::Serialize;

use crate::change::{ChangeArgs, NOTHING_IS_CHANGED};
use crate::failure::{Done, Failure};
use crate::lock_table::{self, Ended, Memory};
use crate::log_index::{NewEntries, commit, place, store, store_entries};
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
    /// What other messages must have to be duplicates, if it is known. Those with another body are conflicts.
    body: Option<BodyHash>,
    owner: Owner,
}

/// What `prime` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Events that are remembered: messages of them are duplicates.
    events: usize,
    /// Messages that are remembered although their events are not.
    messages: usize,
    done: bool,
}

/// Has the index remember events that were delivered before it knew them.
pub async fn run(service: &Service, args: &PrimeArgs, output: Output<'_>) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    let bodies = place(service, args.bodies.as_ref()).await?;
    let remembered = match &args.ids {
        Some(path) => {
            ensure_begun(service).await?;
            of_file(service, args, path).await?
        }
        None => of_lock_table(service).await?,
    };
    let is_event = |one: &&Remembered| matches!(one.owner, Owner::Primed { .. });
    let events = remembered.iter().filter(is_event).count();
    let mut report = Report {
        events,
        messages: remembered.len() - events,
        done: false,
    };
    if operator.is_none() {
        return args.change.only_shown(output, &report, NOTHING_IS_CHANGED);
    }
    // Stored once, because batches may commit more often than many runs are stored. After `rebuild-dedup` the secret is another one.
    let mut stored = None;
    commit(service, &bodies, async |open, list: &RunList| {
        let runs = match stored.take().filter(|(secret, _)| *secret == open.secret) {
            Some((_, runs)) => runs,
            None => {
                let entries = entries(&remembered, open.secret);
                store_entries(service, &bodies, entries, &[]).await?
            }
        };
        let next = list.with_all(runs.clone());
        stored = Some((open.secret, runs));
        Ok(next)
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
            body: one.body.map_or(NO_BODY, |body| secret.body(body)),
        };
        (one.owner, entry)
    };
    remembered.iter().map(entry).collect()
}

/// Fails if an index would begin that does not know the events in the lock table.
async fn ensure_begun(service: &Service) -> Result<(), Failure> {
    let budget = service.budget();
    let index = store(service, &budget).read().await?;
    let has_items = || service.lock_store.has_items();
    match index.is_none() && budget.call(RetryPolicy::CONTROL, has_items).await? {
        true => Err(Failure::Refused(
            "index: none, and the lock table has items: run `prime --lock-table` first".to_owned(),
        )),
        false => Ok(()),
    }
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
    let text = std::fs::read_to_string(path).map_err(Failure::file(path))?;
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
            body: None,
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
    // A claim may still be made in a batch that is open. Batches of the log claim nothing.
    let open = lock_table::not_complete(service, |batch| !batch.bodies.is_log()).await?;
    lock_table::refuse(&open)?;
    let ended = lock_table::read(service).await?;
    let now = service.now();
    let mut remembered = Vec::new();
    for Ended { id, item, memory } in ended {
        let owner = memory.map(|Memory { until, set_aside }| match set_aside {
            true => Owner::PrimedMessage { until },
            false => Owner::Primed { until },
        });
        remembered.extend(owner.map(|owner| Remembered {
            id: id.clone(),
            message: Some(item.sqs_message_id.clone()),
            body: Some(item.body_hash),
            owner,
        }));
        let past = item.past.into_iter();
        for (message, until) in past.filter(|(_, until)| lock_table::still_decides(*until, now)) {
            remembered.push(Remembered {
                id: id.clone(),
                message: Some(message),
                body: None,
                owner: Owner::PrimedMessage { until },
            });
        }
    }
    Ok(remembered)
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
        Ok(())
    }
}
