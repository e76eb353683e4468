//! `batchctl replay`.

use std::fmt;
use std::time::Duration;

use aws::BatchSummary;
use clap::Args;
use protocol::batch::BatchRecord;
use protocol::seqs::SeqSet;
use protocol::text::counted;
use serde::Serialize;
use sinks::{BuiltInSink, Part, Sink, SinkError, content_hash};

use crate::change::{ChangeArgs, note, note_outcome};
use crate::failure::{Done, Failure};
use crate::interrupt::Interrupt;
use crate::listing::resolve;
use crate::object_events::events_of;
use crate::outcome::Output;
use crate::replayed::{DeliveredPart, delivered_parts};
use crate::service::Service;
use crate::sink_config::sink_config;
use crate::table::Table;

/// Attempts at a part.
const ATTEMPTS_MAX: u32 = 5;
/// The pause after the first attempt; each later one is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// Settings of the stack's sink that hold for the other sink too: the form of the parts.
const OF_THE_STACK: [&str; 4] = [
    "SINK_FORMAT",
    "SINK_COLUMNS",
    "SINK_HEADER",
    "SINK_COMPRESSION",
];

#[derive(Args)]
pub struct ReplayArgs {
    /// The batch id
    #[arg(value_name = "BATCH")]
    pub batch: String,
    /// The sink: `file:///dir`, `s3://bucket/prefix`, `https://…` or `log:`
    #[arg(long, value_name = "SINK")]
    pub to: String,
    /// The format of the parts [default: that of the stack]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// What was replayed, or would be.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    batch_id: String,
    sink: String,
    done: bool,
    parts: Vec<PartReport>,
    /// Events that are in no delivered part, and are not replayed.
    left: u64,
    /// Why the replay ended before its last part.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartReport {
    part: usize,
    events: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
}

/// Delivers the delivered parts of a batch to another sink, with the same keys and the same content.
pub async fn run(
    service: &Service,
    args: &ReplayArgs,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    let id = resolve(service, &args.batch).await?;
    let record = service.known_record(id).await?;
    let sink = sink(service, args).await?;
    let parts = delivered_parts(&record);
    if let Some(reason) = refusal(&record, &parts, &sink) {
        return Err(Failure::Refused(format!("batch `{id}`: {reason}")));
    }
    let mut report = Report {
        batch_id: id.to_string(),
        sink: args.to.clone(),
        done: operator.is_some(),
        parts: Vec::new(),
        left: left(&record, &parts),
        error: None,
    };
    let Some(operator) = &operator else {
        let shown = parts.iter().map(|part| PartReport::of(part, None));
        report.parts = shown.collect();
        let to_do = format!("to replay them to {}", args.to);
        return args.change.only_shown(output, &report, &to_do);
    };
    let batch = BatchSummary::of(record.clone());
    let began = format!("replay began, to {}", args.to);
    let began = note(service, &batch, operator, &began).await?;
    let all = parts.len();
    let ended = replay_all(service, &record, parts, &sink, interrupt, &mut report).await;
    let action = report.action(all);
    report.done = report.parts.len() == all;
    let noted = note_outcome(service, id, &began, &action).await;
    output.print(&report, &report);
    let done = ended?;
    noted.map(|()| done)
}

/// Replays one part after the other, and adds each to the report. Ends at the first failure, or at a signal.
async fn replay_all(
    service: &Service,
    record: &BatchRecord,
    parts: Vec<DeliveredPart>,
    sink: &BuiltInSink,
    interrupt: &Interrupt,
    report: &mut Report,
) -> Result<Done, Failure> {
    for part in parts {
        if let Some(signal) = interrupt.signal() {
            report.error = Some("stopped by a signal".to_owned());
            return Ok(Done::Stopped(signal));
        }
        let replayed = tokio::select! {
            replayed = replay(service, record, &part, sink) => replayed,
            () = interrupt.given_up() => Err(Failure::GivenUp),
        };
        match replayed {
            Ok(receipt) => report.parts.push(PartReport::of(&part, Some(receipt))),
            Err(failure) => {
                report.error = Some(failure.to_string());
                let signal = interrupt.signal();
                return signal.map_or(Err(failure), |signal| Ok(Done::Stopped(signal)));
            }
        }
    }
    Ok(Done::Yes)
}

impl PartReport {
    fn of(part: &DeliveredPart, receipt: Option<String>) -> PartReport {
        PartReport {
            part: part.part_index,
            events: part.members.len(),
            receipt,
        }
    }
}

/// Returns why nothing of a batch can be replayed.
fn refusal(record: &BatchRecord, parts: &[DeliveredPart], sink: &BuiltInSink) -> Option<String> {
    if !record.bodies.is_log() {
        return Some(
            "its bodies were in lock items, which keep them until the delivery only".to_owned(),
        );
    }
    if sink.needs_sequence() {
        return Some(
            "the sink needs the numbers of parts, which only the batch-processor takes".to_owned(),
        );
    }
    let none = parts.is_empty();
    none.then(|| "no part of it is delivered".to_owned())
}

/// Returns how many events are in no delivered part.
fn left(record: &BatchRecord, parts: &[DeliveredPart]) -> u64 {
    let mut delivered = SeqSet::new();
    parts
        .iter()
        .for_each(|part| delivered.extend_from(&part.members));
    let mut all = record.claimed.clone();
    all.extend_from(&record.witnessed);
    all.difference_len(&delivered)
}

/// Makes the sink that `--to` names.
async fn sink(service: &Service, args: &ReplayArgs) -> Result<BuiltInSink, Failure> {
    let settings = &service.settings;
    let lookup = |name: &str| match name {
        "SINK" => Some(args.to.clone()),
        "SINK_FORMAT" if args.format.is_some() => args.format.clone(),
        name if OF_THE_STACK.contains(&name) => settings.value(name).map(str::to_owned),
        _ => None,
    };
    let config = sink_config(&lookup).await?;
    BuiltInSink::new(&config, &service.sdk()?).map_err(Failure::Usage)
}

/// Reads a part, compares it with what was delivered, and delivers it. Returns the receipt.
async fn replay(
    service: &Service,
    record: &BatchRecord,
    part: &DeliveredPart,
    sink: &BuiltInSink,
) -> Result<String, Failure> {
    let events = events_of(service, record, &part.members).await?;
    let name = format!("part `{}/{}`", record.batch_id, part.part_index);
    if content_hash(&events) != part.hash {
        return Err(Failure::Refused(format!(
            "{name}: its content differs from the delivered one; the record does not say which events the part had"
        )));
    }
    let part = Part {
        file_number: None,
        link: None,
        ..Part::of(record, part.part_index, events)
    };
    let mut attempt = 1;
    loop {
        let error = match sink.deliver(&part).await {
            Ok(receipt) => return Ok(receipt.text),
            Err(error) => error,
        };
        let pause = match &error {
            SinkError::Permanent { .. } => None,
            SinkError::Retryable { .. } => Some(PAUSE * 2_u32.pow(attempt - 1)),
            SinkError::Busy { retry_after, .. } => Some(*retry_after),
        };
        match pause.filter(|_| attempt < ATTEMPTS_MAX) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(Failure::Sink(format!("{name}: {error}"))),
        }
        attempt += 1;
    }
}

impl Report {
    /// Returns what was done, for the note, which has room for the beginning of the sink only. `all` is the number of parts.
    fn action(&self, all: usize) -> String {
        let (replayed, sink) = (self.parts.len(), &self.sink);
        match replayed == all {
            true => format!("replayed {} to {sink}", counted(all, "part")),
            false => format!("replay ended early, {replayed} of {all} parts, to {sink}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["PART", "EVENTS", "RECEIPT"]);
        for part in &self.parts {
            table.row(vec![
                part.part.to_string(),
                part.events.to_string(),
                part.receipt.clone().unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        write!(f, "{table}")?;
        if self.left > 0 {
            let left = counted(self.left, "event");
            writeln!(f, "left, in no delivered part: {left}")?;
        }
        match (self.done, &self.error) {
            (true, _) => writeln!(f, "replayed to {}", self.sink),
            (false, Some(error)) => writeln!(f, "not all replayed to {}: {error}", self.sink),
            (false, None) => Ok(()),
        }
    }
}
