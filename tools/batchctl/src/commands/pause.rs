//! `batchctl pause`, `resume` and `pauses`.

use std::fmt;
use std::time::Duration;

use aws::BatchSummary;
use clap::{ArgGroup, Args};
use protocol::batch::{Lease, Listing, OperatorNote, Status};
use protocol::ids::{BatchId, BatchKey, SourceArn};
use protocol::limits::{PAUSE_TIME_MAX, PAUSES_MAX, SQS_BATCH_ENTRIES_MAX};
use protocol::pause::{Pause, Pauses};
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::named_items::Versioned;
use shared::ports::{Overdue, PortError};
use shared::retry::send_tickets;
use shared::wire::{Ticket, TicketReason};

use crate::change::{ChangeArgs, NOTHING_IS_CHANGED};
use crate::failure::{Done, Failure};
use crate::interrupt::Interrupt;
use crate::outcome::Output;
use crate::service::{REQUESTS_MAX, Service};
use crate::table::Table;
use crate::times::{duration, with_distance};

/// What is paused.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("scope").required(true).multiple(true).args(["source", "key", "all"]))]
pub struct ScopeArgs {
    /// Batches of this source
    #[arg(long, value_name = "ARN")]
    pub source: Option<SourceArn>,
    /// Batches with this batch key
    #[arg(long, value_name = "KEY")]
    pub key: Option<BatchKey>,
    /// All batches
    #[arg(long, conflicts_with_all = ["source", "key"])]
    pub all: bool,
}

#[derive(Args)]
pub struct PauseArgs {
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// How long, from now on: `15m`, `2h`; at most 3 days
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub length: Duration,
    #[command(flatten)]
    pub change: ChangeArgs,
}

#[derive(Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    pub scope: ScopeArgs,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// What the commands print.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    done: bool,
    /// The pauses, after the change if it was done, or as it would be.
    pauses: Vec<Pause>,
    /// Deliveries that began before a pause and may still go on.
    under_way: Vec<Delivery>,
    /// Tickets that were sent to batches whose pause was ended or shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    tickets: Option<usize>,
    /// How many batches get no ticket because of a signal. The next sweep sends them one.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_reached: Option<usize>,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Delivery {
    batch_id: String,
    lease: Lease,
}

/// Pauses deliveries. One that is shorter than a pause before has the batches looked at that wait for the former end.
pub async fn pause(
    service: &Service,
    args: &PauseArgs,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    if args.length > PAUSE_TIME_MAX || args.length.is_zero() {
        let (got, max) = (args.length.as_secs(), PAUSE_TIME_MAX.as_secs());
        return Err(Failure::Usage(format!(
            "`--for`: out of range: got {got} s, expected 1 s to {max} s"
        )));
    }
    let now = service.now();
    let read = service.pauses().await?;
    let mut pauses = read.value.clone();
    let operator = operator.as_ref();
    let (by, why) = operator.map_or(("", ""), |operator| (&operator.by, &operator.why));
    // Cut as in a batch record: all pauses are in one item.
    let note = OperatorNote::new(now, by, "pause", why);
    let pause = Pause {
        source: args.scope.source.clone(),
        batch_key: args.scope.key.clone(),
        until: now + args.length,
        at: now,
        by: note.by,
        why: note.why,
    };
    pauses.pause(pause, now);
    let count = pauses.pauses.len();
    if count > PAUSES_MAX {
        return Err(Failure::Refused(format!(
            "pauses: too many: got {count}, expected at most {PAUSES_MAX}; resume others first"
        )));
    }
    replace(service, (&read, &pauses), &args.change, interrupt, output).await
}

/// Ends a pause, and has the batches delivered that waited for its end.
pub async fn resume(
    service: &Service,
    args: &ResumeArgs,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let read = service.pauses().await?;
    let mut pauses = read.value.clone();
    if !pauses.resume(&args.scope.source, &args.scope.key, service.now()) {
        return Err(Failure::NotFound(
            "pause: not found: expected the source and key of one; `pauses` lists them".to_owned(),
        ));
    }
    replace(service, (&read, &pauses), &args.change, interrupt, output).await
}

/// Writes the pauses in place of those that were read, and sends a ticket to each batch that waits for a pause which is not among them any more; or shows what it would do.
async fn replace(
    service: &Service,
    (read, pauses): (&Versioned<Pauses>, &Pauses),
    change: &ChangeArgs,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let done = change.operator()?.is_some();
    if done && !service.named_items.replace(&(), read, pauses).await? {
        return Err(Failure::Refused(
            "pauses: changed since they were read; look again".to_owned(),
        ));
    }
    let waiting = waiting(service, pauses).await?;
    let tickets = match done {
        true => wake(service, &waiting, interrupt).await?,
        false => waiting.len(),
    };
    let not_reached = waiting.len() - tickets;
    let report = Report {
        done,
        under_way: under_way(service, &pauses.pauses).await?,
        pauses: pauses.pauses.clone(),
        tickets: Some(tickets),
        not_reached: Some(not_reached).filter(|count| *count > 0),
        now: service.now(),
    };
    if !done {
        return change.only_shown(output, &report, NOTHING_IS_CHANGED);
    }
    output.print(&report, &report);
    Ok(match interrupt.signal() {
        Some(signal) if not_reached > 0 => Done::Stopped(signal),
        _ => Done::Yes,
    })
}

/// Prints the pauses.
pub async fn list(service: &Service, output: Output<'_>) -> Result<Done, Failure> {
    let now = service.now();
    let pauses = service.pauses().await?.value.pauses;
    let current = pauses.into_iter().filter(|pause| pause.until > now);
    let current = Vec::from_iter(current);
    let report = Report {
        done: true,
        under_way: under_way(service, &current).await?,
        pauses: current,
        tickets: None,
        not_reached: None,
        now,
    };
    output.print(&report, &report);
    Ok(Done::Yes)
}

/// Returns the deliveries of paused batches that are under way: a pause does not stop them.
async fn under_way(service: &Service, pauses: &[Pause]) -> Result<Vec<Delivery>, Failure> {
    if pauses.is_empty() {
        return Ok(Vec::new());
    }
    let now = service.now();
    let paused = |batch: &BatchSummary| {
        let mut pauses = pauses.iter();
        pauses.any(|pause| pause.covers(&batch.source, batch.batch_key.as_ref()))
    };
    let ids = processing(service).await?.map(|batch| batch.batch_id);
    let ids: Vec<BatchId> = ids.collect();
    let delivery = |batch: BatchSummary| {
        let lease = batch.lease.filter(|lease| lease.until > now)?;
        Some(Delivery {
            batch_id: batch.batch_id.to_string(),
            lease,
        })
    };
    let batches = service.catalogue.summaries(&ids).await?.summaries;
    let batches = batches.into_iter().filter(paused);
    Ok(batches.filter_map(delivery).collect())
}

/// Returns the batches in processing that the index shows.
async fn processing(service: &Service) -> Result<impl Iterator<Item = Overdue>, Failure> {
    let listing = Listing::Status(Status::Processing);
    Ok(service.catalogue.listed(listing, None).await?.into_iter())
}

/// Returns the batches that wait for a pause which was resumed or replaced. One that is leased now and put back because of it is left to
/// the sweep.
async fn waiting(service: &Service, pauses: &Pauses) -> Result<Vec<BatchId>, Failure> {
    let waits = |batch: &Overdue| pauses.were_lifted_for(batch.batch_id, batch.due_at);
    let waiting = processing(service).await?.filter(waits);
    Ok(waiting.map(|batch| batch.batch_id).collect())
}

/// Sends a ticket to each batch, until a signal ends it. Returns how many. A ticket that is not sent costs time only: the sweep sends it.
async fn wake(
    service: &Service,
    batches: &[BatchId],
    interrupt: &Interrupt,
) -> Result<usize, Failure> {
    if batches.is_empty() {
        return Ok(0);
    }
    let queue = service.batch_queue()?;
    let mut tickets = 0;
    for batches in batches.chunks(SQS_BATCH_ENTRIES_MAX * REQUESTS_MAX) {
        if interrupt.signal().is_some() {
            break;
        }
        let ticket = |batch: &BatchId| (Ticket::new(*batch, TicketReason::Sweep), service.now());
        let all = Vec::from_iter(batches.iter().map(ticket));
        for sent in send_tickets(queue, &all, REQUESTS_MAX, &service.budget()).await {
            sent.map_err(PortError::from)?;
            tickets += 1;
        }
    }
    Ok(tickets)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pauses.is_empty() {
            writeln!(f, "no pauses")?;
        } else {
            let mut table = Table::new(&["SOURCE", "KEY", "UNTIL", "WHO", "WHY"]);
            let any = |text: Option<&str>| text.unwrap_or("any").to_owned();
            for pause in &self.pauses {
                table.row(vec![
                    any(pause.source.as_ref().map(SourceArn::as_str)),
                    any(pause.batch_key.as_ref().map(BatchKey::as_str)),
                    with_distance(pause.until, self.now),
                    pause.by.clone(),
                    pause.why.clone(),
                ]);
            }
            write!(f, "{table}")?;
        }
        for delivery in &self.under_way {
            let until = with_distance(delivery.lease.until, self.now);
            let batch = &delivery.batch_id;
            writeln!(f, "under way: batch {batch}, until {until} at the latest")?;
        }
        match (self.tickets, self.done) {
            (Some(count), true) => writeln!(f, "{} sent", counted(count, "ticket"))?,
            (Some(count), false) => writeln!(f, "{} would get a ticket", counted(count, "batch"))?,
            (None, _) => {}
        }
        if let Some(count) = self.not_reached {
            writeln!(f, "stopped: {} not reached", counted(count, "batch"))?;
        }
        Ok(())
    }
}
