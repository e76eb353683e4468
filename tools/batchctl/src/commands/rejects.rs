//! `batchctl rejects`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use aws::BatchSummary;
use clap::Args;
use protocol::batch::{BatchRecord, PartState};
use protocol::ids::{EventId, Seq};
use protocol::seqs::SeqSet;
use serde::Serialize;
use shared::message_attributes::AttributeMap;

use crate::change::{ChangeArgs, Operator, note, note_outcome};
use crate::event_ids::EventIds;
use crate::events::look_up;
use crate::failure::{Done, Failure};
use crate::filter::{Filter, State};
use crate::interrupt::Interrupt;
use crate::listing::{BATCHES_MAX, list, resolve};
use crate::log_index::Runs;
use crate::object_events::events_of;
use crate::outcome::Output;
use crate::ports::{MessageQueue, Sent};
use crate::progress::Progress;
use crate::reject_lists::{RejectLine, RejectLists};
use crate::rejected::{Decision, decide};
use crate::service::Service;
use crate::table::{Table, cut};

/// Characters of a reason in the table; with `--json` it is whole.
const REASON_CHARS_MAX: usize = 100;
/// What the note of a redrive begins with.
const NOTE: &str = "redrive rejects";

#[derive(Args)]
pub struct RejectsArgs {
    /// The batches [default: all that have rejects; reads the whole batch table]
    #[arg(value_name = "BATCH")]
    pub batches: Vec<String>,
    /// A file with lines of reject lists, if this command cannot read where the sink keeps them
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Send the bodies of the events to the input queue, except those that were claimed since
    #[arg(long)]
    pub redrive: bool,
    /// Redrive also what may have been delivered since: you have looked at the sink
    #[arg(long, requires = "redrive")]
    pub although_unclear: bool,
    /// Messages a second, at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// What `rejects` prints.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    done: bool,
    /// How many rejected events there are, by what becomes of them; empty without `--redrive`.
    counts: BTreeMap<String, usize>,
    rejects: Vec<Rejected>,
    /// Where reject lists are that could not be read.
    unread: BTreeSet<String>,
    /// Whether a signal ended the command before it had redriven every event.
    stopped: bool,
    #[serde(skip)]
    redrives: bool,
}

/// A rejected event.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rejected {
    batch_id: String,
    /// The part; absent if the record does not say which of several has the seat.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<usize>,
    seq: Seq,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    /// Why it was rejected; absent if the reject list cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What became of it, with `--redrive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    #[serde(skip)]
    body: Option<String>,
    /// The message attributes.
    #[serde(skip)]
    attributes: AttributeMap,
}

/// What a redrive works with.
struct Redrive<'a> {
    service: &'a Service,
    args: &'a RejectsArgs,
    to: Box<dyn MessageQueue>,
    ids: EventIds,
    input_arn: String,
    operator: Option<Operator>,
    interrupt: &'a Interrupt,
    progress: Progress<'a>,
    redriven: BTreeSet<EventId>,
    /// Runs of the index of the log.
    runs: Runs,
}

/// Lists rejected events, and redrives them.
pub async fn run(
    service: &Service,
    args: &RejectsArgs,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    if args.change.yes && !args.redrive {
        let words = "`--yes` without `--redrive`: expected both, or neither to list rejects";
        return Err(Failure::Usage(words.to_owned()));
    }
    let lists = match &args.list {
        Some(path) => RejectLists::of_file(path)?,
        None => {
            let value = |name| service.settings.value(name);
            RejectLists::of(&service.sdk()?, value("SINK"), value("SINK_REJECTS"))
        }
    };
    let mut redrive = match args.redrive {
        true => Some(Redrive::new(service, args, operator, interrupt, output).await?),
        false => None,
    };
    let mut report = Report {
        done: args.change.yes,
        redrives: args.redrive,
        ..Report::default()
    };
    for record in records(service, args).await? {
        report.stopped |= interrupt.signal().is_some();
        if report.stopped {
            break;
        }
        let mut rejects = rejects_of(service, &lists, &record, &mut report.unread).await?;
        if let Some(redrive) = &mut redrive {
            redrive.batch(&record, &mut rejects).await?;
            let is_left =
                |reject: &Rejected| reject.outcome.as_deref() == Some(Decision::Redrive.words());
            report.stopped = args.change.yes && rejects.iter().any(is_left);
        }
        report.rejects.extend(rejects);
    }
    report.count();
    output.print(&report, &report);
    match interrupt.signal().filter(|_| report.stopped) {
        Some(signal) => Ok(Done::Stopped(signal)),
        None => report.ended(),
    }
}

/// Returns the records of the batches that have rejects.
async fn records(service: &Service, args: &RejectsArgs) -> Result<Vec<BatchRecord>, Failure> {
    let mut ids = Vec::new();
    for text in &args.batches {
        ids.push(resolve(service, text).await?);
    }
    if ids.is_empty() {
        let status = vec![State::Complete, State::Processing, State::Error];
        let filter = Filter {
            status,
            ..Filter::default()
        };
        let listed = list(service, &filter, BATCHES_MAX).await?;
        let with_rejects = listed.batches.iter().filter(|batch| batch.rejected > 0);
        ids.extend(with_rejects.map(|batch| batch.batch_id));
    }
    let mut records = Vec::new();
    for id in ids {
        records.push(service.known_record(id).await?);
    }
    Ok(records)
}

/// Returns the rejected events of a batch: those of its reject lists, and others that its record names.
async fn rejects_of(
    service: &Service,
    lists: &RejectLists,
    record: &BatchRecord,
    unread: &mut BTreeSet<String>,
) -> Result<Vec<Rejected>, Failure> {
    let mut rejects = Vec::new();
    let mut unnamed = record.rejected();
    let parts = record.parts.iter().enumerate();
    let delivered = parts.filter(|(_, part)| matches!(part.state, PartState::Delivered { .. }));
    for (index, _) in delivered.filter(|(_, part)| part.rejected > 0) {
        match lists.read(record, index).await? {
            Ok(lines) => {
                unnamed.remove_from(&lines.iter().map(|line| line.seq).collect());
                rejects.extend(lines.into_iter().map(Rejected::of_line));
            }
            Err(words) => drop(unread.insert(words)),
        }
    }
    rejects.extend(unlisted(service, record, &unnamed).await?);
    rejects.sort_by_key(|reject| reject.seq);
    Ok(rejects)
}

/// Returns rejected events that are in no reject list which can be read. The loads of the log still have their bodies.
async fn unlisted(
    service: &Service,
    record: &BatchRecord,
    seqs: &SeqSet,
) -> Result<Vec<Rejected>, Failure> {
    let of_seq = |seq| Rejected {
        batch_id: record.batch_id.to_string(),
        part: record
            .parts
            .iter()
            .position(|part| part.members.contains(seq)),
        seq,
        ..Rejected::default()
    };
    if !record.bodies.is_log() || seqs.is_empty() {
        return Ok(seqs.iter().map(of_seq).collect());
    }
    let events = events_of(service, record, seqs).await?;
    let reject = |event: shared::ports::StoredEvent| Rejected {
        event_id: Some(event.event_id.to_string()),
        body: Some(event.body.to_string()),
        attributes: event.attributes.map(|all| all.to_map()).unwrap_or_default(),
        ..of_seq(event.seq)
    };
    Ok(events.into_iter().map(reject).collect())
}

impl Rejected {
    fn of_line(line: RejectLine) -> Rejected {
        Rejected {
            batch_id: line.batch_id.to_string(),
            part: Some(line.part),
            seq: line.seq,
            event_id: Some(line.event_id),
            reason: Some(line.reason),
            outcome: None,
            body: Some(line.body),
            attributes: line.attributes,
        }
    }
}

impl Redrive<'_> {
    async fn new<'a>(
        service: &'a Service,
        args: &'a RejectsArgs,
        operator: Option<Operator>,
        interrupt: &'a Interrupt,
        output: Output<'a>,
    ) -> Result<Redrive<'a>, Failure> {
        Ok(Redrive {
            service,
            args,
            to: service.queue("INPUT_QUEUE_URL", "the URL of the input queue")?,
            ids: EventIds::of(&service.settings)?,
            input_arn: service.input_arn().await?,
            operator,
            interrupt,
            progress: Progress::new(output),
            redriven: BTreeSet::new(),
            runs: Runs::default(),
        })
    }

    /// Decides about the rejected events of a batch, and redrives them after a note in its record.
    async fn batch(
        &mut self,
        record: &BatchRecord,
        rejects: &mut [Rejected],
    ) -> Result<(), Failure> {
        let mut wanted = Vec::new();
        for (index, reject) in rejects.iter_mut().enumerate() {
            let decision = self.decision(record, reject).await?;
            if decision == Decision::Redrive {
                wanted.push(index);
            }
            reject.outcome = Some(decision.words().to_owned());
        }
        let Some(operator) = self.operator.clone().filter(|_| !wanted.is_empty()) else {
            return Ok(());
        };
        let batch = BatchSummary::of(record.clone());
        let all = wanted.len();
        let action = format!("{NOTE}: {all}");
        let began = note(self.service, &batch, &operator, &action).await?;
        for (at, index) in wanted.into_iter().enumerate() {
            if self.interrupt.signal().is_some() {
                let action = format!("{NOTE}: {at} of {all}");
                return note_outcome(self.service, record.batch_id, &began, &action).await;
            }
            let outcome = self.send(&rejects[index]).await;
            rejects[index].outcome = Some(outcome);
            let (done, batch) = (at + 1, record.batch_id);
            let shown = || format!("rejects: {done} of {all} redriven in batch {batch}");
            self.progress.show(shown);
        }
        Ok(())
    }

    /// Sends the body of an event to the input queue. Returns what became of it.
    async fn send(&self, reject: &Rejected) -> String {
        let clock = &self.service.clock;
        clock.sleep(Duration::from_secs(1) / self.args.rate).await;
        let body = reject.body.as_deref().unwrap_or_default();
        let sent = tokio::select! {
            sent = self.to.send(body, reject.attributes.clone()) => sent,
            () = self.interrupt.given_up() => Ok(Sent::Unknown("given up".to_owned())),
        };
        match sent {
            Ok(Sent::Yes) => "redriven".to_owned(),
            Ok(Sent::Unknown(problem)) => {
                format!("failed: no reply: it may be in the input queue: {problem}")
            }
            Err(failure) => format!("failed: {failure}"),
        }
    }

    async fn decision(
        &mut self,
        record: &BatchRecord,
        reject: &Rejected,
    ) -> Result<Decision, Failure> {
        let (Some(id), Some(body)) = (&reject.event_id, &reject.body) else {
            return Ok(Decision::NoBody);
        };
        let id = EventId::try_from(id.as_str())?;
        if self.redriven.contains(&id) {
            return Ok(Decision::Repeated);
        }
        let found = look_up(self.service, &id, &mut self.runs).await?;
        let seat = (record.batch_id, reject.seq);
        let decision = decide(seat, &found.classification, self.args.although_unclear);
        if decision != Decision::Redrive {
            return Ok(decision);
        }
        match self.ids.are_of_content() {
            true => {
                let attributes = &reject.attributes;
                // The id that SQS will give it does not matter, but there has to be one.
                let again = self.ids.find(&self.input_arn, "redriven", body, attributes);
                if again.ok().as_ref() != Some(&id) {
                    return Ok(Decision::OtherEvent);
                }
            }
            // SQS gives the message another id, so no lock item tells that it was redriven before.
            false if was_redriven(record) && !self.args.although_unclear => {
                return Ok(Decision::Unclear);
            }
            false => {}
        }
        self.redriven.insert(id);
        Ok(Decision::Redrive)
    }
}

/// Returns whether an operator redrove rejects of a batch before.
fn was_redriven(record: &BatchRecord) -> bool {
    let mut notes = record.notes.iter();
    notes.any(|note| note.action.starts_with(NOTE))
}

impl Report {
    fn count(&mut self) {
        let outcomes = self.rejects.iter().filter_map(|one| one.outcome.as_ref());
        for outcome in outcomes {
            let kind = match outcome.starts_with("failed: ") {
                true => "failed",
                false => outcome.as_str(),
            };
            *self.counts.entry(kind.to_owned()).or_default() += 1;
        }
    }

    fn has_work(&self) -> bool {
        let mut outcomes = self.counts.keys();
        outcomes.any(|outcome| outcome.starts_with("redrive"))
    }

    fn ended(&self) -> Result<Done, Failure> {
        match self.counts.get("failed") {
            Some(failed) => Err(Failure::Some {
                failed: *failed,
                all: self.rejects.len(),
            }),
            None if self.rejects.is_empty() => Ok(Done::NotFound),
            None if !self.redrives => Ok(Done::Yes),
            None if !self.has_work() => Ok(Done::NotFound),
            None if self.done => Ok(Done::Yes),
            None => Ok(Done::OnlyShown),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rejects.is_empty() {
            return writeln!(f, "no rejects");
        }
        let or_dash = |text: Option<&String>| text.cloned().unwrap_or_else(|| "-".to_owned());
        let mut table = Table::new(&["BATCH", "PART", "SEQ", "EVENT", "OUTCOME", "REASON"]);
        for reject in &self.rejects {
            table.row(vec![
                reject.batch_id.clone(),
                or_dash(reject.part.map(|part| part.to_string()).as_ref()),
                reject.seq.to_string(),
                cut(&or_dash(reject.event_id.as_ref()), 60),
                or_dash(reject.outcome.as_ref()),
                cut(&or_dash(reject.reason.as_ref()), REASON_CHARS_MAX),
            ]);
        }
        write!(f, "{table}")?;
        for (outcome, count) in &self.counts {
            writeln!(f, "{count} {outcome}")?;
        }
        for words in &self.unread {
            writeln!(f, "a reject list is {words}")?;
        }
        match self.redrives && !self.done && self.has_work() {
            true => writeln!(f, "to redrive them, add --yes --why TEXT"),
            false => writeln!(f, "{} rejects", self.rejects.len()),
        }
    }
}

#[cfg(test)]
mod tests;
