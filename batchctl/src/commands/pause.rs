//! `batchctl pause`, `resume` and `pauses`.

use std::fmt;
use std::time::Duration;

use clap::{ArgGroup, Args};
use futures::future::try_join_all;
use protocol::batch::{Listing, OperatorNote, Status};
use protocol::ids::{BatchId, BatchKey, SourceArn};
use protocol::limits::{PAUSE_TIME_MAX, PAUSES_MAX};
use protocol::pause::Pause;
use protocol::retry::RetryPolicy;
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::aws::BatchSummary;
use shared::ports::{BatchQueue, Pauses, PortError};
use shared::wire::{Ticket, TicketReason};

use super::views::LeaseView;
use crate::change::ChangeArgs;
use crate::failure::{Done, Failure};
use crate::interrupt::Interrupt;
use crate::outcome::Output;
use crate::service::Service;
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
    pauses: Vec<PauseView>,
    /// Deliveries that began before a pause and may still go on.
    under_way: Vec<Delivery>,
    /// Tickets that were sent to batches whose pause has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    tickets: Option<usize>,
    /// How many batches get no ticket because of a signal. The sweep sends them one when the pause would have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_reached: Option<usize>,
    #[serde(skip)]
    now: Timestamp,
    #[serde(skip)]
    hint: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PauseView {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_key: Option<String>,
    until: Timestamp,
    at: Timestamp,
    by: String,
    why: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Delivery {
    batch_id: String,
    lease: LeaseView,
}

/// Pauses deliveries.
pub async fn pause(service: &Service, args: &PauseArgs, output: Output) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    if args.length > PAUSE_TIME_MAX || args.length.is_zero() {
        let (got, max) = (args.length.as_secs(), PAUSE_TIME_MAX.as_secs());
        return Err(Failure::Usage(format!(
            "`--for`: out of range: got {got} s, expected 1 s to {max} s"
        )));
    }
    let now = service.now();
    let pauses = service.pauses().await?;
    let (by, why) = operator
        .as_ref()
        .map_or(("", ""), |operator| (&operator.by, &operator.why));
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
    let next = paused(pauses, pause, now)?;
    if operator.is_some() {
        write(service, &next).await?;
    }
    let report = Report {
        done: operator.is_some(),
        under_way: under_way(service, &next.pauses).await?,
        pauses: next.pauses.iter().map(PauseView::of).collect(),
        tickets: None,
        not_reached: None,
        now,
        hint: args.change.hint(),
    };
    output.print(&report, &report);
    Ok(if report.done {
        Done::Yes
    } else {
        Done::OnlyShown
    })
}

/// Ends a pause, and has the batches delivered that waited for its end.
pub async fn resume(
    service: &Service,
    args: &ResumeArgs,
    interrupt: &Interrupt,
    output: Output,
) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    let mut pauses = service.pauses().await?;
    let now = service.now();
    let scope = (&args.scope.source, &args.scope.key);
    let ended = |pause: &Pause| (&pause.source, &pause.batch_key) == scope;
    if !pauses.pauses.iter().any(ended) {
        return Err(Failure::NotFound(
            "pause: not found: expected the source and key of one; `pauses` lists them".to_owned(),
        ));
    }
    pauses
        .pauses
        .retain(|pause| !ended(pause) && pause.until > now);
    if operator.is_some() {
        write(service, &pauses).await?;
    }
    // Only now: a processor that saw the pause may have given its lease up until this moment.
    let waiting = waiting(service, scope).await?;
    let tickets = match &operator {
        Some(_) => wake(service, &waiting, interrupt).await?,
        None => waiting.len(),
    };
    let not_reached = waiting.len() - tickets;
    let report = Report {
        done: operator.is_some(),
        pauses: pauses.pauses.iter().map(PauseView::of).collect(),
        under_way: Vec::new(),
        tickets: Some(tickets),
        not_reached: Some(not_reached).filter(|count| *count > 0),
        now,
        hint: args.change.hint(),
    };
    output.print(&report, &report);
    Ok(match (report.done, interrupt.signal()) {
        (true, Some(signal)) if not_reached > 0 => Done::Stopped(signal),
        (true, _) => Done::Yes,
        (false, _) => Done::OnlyShown,
    })
}

/// Prints the pauses.
pub async fn list(service: &Service, output: Output) -> Result<Done, Failure> {
    let now = service.now();
    let pauses = service.pauses().await?;
    let current: Vec<Pause> = pauses
        .pauses
        .into_iter()
        .filter(|pause| pause.until > now)
        .collect();
    let report = Report {
        done: true,
        under_way: under_way(service, &current).await?,
        pauses: current.iter().map(PauseView::of).collect(),
        tickets: None,
        not_reached: None,
        now,
        hint: String::new(),
    };
    output.print(&report, &report);
    Ok(Done::Yes)
}

/// Returns the pauses with a new one, which replaces one of the same scope. Ended ones are dropped.
fn paused(mut pauses: Pauses, pause: Pause, now: Timestamp) -> Result<Pauses, Failure> {
    pauses
        .pauses
        .retain(|other| other.until > now && !other.has_scope_of(&pause));
    pauses.pauses.push(pause);
    match pauses.pauses.len() {
        0..=PAUSES_MAX => Ok(pauses),
        count => Err(Failure::Refused(format!(
            "pauses: too many: got {count}, expected at most {PAUSES_MAX}; resume others first"
        ))),
    }
}

async fn write(service: &Service, pauses: &Pauses) -> Result<(), Failure> {
    match service.pause_store.write(pauses).await? {
        true => Ok(()),
        false => Err(Failure::Refused(
            "pauses: changed since they were read; look again".to_owned(),
        )),
    }
}

/// Returns the batches in processing that the index shows, with their records.
async fn processing(service: &Service) -> Result<Vec<BatchSummary>, Failure> {
    let found = service
        .catalogue
        .listed(Listing::Status(Status::Processing), None)
        .await?;
    let ids: Vec<BatchId> = found.into_iter().map(|batch| batch.batch_id).collect();
    Ok(service.catalogue.summaries(&ids).await?.summaries)
}

/// Returns the deliveries of paused batches that are under way: a pause does not stop them.
async fn under_way(service: &Service, pauses: &[Pause]) -> Result<Vec<Delivery>, Failure> {
    let now = service.now();
    let paused = |batch: &BatchSummary| {
        let mut pauses = pauses.iter();
        pauses.any(|pause| pause.covers(&batch.source, batch.batch_key.as_ref()))
    };
    let batches = processing(service).await?;
    let batches = batches.into_iter().filter(paused);
    Ok(batches
        .filter_map(|batch| {
            let lease = batch.lease.filter(|lease| lease.until > now)?;
            Some(Delivery {
                batch_id: batch.batch_id.to_string(),
                lease: LeaseView::of(&lease),
            })
        })
        .collect())
}

/// Returns the batches of a scope that may wait for the end of a pause: those in processing. One that is leased at this moment
/// may be about to wait; otherwise a ticket does it no harm.
async fn waiting(
    service: &Service,
    (source, key): (&Option<SourceArn>, &Option<BatchKey>),
) -> Result<Vec<BatchId>, Failure> {
    let batches = processing(service).await?;
    let waits = batches.iter().filter(|batch| {
        source.as_ref().is_none_or(|source| *source == batch.source)
            && key
                .as_ref()
                .is_none_or(|key| batch.batch_key.as_ref() == Some(key))
    });
    Ok(waits.map(|batch| batch.batch_id).collect())
}

/// Sends a ticket to each batch, until a signal ends it. Returns how many. A ticket that is not sent costs time only: the sweep sends
/// it when the pause would have ended.
async fn wake(
    service: &Service,
    batches: &[BatchId],
    interrupt: &Interrupt,
) -> Result<usize, Failure> {
    let queue = service.batch_queue()?;
    let mut tickets = 0;
    for batches in batches.chunks(crate::service::REQUESTS_MAX) {
        let sent = batches.iter().map(|batch| wake_one(service, queue, *batch));
        if interrupt.signal().is_some() {
            break;
        }
        tickets += try_join_all(sent).await?.len();
    }
    Ok(tickets)
}

async fn wake_one(
    service: &Service,
    queue: &dyn BatchQueue,
    batch: BatchId,
) -> Result<(), PortError> {
    let ticket = Ticket::new(batch, TicketReason::Sweep);
    let send = || queue.send(&ticket, Duration::ZERO);
    service.budget().call(RetryPolicy::CONTROL, send).await
}

impl PauseView {
    fn of(pause: &Pause) -> PauseView {
        PauseView {
            source: pause.source.as_ref().map(ToString::to_string),
            batch_key: pause.batch_key.as_ref().map(ToString::to_string),
            until: pause.until,
            at: pause.at,
            by: pause.by.clone(),
            why: pause.why.clone(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pauses.is_empty() {
            writeln!(f, "no pauses")?;
        } else {
            let mut table = Table::new(&["SOURCE", "KEY", "UNTIL", "WHO", "WHY"]);
            let any = |text: &Option<String>| text.clone().unwrap_or_else(|| "any".to_owned());
            for pause in &self.pauses {
                table.row(vec![
                    any(&pause.source),
                    any(&pause.batch_key),
                    with_distance(pause.until, self.now),
                    pause.by.clone(),
                    pause.why.clone(),
                ]);
            }
            write!(f, "{table}")?;
        }
        for delivery in &self.under_way {
            let until = with_distance(delivery.lease.until, self.now);
            writeln!(
                f,
                "under way: batch {}, until {until} at the latest",
                delivery.batch_id
            )?;
        }
        match (self.tickets, self.done) {
            (Some(count), true) => writeln!(f, "{} sent", counted(count, "ticket"))?,
            (Some(count), false) => writeln!(f, "{} would get a ticket", counted(count, "batch"))?,
            (None, _) => {}
        }
        if let Some(count) = self.not_reached {
            writeln!(f, "stopped: {} not reached", counted(count, "batch"))?;
        }
        match self.done {
            true => Ok(()),
            false => writeln!(f, "nothing is changed; to do it, add {}", self.hint),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(60_000);

    fn pause(source: Option<&str>, until_secs: u64) -> Pause {
        Pause {
            source: source.map(|text| text.parse().unwrap()),
            batch_key: None,
            until: Timestamp::from_ms(until_secs * 1_000),
            at: NOW,
            by: "me".to_owned(),
            why: "mending".to_owned(),
        }
    }

    #[test]
    fn a_pause_replaces_one_of_its_scope_and_ended_ones_are_dropped() {
        let before = Pauses {
            pauses: vec![
                pause(Some("arn:a"), 90),
                pause(Some("arn:ended"), 60),
                pause(None, 70),
            ],
            version: 4,
        };
        let after = paused(before, pause(Some("arn:a"), 200), NOW).unwrap();
        assert_eq!(after.pauses, [pause(None, 70), pause(Some("arn:a"), 200)]);
        assert_eq!(after.version, 4);
    }

    #[test]
    fn there_are_only_so_many_pauses() {
        let many = (0..PAUSES_MAX).map(|number| pause(Some(&format!("arn:{number}")), 90));
        let full = Pauses {
            pauses: many.collect(),
            version: 1,
        };
        assert!(paused(full.clone(), pause(Some("arn:0"), 95), NOW).is_ok());
        let error = paused(full, pause(None, 95), NOW).unwrap_err();
        assert!(error.to_string().starts_with("pauses: too many"), "{error}");
    }
}
