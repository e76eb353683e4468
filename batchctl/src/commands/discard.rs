//! `batchctl discard`.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use shared::aws::BatchSummary;
use shared::wire::{Ticket, TicketReason};

use crate::change::{ChangeArgs, Selection};
use crate::failure::{Done, Failure};
use crate::outcome::Output;
use crate::service::Service;
use crate::tickets::{Action, not_in_error, send};
use crate::undelivered::save;

#[derive(Args)]
pub struct DiscardArgs {
    #[command(flatten)]
    pub selection: Selection,
    /// Directory for the files with the undelivered events, one for each batch
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Has batches in error set aside, after their undelivered events were written to files.
pub async fn run(service: &Service, args: &DiscardArgs, output: Output) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    service.required(
        "QUARANTINE_SQS_URL",
        "the URL of the quarantine queue, to which the events of a discarded batch go",
    )?;
    check_writable(&args.dir)?;
    let batches = args.selection.batches(service).await?;
    let action = Action {
        name: "discard",
        note: "discard".to_owned(),
        leave: &not_in_error,
        ticket: &|batch| Ticket::new(batch.batch_id, TicketReason::Quarantine),
        before: async |batch: &BatchSummary| save_to(service, batch, &args.dir).await.map(Some),
    };
    send(service, batches, action, operator.as_ref(), output).await
}

/// Checks that files can be written into a directory.
fn check_writable(directory: &Path) -> Result<(), Failure> {
    let file = directory.join(format!(".writable-{}", std::process::id()));
    let opened = OpenOptions::new().append(true).create(true).open(&file);
    let checked = opened.and_then(|_| std::fs::remove_file(&file));
    checked.map_err(|error| {
        let directory = directory.display();
        Failure::Usage(format!(
            "`--dir`: cannot be written: got `{directory}`: {error}, expected a directory that is there"
        ))
    })
}

/// Writes the undelivered events of a batch to a new file. Returns what was written, for people.
async fn save_to(
    service: &Service,
    batch: &BatchSummary,
    directory: &Path,
) -> Result<String, Failure> {
    let id = batch.batch_id;
    let record = service.record(id).await?;
    let record = record.ok_or_else(|| Failure::NotFound(format!("batch `{id}`: not found")))?;
    // Never the name of an earlier file: that one may have events that are in the quarantine since.
    let path = directory.join(format!("{id}-{}.jsonl", service.now()));
    let failed = |source| Failure::File {
        path: path.display().to_string(),
        source,
    };
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = BufWriter::new(file.map_err(failed)?);
    let saved = save(service, &record, &mut file).await?;
    file.flush().map_err(failed)?;
    // The batch ends after this, so the file must outlast a crash of this machine.
    file.get_ref().sync_all().map_err(failed)?;
    let lost: String = saved
        .lost
        .iter()
        .map(|lost| format!("; lost: {lost}"))
        .collect();
    Ok(format!(
        "{} events in {}{lost}",
        saved.events,
        path.display()
    ))
}
