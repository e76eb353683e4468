//! `batchctl watch`.

use std::fmt;
use std::time::Duration;

use clap::Args;
use futures::future::try_join_all;
use protocol::batch::{Listing, Status};
use protocol::time::Timestamp;
use serde::Serialize;

use super::list::{Batches, ListArgs};
use crate::failure::{Done, Failure};
use crate::filter::is_overdue;
use crate::listing::list;
use crate::outcome::Output;
use crate::service::Service;
use crate::times::{short, utc};

/// Clears a terminal, and moves to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

#[derive(Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub list: ListArgs,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub every: u64,
    /// Stop after so many looks [default: at Ctrl-C]
    #[arg(long, value_name = "N")]
    pub looks: Option<u64>,
}

/// One look at the stack.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Look {
    at: Timestamp,
    stack: String,
    open: usize,
    sealed: usize,
    processing: usize,
    error: usize,
    overdue: usize,
    /// When the oldest overdue batch was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    overdue_since: Option<Timestamp>,
    #[serde(flatten)]
    batches: Batches,
    #[serde(skip)]
    clears: bool,
}

/// Prints the state of the stack, again and again.
pub async fn run(service: &Service, args: &WatchArgs, output: Output) -> Result<Done, Failure> {
    let clears = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let every = Duration::from_secs(args.every);
    let mut looks = 0;
    loop {
        let look = look(service, args, clears).await?;
        output.print(&look, &look);
        looks += 1;
        if args.looks.is_some_and(|max| looks >= max) {
            return Ok(Done::Yes);
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Done::Yes),
        }
    }
}

async fn look(service: &Service, args: &WatchArgs, clears: bool) -> Result<Look, Failure> {
    let now = service.now();
    let all = Status::ALL.map(Listing::Status);
    let found = all.map(|listing| service.catalogue.listed(listing, None));
    let found = try_join_all(found).await?;
    let count = |wanted: Status| {
        let position = Status::ALL.iter().position(|status| *status == wanted);
        position.map_or(0, |position| found[position].len())
    };
    let all = Status::ALL.iter().zip(&found);
    let overdue: Vec<Timestamp> = all
        .flat_map(|(status, batches)| batches.iter().map(move |batch| (*status, batch.due_at)))
        .filter(|(status, due_at)| is_overdue(*status, *due_at, now))
        .map(|(_, due_at)| due_at)
        .collect();
    let listing = list(service, &args.list.filter, args.list.limit).await?;
    Ok(Look {
        at: now,
        stack: service.settings.name.clone(),
        open: count(Status::Open),
        sealed: count(Status::Sealed),
        processing: count(Status::Processing),
        error: count(Status::Error),
        overdue: overdue.len(),
        overdue_since: overdue.into_iter().min(),
        batches: Batches::read(service, &listing).await?,
        clears,
    })
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.clears {
            write!(f, "{CLEAR}")?;
        }
        writeln!(f, "{}  {}", utc(self.at), self.stack)?;
        write!(
            f,
            "open {}  sealed {}  processing {}  error {}  overdue {}",
            self.open, self.sealed, self.processing, self.error, self.overdue
        )?;
        match self.overdue_since {
            Some(since) => writeln!(f, " (for {})\n", short(since.until(self.at)))?,
            None => writeln!(f, "\n")?,
        }
        write!(f, "{}", self.batches)
    }
}
