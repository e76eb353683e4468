//! A sink that writes files for a nightly mainframe job: records of a fixed width between a header and a trailer, in
//! one directory for each day.
//!
//! A file is `<NIGHTLY_DIRECTORY>/<yyyymmdd>/<batchId>.<part>.dat`. The day is the day, in UTC, on which the first
//! event of the part was sent, so that it is the same at every attempt. The `.rej` file beside it has the records that
//! do not fit, with the reasons.
//!
//! ```text
//! H20261122 0190163d-8694-739b-aea5-966c26f8ad91 00000
//! D0000000042Zoë Washburne                  0000001999EUR
//! T0000000001
//! ```

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use batch_processor::{Error, Part, Receipt, Sink, SinkError, async_trait, run_with};
use sinks::{Columns, Format, Reject, write_rejects};

/// The columns of a record of type `D`.
const LAYOUT: &str = r#"[
    {"name": "type",     "json": "'D'",      "width": 1},
    {"name": "customer", "json": "customer", "width": 10, "align": "right", "pad": "0"},
    {"name": "name",     "json": "name",     "width": 30},
    {"name": "cents",    "json": "cents",    "width": 10, "align": "right", "pad": "0"},
    {"name": "currency", "json": "currency", "width": 3}
]"#;

struct NightlyFile {
    directory: PathBuf,
    format: Format,
}

impl NightlyFile {
    fn write(&self, part: &Part) -> io::Result<Vec<Reject>> {
        let sent = part.items.iter().map(|item| item.sent_at).min();
        let (year, month, day) = sent.unwrap_or_default().date();
        let day = format!("{year:04}{month:02}{day:02}");
        let directory = self.directory.join(&day);
        fs::create_dir_all(&directory)?;
        let name = format!("{}.{}", part.batch_id, part.part_index);

        let mut records = Vec::new();
        writeln!(records, "H{day} {} {:05}", part.batch_id, part.part_index)?;
        let rejects = self.format.write(part, &mut records)?;
        writeln!(records, "T{:010}", part.items.len() - rejects.len())?;
        if !rejects.is_empty() {
            let mut list = Vec::new();
            write_rejects(part, &rejects, &mut list)?;
            put(&directory.join(format!("{name}.rej")), &list)?;
        }
        // The data file is written last, because the job may start as soon as it finds the file.
        put(&directory.join(format!("{name}.dat")), &records)?;
        Ok(rejects)
    }
}

/// Writes a file that is either complete or absent. A retry writes the same bytes, so replacing a file loses nothing.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension(format!("{}.unfinished", std::process::id()));
    fs::write(&unfinished, bytes)?;
    fs::File::open(&unfinished)?.sync_all()?;
    fs::rename(&unfinished, path)
}

#[async_trait]
impl Sink for NightlyFile {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        match self.write(part) {
            Ok(rejects) => {
                let text = format!("{} of {}", part.key(), self.directory.display());
                Ok(Receipt::with_rejects(text, &rejects))
            }
            Err(error) => Err(SinkError::Retryable {
                reason: format!("`{}`: {error}", self.directory.display()),
            }),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run_with(|| {
        let directory = std::env::var_os("NIGHTLY_DIRECTORY")
            .ok_or("`NIGHTLY_DIRECTORY`: not set: expected a directory")?;
        Ok(NightlyFile {
            directory: directory.into(),
            format: Format::FixedWidth(LAYOUT.parse::<Columns>()?.fixed_width()?),
        })
    })
    .await
}
