//! Files as a mainframe job reads them in its night: records of a fixed width between a header and a trailer, in a
//! directory for each day.
//!
//! `<NIGHTLY_DIRECTORY>/<yyyymmdd>/<batchId>.<part>.dat`, where the day, in UTC, is that on which the first event of the
//! part was sent: the same whenever the part comes again. `.rej` beside it has the records that do not fit, and why.
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
use sinks::{Columns, Format, write_rejects};

/// The layout: what is in each record of type `D`, and where.
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
    fn write(&self, part: &Part) -> io::Result<u64> {
        let sent = part.items.iter().map(|item| item.sent_at).min();
        let (year, month, day) = sent.unwrap_or_default().date();
        let day = format!("{year:04}{month:02}{day:02}");
        let directory = self.directory.join(&day);
        fs::create_dir_all(&directory)?;
        let name = format!("{}.{}", part.batch_id, part.number);

        let mut records = Vec::new();
        writeln!(records, "H{day} {} {:05}", part.batch_id, part.number)?;
        let rejects = self.format.write(part, &mut records)?;
        writeln!(records, "T{:010}", part.items.len() - rejects.len())?;
        if !rejects.is_empty() {
            let mut list = Vec::new();
            write_rejects(part, &rejects, &mut list)?;
            put(&directory.join(format!("{name}.rej")), &list)?;
        }
        // Last: the job that finds it may start.
        put(&directory.join(format!("{name}.dat")), &records)?;
        Ok(rejects.len() as u64)
    }
}

/// A file that is there whole or not at all. The same part is the same bytes, so nothing is lost if it was there.
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
            Ok(rejected) => Ok(Receipt {
                text: format!("{} of {}", part.key(), self.directory.display()),
                rejected,
            }),
            Err(error) => Err(SinkError::Retryable {
                reason: format!("`{}`: {error}", self.directory.display()),
            }),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let directory =
        std::env::var_os("NIGHTLY_DIRECTORY").ok_or("`NIGHTLY_DIRECTORY` is not set")?;
    run_with(NightlyFile {
        directory: directory.into(),
        format: Format::FixedWidth(LAYOUT.parse::<Columns>()?.fixed_width()?),
    })
    .await
}
