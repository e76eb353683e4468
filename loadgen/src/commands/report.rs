//! `loadgen report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use planner::report::{compare, report};
use planner::{Record, check_file};

use super::print;

#[derive(Args)]
pub struct ReportArgs {
    /// The record of a run, which `batch-local burst` writes
    #[arg(value_name = "RECORD")]
    pub record: PathBuf,
    /// The record of another run, to compare the two
    #[arg(value_name = "OTHER")]
    pub other: Option<PathBuf>,
    /// The file to write [default: beside RECORD, named after it, or after both records]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(serde::Serialize)]
struct Written {
    report: PathBuf,
}

/// Reads the records, and writes the report.
pub fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let default = match &args.other {
        None => args.record.with_extension("html"),
        Some(other) => args
            .record
            .with_file_name(name_of_both(&args.record, other)),
    };
    let out = args.out.clone().unwrap_or(default);
    let first = read(&args.record)?;
    let other = args.other.as_deref().map(read).transpose()?;
    check_file("--out", &out)?;
    let html = match &other {
        None => report(&first),
        Some(other) => compare(&first, other),
    };
    std::fs::write(&out, html).with_context(|| format!("write the report `{}`", out.display()))?;
    print(&Written { report: out })?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<Record> {
    let context = || format!("read the record `{}`", path.display());
    let text = std::fs::read_to_string(path).with_context(context)?;
    Record::from_json(&text).with_context(context)
}

fn name_of_both(record: &Path, other: &Path) -> String {
    let [record, other] = [record, other].map(|path| path.file_stem().unwrap_or_default());
    format!("{}-against-{}.html", record.display(), other.display())
}
