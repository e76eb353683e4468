//! Sends operators' tickets for batches: what `retry` and `discard` have in common.

use std::fmt;
use std::time::Duration;

use aws::BatchSummary;
use futures::{StreamExt, future, stream};
use protocol::batch::{Status, WAITS_FOR_APPROVAL};
use protocol::limits::BATCH_LIFE_MAX;
use protocol::retry::RetryPolicy;
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::ports::BatchQueue;
use shared::wire::Ticket;

use crate::change::{NOTE_ATTEMPTS_MAX, Operator, note};
use crate::commands::views::{status_word, undecided_seats};
use crate::failure::{Done, Failure};
use crate::filter::{is_overdue, is_unnoticed};
use crate::interrupt::{Interrupt, Signal};
use crate::outcome::Output;
use crate::service::Service;
use crate::table::{Table, cut};
use crate::times::short;

/// Batches that are worked on at once.
const BATCHES_AT_ONCE: usize = 8;
/// Characters of an error in the table.
const ERROR_CHARS_MAX: usize = 80;

/// What is done to a batch.
pub struct Action<'a, F> {
    /// The verb, for people and for the note.
    pub name: &'static str,
    /// The note's text.
    pub note: String,
    /// Why a batch is left out; `None` if it gets a ticket.
    pub leave: &'a dyn Fn(&BatchSummary) -> Option<String>,
    pub ticket: &'a dyn Fn(&BatchSummary) -> Ticket,
    /// What is done first.
    pub before: F,
    /// The options that the command needs to do it.
    pub hint: String,
}

/// What was done before the note.
#[derive(Default)]
pub struct Before {
    /// For people.
    pub detail: Option<String>,
    /// What is done between the note and the ticket. Without it, what was done before the note must leave no trace.
    pub keep: Option<Box<dyn FnOnce() -> Result<(), Failure>>>,
}

/// What the command did, or would do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    verb: &'static str,
    /// Whether it was done, and not only shown.
    done: bool,
    batches: Vec<Line>,
    /// How many batches a signal left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_reached: Option<usize>,
    #[serde(skip)]
    now: Timestamp,
    #[serde(skip)]
    hint: String,
}

/// What became of one batch.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    batch_id: String,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Reserved seats, until it is known what became of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved: Option<u64>,
    confirmed: u64,
    delivered: u64,
    /// `would`, `sent`, `left` or `failed`.
    outcome: &'static str,
    /// Why it is left, or failed; or what was done first.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// Sends a ticket for each batch that is not left out, after a note; or shows for which it would.
///
/// # Errors
/// [`Failure::Some`] if it failed for some batches.
pub async fn send(
    service: &Service,
    batches: Vec<BatchSummary>,
    action: Action<'_, impl AsyncFn(&BatchSummary) -> Result<Before, Failure>>,
    operator: Option<Operator>,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let queue = match operator {
        Some(_) => Some(service.batch_queue()?),
        None => None,
    };
    let (action, operator) = (&action, operator.as_ref());
    let goes_on = |_: &&BatchSummary| future::ready(interrupt.signal().is_none());
    let lines = stream::iter(&batches).take_while(goes_on);
    let lines = lines.map(|batch| async move {
        let (Some(operator), Some(queue)) = (operator, queue) else {
            let line = match (action.leave)(batch) {
                Some(reason) => Line::of(batch, "left", Some(reason)),
                None => Line::of(batch, "would", None),
            };
            return line.with_reserved(reserved(service, batch).await);
        };
        let decided = async {
            // The ticket may have them counted.
            let reserved = reserved(service, batch).await;
            let line = decide(service, batch, action, operator, queue).await;
            line.with_reserved(reserved)
        };
        tokio::select! {
            line = decided => line,
            () = interrupt.given_up() => Line::of(batch, "failed", Some(Failure::GivenUp.to_string())),
        }
    });
    let lines: Vec<Line> = lines.buffered(BATCHES_AT_ONCE).collect().await;
    let not_reached = batches.len() - lines.len();
    let report = Report {
        verb: action.name,
        done: operator.is_some(),
        batches: lines,
        not_reached: Some(not_reached).filter(|count| *count > 0),
        now: service.now(),
        hint: action.hint.clone(),
    };
    output.print(&report, &report);
    report.ended(interrupt.signal())
}

/// Returns how many seats of a batch are reserved, if it is not known yet what became of them. The line has none if the record cannot be
/// read.
async fn reserved(service: &Service, batch: &BatchSummary) -> Option<u64> {
    if batch.confirmed > 0 || batch.status.is_none() {
        return None;
    }
    let record = service.record(batch.batch_id).await.ok().flatten()?;
    undecided_seats(&record)
}

/// Does the action to one batch, or leaves it out. A batch that changes meanwhile, as those that are being processed do, is looked
/// at again as it is then.
async fn decide(
    service: &Service,
    batch: &BatchSummary,
    action: &Action<'_, impl AsyncFn(&BatchSummary) -> Result<Before, Failure>>,
    operator: &Operator,
    queue: &dyn BatchQueue,
) -> Line {
    let mut batch = batch.clone();
    let mut changes = 0;
    loop {
        if let Some(reason) = (action.leave)(&batch) {
            return Line::of(&batch, "left", Some(reason));
        }
        match one(service, &batch, action, operator, queue).await {
            Ok(detail) => return Line::of(&batch, "sent", detail),
            Err(Failure::Changed { record, .. }) if changes < NOTE_ATTEMPTS_MAX => {
                changes += 1;
                batch = BatchSummary::of(*record);
            }
            Err(failure) => return Line::of(&batch, "failed", Some(failure.to_string())),
        }
    }
}

async fn one(
    service: &Service,
    batch: &BatchSummary,
    action: &Action<'_, impl AsyncFn(&BatchSummary) -> Result<Before, Failure>>,
    operator: &Operator,
    queue: &dyn BatchQueue,
) -> Result<Option<String>, Failure> {
    let before = (action.before)(batch).await?;
    // The note comes first: its condition makes sure that the batch is still as it was shown. A ticket that is not sent after
    // it does no harm, since the batch stays as it is.
    note(service, batch, operator, &action.note).await?;
    if let Some(keep) = before.keep {
        keep()?;
    }
    let ticket = (action.ticket)(batch);
    let send = || queue.send(&ticket, Duration::ZERO);
    service.budget().call(RetryPolicy::CONTROL, send).await?;
    Ok(before.detail)
}

/// Returns why a batch is left out that is not in error.
pub fn not_in_error(batch: &BatchSummary) -> Option<String> {
    let status = status_word(batch.status);
    (batch.status != Some(Status::Error))
        .then(|| format!("status: got `{status}`, expected `error`"))
}

/// Returns why a batch is left out that does not wait for a ticket: not in error, not overdue, not given up by its last
/// processor, and without a notice to send.
pub fn not_waiting(batch: &BatchSummary, now: Timestamp) -> Option<String> {
    match (batch.status, &batch.lease) {
        (Some(Status::Error), _) => None,
        (Some(Status::Processing), Some(lease)) if lease.until > now => Some(format!(
            "leased by {} for another {}",
            lease.owner,
            short(now.until(lease.until))
        )),
        (Some(Status::Processing), _) => None,
        (Some(status), _) if is_overdue(status, batch.due_at, now) => None,
        (None, _) if is_unnoticed(batch) => None,
        _ => not_in_error(batch).map(|reason| format!("{reason}, `processing`, or overdue")),
    }
}

/// Returns why nothing more of a batch can be delivered, if it is too old. A notice of a complete one can be sent.
/// Returns whether a batch in error waits for approval, as its error says.
pub fn waits_for_approval(batch: &BatchSummary) -> bool {
    let error = batch.error.as_deref().unwrap_or_default();
    error.contains(WAITS_FOR_APPROVAL)
}

/// Returns why a batch is left out that is too old to be delivered.
pub fn too_old(batch: &BatchSummary, now: Timestamp) -> Option<String> {
    let days = BATCH_LIFE_MAX.as_secs() / 86_400;
    let is_over = batch.status.is_some() && batch.created_at + BATCH_LIFE_MAX <= now;
    is_over.then(|| format!("opened more than {days} days ago: it can only be discarded"))
}

impl Line {
    fn of(batch: &BatchSummary, outcome: &'static str, detail: Option<String>) -> Line {
        Line {
            batch_id: batch.batch_id.to_string(),
            created_at: batch.created_at,
            error: batch.error.clone(),
            reserved: None,
            confirmed: batch.confirmed,
            delivered: batch.delivered,
            outcome,
            detail,
        }
    }

    fn with_reserved(self, reserved: Option<u64>) -> Line {
        Line { reserved, ..self }
    }
}

impl Report {
    fn count(&self, outcome: &str) -> usize {
        let lines = self.batches.iter();
        lines.filter(|line| line.outcome == outcome).count()
    }

    fn ended(&self, signal: Option<Signal>) -> Result<Done, Failure> {
        let (failed, all) = (self.count("failed"), self.batches.len());
        if let Some(signal) = signal.filter(|_| self.not_reached.is_some() || failed > 0) {
            return Ok(Done::Stopped(signal));
        }
        match (failed, self.count("sent") + self.count("would")) {
            (0, 0) => Ok(Done::NotFound),
            (0, _) if self.done => Ok(Done::Yes),
            (0, _) => Ok(Done::OnlyShown),
            (failed, _) => Err(Failure::Some { failed, all }),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.batches.is_empty() && self.not_reached.is_none() {
            return writeln!(f, "no batch is selected");
        }
        let mut table = Table::new(&["BATCH", "AGE", "EVENTS", "DELIVERED", "OUTCOME", "ERROR"]);
        for line in &self.batches {
            let outcome = match &line.detail {
                Some(detail) => format!("{}: {detail}", line.outcome),
                None if line.outcome == "would" => format!("would {}", self.verb),
                None => line.outcome.to_owned(),
            };
            table.row(vec![
                line.batch_id.clone(),
                short(line.created_at.until(self.now)),
                match line.reserved {
                    Some(reserved) => format!("{reserved} reserved"),
                    None => line.confirmed.to_string(),
                },
                line.delivered.to_string(),
                outcome,
                cut(line.error.as_deref().unwrap_or("-"), ERROR_CHARS_MAX),
            ]);
        }
        if !self.batches.is_empty() {
            write!(f, "{table}")?;
        }
        match (self.done, self.count("would")) {
            (true, _) => writeln!(f, "{} sent", counted(self.count("sent"), "ticket"))?,
            (false, 0) => writeln!(f, "nothing to {}", self.verb)?,
            (false, count) => {
                let (count, verb) = (counted(count, "batch"), self.verb);
                writeln!(f, "{count} to {verb}: add {}", self.hint)?;
            }
        }
        match self.not_reached {
            Some(count) => writeln!(f, "stopped: {} not reached", counted(count, "batch")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::batch::Lease;

    use super::*;
    use crate::filter::{notice, summary};

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_ms(secs * 1_000)
    }

    #[test]
    fn a_batch_in_error_or_overdue_waits_for_a_ticket() {
        let left = |status, secs| not_waiting(&summary(status), at(secs));
        assert_eq!(left(Some(Status::Error), 60), None);
        assert_eq!(left(Some(Status::Open), 600), None);
        let early = left(Some(Status::Open), 60).unwrap();
        let words = "status: got `open`, expected `error`, `processing`, or overdue";
        assert_eq!(early, words);
        assert!(left(None, 600).unwrap().contains("got `complete`"));
    }

    #[test]
    fn a_complete_batch_with_a_notice_to_send_waits_for_a_ticket_however_old_it_is() {
        let mut batch = summary(None);
        batch.notices = vec![notice()];
        let later = at(10) + BATCH_LIFE_MAX;
        assert_eq!(not_waiting(&batch, later), None);
        assert_eq!(too_old(&batch, later), None);
        batch.status = Some(Status::Error);
        assert!(too_old(&batch, later).is_some());
    }

    #[test]
    fn a_batch_that_is_leased_is_left_to_its_processor() {
        let mut batch = summary(Some(Status::Processing));
        batch.lease = Some(Lease {
            owner: "f/1/2".parse().unwrap(),
            until: at(70),
        });
        let left = not_waiting(&batch, at(60)).unwrap();
        assert_eq!(left, "leased by f/1/2 for another 10 s");
        assert_eq!(not_waiting(&batch, at(70)), None);
        batch.lease = None;
        assert_eq!(not_waiting(&batch, at(60)), None);
    }
}
