//! Counts instructions per message with callgrind. Unlike CPU time, the counts do not depend on how busy the machine is.
//!
//! Two bursts of different length run, with one environment per function; the difference of their counts leaves out the cold
//! starts. With a second environment, as on a busy machine, there is no count. Valgrind replaces instructions that
//! it does not know, such as those for SHA, by several others, so the counts are higher than the processor's. Compare them only with
//! earlier counts.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::summary::{burst, figure, summarised};
use crate::{package, tools};

#[derive(clap::Args)]
pub struct Instructions {
    /// Store the counts in tests/benches/instructions.txt, for later runs to compare with
    #[arg(long)]
    write: bool,
}

const SHORT_MESSAGES: u64 = 5_000;
const LONG_MESSAGES: u64 = 20_000;
const FUNCTIONS: [(&str, &str); 2] = [
    ("aggregator", "/aggregator/cold_starts"),
    ("batch-processor", "/batch_processor/cold_starts"),
];
/// A count above the stored one times this is a regression. Two runs of one executable differed by less than 1 %.
const TOLERANCE: f64 = 1.05;
/// Flags of `batch-local burst` for functions under valgrind, which run some fifty times as slowly, each in one environment.
const SLOW: &[&str] = &[
    "--aggregators=2",
    "--batch-processors=2",
    "--concurrency-per-environment=2",
    "--aggregator-timeout=120",
    "--batch-processor-timeout=240",
    "--sweep-every=0",
    // Otherwise each batch would wait for its window, which ends later the longer the aggregator's timeout is.
    "--env=SEAL_WHEN_DRAINED=on",
    // Of two batches, the second would start a second batch-processor; under valgrind, an invocation takes longer than the default window.
    "--env=MAX_BATCH_SIZE=20000",
    "--env=MAX_SECONDARY_BATCHING_WINDOW=60",
];
/// How long to wait for the counts. Valgrind writes them when the functions end, after the burst.
const COUNT_WITHIN: Duration = Duration::from_secs(60);

/// Counts the instructions per message and compares them with the stored counts.
pub fn run(instructions: &Instructions) -> anyhow::Result<()> {
    let found = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    ensure!(
        found.is_ok_and(|status| status.success()),
        "valgrind: not found: expected it in PATH; install the package `valgrind`"
    );
    package::package(&package::Package::default())?;
    let short = count(SHORT_MESSAGES)?;
    let long = count(LONG_MESSAGES)?;
    let stored = tools::root()?.join("tests/benches/instructions.txt");
    let before = read(&stored)?;
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
                    "{function:16} {now:8.0} instructions per message, {percent:+.1} % of {before:.0}"
                );
                if now > before * TOLERANCE {
                    worse.push(function);
                }
            }
            None => println!("{function:16} {now:8.0} instructions per message"),
        }
    }
    if instructions.write {
        fs::write(&stored, text).with_context(|| format!("write {}", stored.display()))?;
    } else if !worse.is_empty() {
        bail!(
            "instructions per message: more than {TOLERANCE} times the stored counts: {}; \
             `--write` stores the new counts",
            worse.join(", ")
        );
    }
    Ok(())
}

/// Runs a burst under valgrind; returns the instructions of each function.
fn count(messages: u64) -> anyhow::Result<BTreeMap<&'static str, u64>> {
    let directory = tools::target_dir().join(format!("instructions/{messages}"));
    tools::remove_folder(&directory)?;
    fs::create_dir_all(&directory)?;
    let wrapper = |function| wrapper(&directory, function);
    let [aggregator, batch_processor] = package::FUNCTIONS.map(wrapper);
    let command = package::local_burst_of(messages, &aggregator?, &batch_processor?)?;
    let summary = burst(&mut summarised(command, SLOW))?;
    let mut counts = BTreeMap::new();
    for (function, pointer) in FUNCTIONS {
        let environments = figure(&summary, pointer)?;
        ensure!(
            environments == 1.0,
            "{function}: {messages} messages took {environments} environments, expected 1; measure when the machine does nothing else"
        );
        counts.insert(function, counted(&directory, function)?);
    }
    Ok(counts)
}

/// Writes a script that runs the packaged function under valgrind; returns its path.
fn wrapper(directory: &Path, function: &str) -> anyhow::Result<PathBuf> {
    let bootstrap = package::packaged()?.join(function).join("bootstrap");
    let path = directory.join(function);
    // No `exec`: the host kills this shell, and valgrind goes on and writes its count.
    let script = format!(
        "#!/bin/sh\nvalgrind --quiet --tool=callgrind --callgrind-out-file='{}/{function}.%p' '{}'\n",
        directory.display(),
        bootstrap.display()
    );
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Waits until the environment has written its count.
fn counted(directory: &Path, function: &str) -> anyhow::Result<u64> {
    let started = Instant::now();
    loop {
        if let Some(count) = total(directory, function)? {
            return Ok(count);
        }
        ensure!(
            started.elapsed() < COUNT_WITHIN,
            "{function}: valgrind wrote no count within {} s",
            COUNT_WITHIN.as_secs()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn total(directory: &Path, function: &str) -> anyhow::Result<Option<u64>> {
    let prefix = format!("{function}.");
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(&prefix) {
            continue;
        }
        // A file that valgrind has not finished has no line `totals`.
        let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
        if let Some(total) = total {
            let count = total.trim().parse();
            return Ok(Some(count.context("read a count of callgrind")?));
        }
    }
    Ok(None)
}

fn read(path: &Path) -> anyhow::Result<BTreeMap<String, f64>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    let count = |line: &str| {
        let pair = line.split_once(' ');
        let (function, count) = pair.context("expected a line `<function> <count>`")?;
        anyhow::Ok((function.to_owned(), count.parse::<f64>()?))
    };
    let counts: anyhow::Result<BTreeMap<_, _>> = text.lines().map(count).collect();
    counts.with_context(|| format!("read {}", path.display()))
}
