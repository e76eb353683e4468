//! `batchctl dedup status` and `drop-run`.

use std::fmt;

use clap::{Args, Subcommand};
use protocol::ids::BatchId;
use protocol::log::{ENTRY_BYTES, RunList};
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::change::{ChangeArgs, Selection};
use crate::commands::retry::{self, RetryArgs};
use crate::failure::{Done, Failure};
use crate::filter::{Filter, State};
use crate::interrupt::Interrupt;
use crate::log_index::{commit, no_index, store};
use crate::outcome::{Kept, Output, line};
use crate::service::Service;
use crate::times::with_distance;

/// What the errors of batches have in them that wait for the index.
const OF_INDEX: &str = "index: ";

#[derive(Subcommand)]
pub enum DedupCommand {
    /// Show the index of the log: runs, entries, bytes, and until when they count
    Status,
}

#[derive(Args)]
pub struct DropRunArgs {
    /// The name of the run, from the error of a batch: `run/<name>`
    pub run: String,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// What `dedup status` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    epoch: Uuid,
    /// How often the manifest was written.
    version: u64,
    bodies: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<Uuid>,
    runs: usize,
    /// Runs that no merge has taken yet.
    unmerged: usize,
    entries: u64,
    bytes: u64,
    /// When the first of the runs ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_ends_at: Option<Timestamp>,
    /// When the last of the runs ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_ends_at: Option<Timestamp>,
    /// Entries that ended by then are left out: a batch with an older message cannot be decided.
    left_out_until: Timestamp,
    /// The batch that commits next, after others came first several times.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<BatchId>,
    #[serde(skip)]
    now: Timestamp,
}

/// What `drop-run` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Dropped {
    run: Uuid,
    entries: u64,
    done: bool,
}

fn run_name(text: &str) -> Result<Uuid, Failure> {
    let name = text.strip_prefix("run/").unwrap_or(text);
    name.parse().map_err(|_| {
        Failure::Usage(format!(
            "run `{text}`: no such name: expected `run/` and a UUID"
        ))
    })
}

/// Shows the index.
pub async fn status(service: &Service, output: Output<'_>) -> Result<Done, Failure> {
    let budget = service.budget();
    let index = store(service, &budget);
    let open = index.read().await?.ok_or_else(no_index)?;
    let manifest = &open.manifest.value;
    let list = index.list_for(manifest, service.now()).await?;
    let entries = list.runs.iter().map(|run| run.entries).sum();
    let status = Status {
        epoch: open.epoch,
        version: open.manifest.version,
        bodies: manifest.bodies.to_string(),
        list: manifest.list,
        runs: list.runs.len(),
        unmerged: list.runs.iter().filter(|run| run.batch.is_some()).count(),
        entries,
        bytes: entries * ENTRY_BYTES as u64,
        first_ends_at: list.runs.iter().map(|run| run.events_end_at).min(),
        last_ends_at: list.runs.iter().map(|run| run.events_end_at).max(),
        left_out_until: list.left_out_until,
        turn: manifest.turn.map(|turn| turn.batch),
        now: service.now(),
    };
    output.print(&status, &status);
    Ok(Done::Yes)
}

/// Takes a run that cannot be read out of the list, and has the batches tried again that are in error because of the index.
pub async fn drop_run(
    service: &Service,
    args: &DropRunArgs,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    let name = run_name(&args.run)?;
    let budget = service.budget();
    let index = store(service, &budget);
    let none = || Failure::NotFound(format!("run `{name}`: not in the list of the index"));
    let open = index.read().await?.ok_or_else(none)?;
    let list = index.list_for(&open.manifest.value, service.now()).await?;
    let run = list.runs.iter().find(|run| run.run == name);
    let run = run.ok_or_else(none)?;
    let mut dropped = Dropped {
        run: name,
        entries: run.entries,
        done: false,
    };
    if operator.is_none() {
        let to_do = "to drop it, so that messages of its events are delivered again";
        return args.change.only_shown(output, &dropped, to_do);
    }
    let bodies = open.manifest.value.bodies.clone();
    commit(service, &bodies, async |_, list: &RunList| {
        // The reply to an earlier attempt may have been lost.
        Ok(list.without(name).unwrap_or_else(|| list.clone()))
    })
    .await?;
    dropped.done = true;
    output.print(&dropped, &dropped);
    retry_batches(service, &args.change, interrupt, output).await
}

/// Has the batches tried again that are in error because of the index, if there are any. Tells what failed.
pub async fn retry_batches(
    service: &Service,
    change: &ChangeArgs,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let args = RetryArgs {
        selection: Selection {
            batches: Vec::new(),
            filter: Filter {
                status: vec![State::Error],
                error: Some(OF_INDEX.to_owned()),
                ..Filter::default()
            },
        },
        accept_new_sink: false,
        only_notices: false,
        change: change.clone(),
    };
    // One command prints one object.
    let retried = Kept::default();
    let ended = retry::run(service, &args, interrupt, Output::Kept(&retried)).await;
    let mut lines = retried.told();
    if let Err(Failure::Some { .. }) | Ok(Done::Stopped(_)) = ended {
        lines.extend(retried.text().lines().map(str::to_owned));
    }
    lines.iter().for_each(|line| output.tell(line));
    Ok(match ended? {
        Done::NotFound => Done::Yes,
        done => done,
    })
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (epoch, version) = (self.epoch, self.version);
        writeln!(f, "manifest  epoch {epoch}, version {version}")?;
        if let Some(list) = self.list {
            writeln!(f, "list      {list} in `{}`", self.bodies)?;
        }
        let runs = counted(self.runs as u64, "run");
        writeln!(f, "runs      {runs}, {} not merged", self.unmerged)?;
        let entries = counted(self.entries, "entry");
        writeln!(f, "entries   {entries}, {} bytes", self.bytes)?;
        let at = |time| with_distance(time, self.now);
        line(f, "first end ", self.first_ends_at.map(at))?;
        line(f, "last end  ", self.last_ends_at.map(at))?;
        if self.left_out_until > Timestamp::EPOCH {
            let until = with_distance(self.left_out_until, self.now);
            writeln!(f, "left out  entries that ended by {until}")?;
        }
        line(f, "turn      of batch ", self.turn)
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = counted(self.entries, "entry");
        writeln!(f, "run      {}, {entries}", self.run)?;
        match self.done {
            true => writeln!(
                f,
                "dropped: messages of its events are delivered from now on; batches in error because of the index are tried again"
            ),
            false => Ok(()),
        }
    }
}
