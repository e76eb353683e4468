//! `batchctl discard`.

use std::cell::Cell;
use std::fs::{self, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use aws::BatchSummary;
use clap::Args;
use protocol::text::counted;
use shared::wire::{Ticket, TicketReason};
use tempfile::NamedTempFile;

use crate::change::{ChangeArgs, Selection};
use crate::failure::{Done, Failure};
use crate::interrupt::Interrupt;
use crate::outcome::Output;
use crate::progress::Progress;
use crate::service::Service;
use crate::tickets::{Action, Before, not_in_error, send};
use crate::undelivered::save;

/// The permissions of a file before the umask, as of any file that is created.
const FILE_MODE: u32 = 0o666;

#[derive(Args)]
pub struct DiscardArgs {
    #[command(flatten)]
    pub selection: Selection,
    /// Directory for the files with the undelivered events, one for each batch; made if it is missing
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Has batches in error set aside, after their undelivered events were written to files.
pub async fn run(
    service: &Service,
    args: &DiscardArgs,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    service.required(
        "QUARANTINE_SQS_URL",
        "the URL of the quarantine queue, to which the events of a discarded batch go",
    )?;
    check_writable(&args.dir)?;
    let batches = args.selection.batches(service, output).await?;
    let is_new = !args.dir.exists();
    let (progress, written) = (Progress::new(output), Cell::new(0_u64));
    let count = || {
        written.set(written.get() + 1);
        progress.show(|| format!("discard: {} written", counted(written.get(), "event")));
    };
    let action = Action {
        name: "discard",
        note: "discard".to_owned(),
        leave: &not_in_error,
        ticket: &|batch| Ticket::new(batch.batch_id, TicketReason::Quarantine),
        before: async |batch: &BatchSummary| save_to(service, batch, &args.dir, &count).await,
        hint: args.change.hint(),
    };
    let ended = send(service, batches, action, operator, interrupt, output).await;
    if is_new {
        // Succeeds only if no file was kept.
        let _ = fs::remove_dir(&args.dir);
    }
    ended
}

/// Checks that files can be written into a directory, if it is there.
fn check_writable(directory: &Path) -> Result<(), Failure> {
    if !directory.exists() {
        return Ok(());
    }
    let checked = tempfile::tempfile_in(directory);
    checked.map(drop).map_err(|error| {
        let directory = directory.display();
        Failure::Usage(format!(
            "`--dir`: cannot be written: got `{directory}`: {error}, expected a directory for new files"
        ))
    })
}

/// Writes the undelivered events of a batch to a new file. The file is removed unless it is kept, which gives it its name.
async fn save_to(
    service: &Service,
    batch: &BatchSummary,
    directory: &Path,
    written: &dyn Fn(),
) -> Result<Before, Failure> {
    let id = batch.batch_id;
    let record = service.known_record(id).await?;
    // Never the name of an earlier file: that one may have events that are in the quarantine since.
    let path = directory.join(format!("{id}-{}.jsonl", service.now()));
    fs::create_dir_all(directory).map_err(Failure::file(&path))?;
    let file = tempfile::Builder::new()
        .prefix(".discard-")
        .permissions(Permissions::from_mode(FILE_MODE))
        .tempfile_in(directory);
    let mut file = BufWriter::new(file.map_err(Failure::file(&path))?);
    let mut add = |line: &[u8]| file.write_all(line).map(|()| written());
    let saved = save(service, &record, &mut add).await?;
    let file = file
        .into_inner()
        .map_err(|error| Failure::file(&path)(error.into_error()))?;
    let lost = saved.lost.iter().map(|lost| format!("; lost: {lost}"));
    let lost: String = lost.collect();
    let events = counted(saved.events, "event");
    let detail = Some(format!("{events} in {}{lost}", path.display()));
    let keep = move || keep(file, &path).map_err(Failure::file(&path));
    Ok(Before {
        detail,
        keep: Some(Box::new(keep)),
    })
}

/// Gives a file its name. The batch ends after this, so the file must outlast a crash of this machine.
fn keep(file: NamedTempFile, path: &Path) -> std::io::Result<()> {
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    let directory = path.parent().filter(|above| !above.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
