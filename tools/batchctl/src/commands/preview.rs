//! `batchctl preview`.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use protocol::batch::BatchRecord;
use protocol::sequence::{
    HolderResolution, NextNumber, PartId, Sequence, SequenceScope, holder_resolution, next_number,
};
use protocol::text::counted;
use serde::Serialize;
use shared::ports::StoredEvent;
use sinks::{Part, Rendering, content_hash};

use crate::failure::{Done, Failure};
use crate::listing::resolve;
use crate::outcome::Output;
use crate::service::Service;
use crate::sink_config::sink_config;
use crate::undelivered::read_each;

/// The most rejects that are shown.
const REJECTS_MAX: usize = 200;

#[derive(Args)]
pub struct PreviewArgs {
    /// The batch id
    #[arg(value_name = "BATCH")]
    pub batch: String,
    /// Write the content of the part to this new file, as it is before compression
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// The part that is delivered next, as the sink gets it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    batch_id: String,
    part: usize,
    waits_for_approval: bool,
    /// The path or name of the records below the sink.
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_number: Option<u64>,
    events: usize,
    records: usize,
    rejected: usize,
    /// The first rejected records.
    rejects: Vec<Rejected>,
    /// The exact sums of columns with numbers, without rejected records.
    totals: Vec<Total>,
    /// Of the content before compression, as the manifest has them.
    bytes: u64,
    hash: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rejected {
    seq: u32,
    event_id: String,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Total {
    column: String,
    sum: String,
}

/// Renders the frozen part of a batch with the settings of the stack, and sends it nowhere.
pub async fn run(
    service: &Service,
    args: &PreviewArgs,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let id = resolve(service, &args.batch).await?;
    let record = service.known_record(id).await?;
    let rendering = rendering(service).await?;
    let part = frozen_part(service, &record, &rendering).await?;
    let written = match &args.file {
        None => rendering
            .write(&part, io::sink())
            .map(|(_, content)| content),
        Some(path) => {
            let file = File::create_new(path).map_err(Failure::file(path))?;
            let plain = Rendering {
                compression: sinks::Compression::None,
                ..rendering.clone()
            };
            let written = plain.write(&part, file);
            written.and_then(|(mut file, content)| file.flush().map(|()| content))
        }
    };
    let content = written.map_err(|error| Failure::Refused(error.to_string()))?;
    let name = rendering.layout.path(&part);
    let name = name.map_err(|error| Failure::Refused(error.to_string()))?;
    let own_name = || format!("{id}/{}", rendering.name(part.part_index));
    let rejects = content.rejects.iter().take(REJECTS_MAX);
    let totals = rendering.format.sums(&part, &content.rejects).into_iter();
    let frozen = record.frozen_part();
    let report = Report {
        batch_id: id.to_string(),
        part: part.part_index,
        waits_for_approval: frozen.is_some_and(|(_, part)| part.waits_for_approval()),
        name: name.unwrap_or_else(own_name),
        file_number: part.file_number,
        events: part.items.len(),
        records: part.items.len() - content.rejects.len(),
        rejected: content.rejects.len(),
        rejects: Vec::from_iter(rejects.map(|reject| Rejected {
            seq: reject.seq,
            event_id: reject.event_id.to_string(),
            reason: reject.reason.to_string(),
        })),
        totals: Vec::from_iter(totals.map(|(column, sum)| Total { column, sum })),
        bytes: content.bytes,
        hash: content.hash.to_hex().to_string(),
    };
    output.print(&report, &report);
    Ok(Done::Yes)
}

/// Reads how the stack renders parts.
async fn rendering(service: &Service) -> Result<Rendering, Failure> {
    let settings = &service.settings;
    let lookup = |name: &str| settings.value(name).map(str::to_owned);
    let config = sink_config(&lookup).await?;
    match config.writes_rows {
        true => Err(Failure::Refused(
            "the sink writes rows, not a file".to_owned(),
        )),
        false => Ok(config.rendering),
    }
}

/// Reads the frozen part of a batch, and compares it with what was frozen.
async fn frozen_part(
    service: &Service,
    record: &BatchRecord,
    rendering: &Rendering,
) -> Result<Part, Failure> {
    let id = record.batch_id;
    let Some((index, frozen)) = record.frozen_part() else {
        return Err(Failure::NotFound(format!(
            "batch `{id}`: no part is ready: the next one is made when the batch is closed and nothing holds deliveries back"
        )));
    };
    let mut items = Vec::new();
    let mut keep = |event: &StoredEvent| {
        if frozen.members.contains(event.seq) {
            items.push(event.clone());
        }
        Ok(())
    };
    let read = read_each(service, record, &mut keep).await?;
    if let Some(lost) = read.lost.first() {
        return Err(Failure::Refused(format!("batch `{id}`: {lost}")));
    }
    items.sort_unstable_by_key(|event| event.seq);
    if content_hash(&items) != frozen.hash {
        return Err(Failure::Refused(format!(
            "batch `{id}`: part {index}: its content differs from the freeze"
        )));
    }
    let needs_number = rendering.layout.needs_sequence();
    let file_number = match frozen.file_number {
        None if needs_number => Some(number_of(service, record, index).await?),
        number => number,
    };
    Ok(Part {
        file_number,
        ..Part::of(record, index, items)
    })
}

/// Returns the number that the next part of the batch's source and key gets.
async fn number_of(service: &Service, record: &BatchRecord, part: usize) -> Result<u64, Failure> {
    let scope = SequenceScope::of(record);
    let sequence = service.named_items.get::<Sequence>(&scope).await?.value;
    let resolution = match sequence.holder {
        None => HolderResolution::Delivered(None),
        Some(holder) => {
            let of_holder = service.record(holder.batch).await?;
            holder_resolution(holder, sequence.last, of_holder.as_ref())
        }
    };
    let part = PartId {
        batch: record.batch_id,
        part,
    };
    Ok(match next_number(sequence, part, resolution) {
        NextNumber::Taken(number) => number,
        NextNumber::Take(sequence) => sequence.last,
        // If that part is delivered, as most are.
        NextNumber::Wait(_) => sequence.last + 1,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (batch, part) = (&self.batch_id, self.part);
        writeln!(f, "part      {batch}/{part}, {}", self.name)?;
        if self.waits_for_approval {
            writeln!(f, "waits     for approval: `batchctl approve {batch}`")?;
        }
        if let Some(number) = self.file_number {
            writeln!(f, "number    {number}")?;
        }
        let (records, rejected) = (counted(self.records, "record"), self.rejected);
        writeln!(
            f,
            "content   {records}, {rejected} rejected, {} bytes",
            self.bytes
        )?;
        writeln!(f, "hash      {}", self.hash)?;
        for total in &self.totals {
            writeln!(f, "sum       {} {}", total.column, total.sum)?;
        }
        for reject in &self.rejects {
            writeln!(
                f,
                "rejected  {} (seq {}): {}",
                reject.event_id, reject.seq, reject.reason
            )?;
        }
        match self.rejected.saturating_sub(self.rejects.len()) {
            0 => Ok(()),
            more => writeln!(f, "rejected  {more} more"),
        }
    }
}
