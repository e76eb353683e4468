//! `batchctl replay`.

use std::fmt;
use std::time::Duration;

use clap::Args;
use protocol::batch::BatchRecord;
use protocol::seqs::SeqSet;
use serde::Serialize;
use shared::aws::BatchSummary;
use shared::config::{ConfigError, Reader};
use sinks::columns_source::with_columns;
use sinks::{BuiltInSink, Part, Sink, SinkConfig, SinkError, content_hash};

use crate::change::{ChangeArgs, note};
use crate::chunk_events::events_of;
use crate::failure::{Done, Failure};
use crate::listing::resolve;
use crate::outcome::Output;
use crate::replayed::{DeliveredPart, delivered_parts};
use crate::service::Service;
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
pub async fn run(service: &Service, args: &ReplayArgs, output: Output) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    let id = resolve(service, &args.batch).await?;
    let record = service.record(id).await?;
    let record = record.ok_or_else(|| Failure::NotFound(format!("batch `{id}`: not found")))?;
    let sink = sink(service, args).await?;
    let parts = delivered_parts(&record);
    if let Some(reason) = refusal(&record, &parts) {
        return Err(Failure::Refused(format!("batch `{id}`: {reason}")));
    }
    let mut report = Report {
        batch_id: id.to_string(),
        sink: args.to.clone(),
        done: operator.is_some(),
        parts: Vec::new(),
        left: left(&record, &parts),
    };
    if let Some(operator) = &operator {
        let batch = BatchSummary::of(record.clone());
        note(service, &batch, operator, &format!("replay to {}", args.to)).await?;
    }
    for part in parts {
        let mut receipt = None;
        let events = part.members.len();
        if operator.is_some() {
            receipt = Some(replay(service, &record, &part, &sink).await?);
        }
        report.parts.push(PartReport {
            part: part.number,
            events,
            receipt,
        });
    }
    output.print(&report, &report);
    Ok(if report.done {
        Done::Yes
    } else {
        Done::OnlyShown
    })
}

/// Returns why nothing of a batch can be replayed.
fn refusal(record: &BatchRecord, parts: &[DeliveredPart]) -> Option<String> {
    if !record.bodies.in_chunks() {
        return Some(
            "its bodies were in lock items, which keep them until the delivery only".to_owned(),
        );
    }
    parts
        .is_empty()
        .then(|| "no part of it is delivered".to_owned())
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
    let config = with_columns(&lookup, |lookup| {
        let mut reader = Reader::new(lookup);
        let config = SinkConfig::read(&mut reader);
        reader.finish(Some(config))
    });
    let config = config
        .await
        .map_err(|error: ConfigError| Failure::Usage(error.to_string()))?;
    BuiltInSink::new(&config, &service.sdk()).map_err(Failure::Usage)
}

/// Reads a part, compares it with what was delivered, and delivers it. Returns the receipt.
async fn replay(
    service: &Service,
    record: &BatchRecord,
    part: &DeliveredPart,
    sink: &BuiltInSink,
) -> Result<String, Failure> {
    let events = events_of(service, record, &part.members).await?;
    let name = format!("part `{}/{}`", record.batch_id, part.number);
    if content_hash(&events) != part.hash {
        return Err(Failure::Refused(format!(
            "{name}: its content is not what was delivered; the record does not say which events the part had"
        )));
    }
    if sink.needs_sequence() {
        return Err(Failure::Refused(format!(
            "{name}: the sink needs the numbers of parts, which only the batch-processor takes"
        )));
    }
    let part = Part {
        batch_id: record.batch_id,
        number: part.number,
        source: record.source.clone(),
        batch_key: record.batch_key.clone(),
        closed_at: record.closed_at(),
        period: record.period,
        sequence: None,
        items: events,
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
            writeln!(
                f,
                "{} events are in no delivered part, and are left",
                self.left
            )?;
        }
        match self.done {
            true => writeln!(f, "replayed to {}", self.sink),
            false => writeln!(f, "to replay them to {}, add --yes --why TEXT", self.sink),
        }
    }
}
