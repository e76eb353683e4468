//! Instructions a message, as callgrind counts them: the same on a noisy machine as on a quiet one.
//!
//! Two bursts of different length, each function in one environment; the difference leaves out what starting takes.
//! Instructions that valgrind does not know (SHA's) are done by others, so these are more than the processor sees: the
//! figures are for comparing with earlier ones.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::summary::{burst, figure, summarised};
use crate::{package, tools};

/// What `cargo xtask bench instructions` is told.
#[derive(clap::Args)]
pub struct Instructions {
    /// Write the figures down, for later runs to compare with
    #[arg(long)]
    write: bool,
}

const SHORT_MESSAGES: u64 = 5_000;
const LONG_MESSAGES: u64 = 20_000;
const FUNCTIONS: [(&str, &str); 2] = [
    ("aggregator", "/aggregator/cold_starts"),
    ("batch-processor", "/batch_processor/cold_starts"),
];
/// More than this above what was written down is a regression. Two runs of one executable differed by less than 1 %.
const TOLERANCE: f64 = 1.05;
/// Flags of `local burst` for functions that take some fifty times as long as they do alone, each in one environment.
const SLOW: &[&str] = &[
    "--aggregators=2",
    "--batch-processors=2",
    "--concurrency-per-environment=2",
    "--aggregator-timeout=120",
    "--batch-processor-timeout=240",
    "--sweep-every=0",
    // The window begins after a timeout as long as this one.
    "--env=SEAL_WHEN_DRAINED=on",
];
/// Valgrind writes its count when the function has ended, which is after the burst.
const COUNT_WITHIN: Duration = Duration::from_secs(60);

/// Counts, and compares.
pub fn run(instructions: &Instructions) -> anyhow::Result<()> {
    let there = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    ensure!(
        there.is_ok_and(|status| status.success()),
        "valgrind is not there; install the package of that name"
    );
    package::package(&package::Package::default())?;
    let short = count(SHORT_MESSAGES)?;
    let long = count(LONG_MESSAGES)?;
    let written = tools::root()?.join("tests/benches/instructions.txt");
    let before = read(&written)?;
    let mut text = String::new();
    let mut worse = Vec::new();
    for (function, _) in FUNCTIONS {
        let difference = long[function] as f64 - short[function] as f64;
        let now = difference / (LONG_MESSAGES - SHORT_MESSAGES) as f64;
        text += &format!("{function} {now:.0}\n");
        match before.get(function) {
            Some(before) => {
                let percent = (now / before - 1.0) * 100.0;
                println!(
                    "{function:16} {now:8.0} instructions a message, {percent:+.1} % of {before:.0}"
                );
                if now > before * TOLERANCE {
                    worse.push(function);
                }
            }
            None => println!("{function:16} {now:8.0} instructions a message"),
        }
    }
    if instructions.write {
        fs::write(&written, text).with_context(|| format!("write {}", written.display()))?;
    } else if !worse.is_empty() {
        bail!("more instructions than written down: {}", worse.join(", "));
    }
    Ok(())
}

/// One burst under valgrind; answers the instructions of each function.
fn count(messages: u64) -> anyhow::Result<BTreeMap<&'static str, u64>> {
    let directory = tools::target_dir().join(format!("instructions/{messages}"));
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let command = package::local_burst_of(
        messages,
        &wrapper(&directory, "aggregator")?,
        &wrapper(&directory, "batch-processor")?,
    )?;
    let summary = burst(&mut summarised(command, SLOW))?;
    let mut counts = BTreeMap::new();
    for (function, place) in FUNCTIONS {
        let environments = figure(&summary, place)? as usize;
        counts.insert(function, counted(&directory, function, environments)?);
    }
    Ok(counts)
}

/// A program that runs the packaged function under valgrind.
fn wrapper(directory: &Path, function: &str) -> anyhow::Result<PathBuf> {
    let bootstrap = package::packaged()?.join(function).join("bootstrap");
    let path = directory.join(function);
    // Not `exec`: the host ends this shell, and valgrind lives on to write its count.
    let script = format!(
        "#!/bin/sh\nvalgrind --quiet --tool=callgrind --callgrind-out-file='{}/{function}.%p' '{}'\n",
        directory.display(),
        bootstrap.display()
    );
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// The sum over the counts of so many environments, once they are written.
fn counted(directory: &Path, function: &str, environments: usize) -> anyhow::Result<u64> {
    let started = Instant::now();
    loop {
        let counts = totals(directory, function)?;
        if counts.len() >= environments {
            return Ok(counts.iter().sum());
        }
        ensure!(
            started.elapsed() < COUNT_WITHIN,
            "{function}: `{}` of {environments} environments have written their count",
            counts.len()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn totals(directory: &Path, function: &str) -> anyhow::Result<Vec<u64>> {
    let prefix = format!("{function}.");
    let mut totals = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(&prefix) {
            continue;
        }
        // The last line but for its names; a file that is being written has none.
        let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
        if let Some(total) = total {
            totals.push(total.trim().parse().context("a count of callgrind")?);
        }
    }
    Ok(totals)
}

fn read(path: &Path) -> anyhow::Result<BTreeMap<String, f64>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    text.lines()
        .map(|line| {
            let (function, count) = line.split_once(' ').context("`function count`")?;
            Ok((function.to_owned(), count.parse()?))
        })
        .collect::<anyhow::Result<_>>()
        .with_context(|| format!("read {}", path.display()))
}
