//! Measures the cost of a message with the packaged functions.
//!
//! CPU time and peak memory are the kernel's figures for the processes of each function, including their start. Wall times
//! depend more on the machine than on the code, so they are shown only where waiting is measured.

mod audit;
mod instructions;
mod rates;
mod summary;
mod table;

use std::process::Command;

use anyhow::ensure;
use summary::{burst, figure, summarised};

use crate::package::{BODIES, Package};
use crate::{package, tools};

#[derive(clap::Args)]
pub struct Bench {
    #[command(subcommand)]
    what: Option<What>,
    /// Number of messages in each burst, including duplicates
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    messages: u64,
    /// Where the bodies are; with `all`, in each place in turn
    #[arg(long, value_name = "PLACE", default_value = "items", value_parser = ["items", "log:table", "log:s3", "all"])]
    bodies: String,
    /// Number of bursts; the median is reported
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// More flags of `batch-local burst`
    #[arg(last = true, value_name = "FLAGS")]
    arguments: Vec<String>,
}

#[derive(clap::Subcommand)]
enum What {
    /// Measure single steps that a message goes through, without I/O
    Parts {
        /// Flags of the benchmarks; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Count instructions per message of both functions, and compare with the stored counts; needs valgrind
    Instructions(instructions::Instructions),
    /// Send bursts at several rates, and print how well each was held
    Rates(rates::Rates),
    /// Audit the deliveries of 10,000,000 events, and print how long that takes and how much memory; takes 600 MB of disk
    Audit,
    /// Run bursts of many kinds, one after the other, and print a table
    Table(table::Table),
}

/// The largest allowed median of a function's memory, in MB. CPU time has no limit, because it depends on the machine: `bench
/// instructions` compares what does not.
const PEAK_MB_MAX: f64 = 64.0;
/// As [`PEAK_MB_MAX`], with the log, whose batch-processor holds the lines of a batch and runs of the index.
const LOG_PEAK_MB_MAX: f64 = 192.0;

/// The figures of a burst's summary: what they are called here, and where they are.
const FIGURES: [(&str, &str); 6] = [
    (
        "aggregator, CPU us per message",
        "/aggregator/cpu_micros_per_message",
    ),
    ("aggregator, peak MB", "/aggregator/peak_mb"),
    ("aggregator, cold start ms", "/aggregator/cold_start_ms"),
    (
        "batch-processor, CPU us per message",
        "/batch_processor/cpu_micros_per_message",
    ),
    ("batch-processor, peak MB", "/batch_processor/peak_mb"),
    (
        "batch-processor, cold start ms",
        "/batch_processor/cold_start_ms",
    ),
];

/// Runs the chosen benchmark, by default the bursts.
pub fn run(bench: &Bench) -> anyhow::Result<()> {
    match &bench.what {
        None => all_bursts(bench),
        Some(What::Parts { arguments }) => parts(arguments),
        Some(What::Instructions(instructions)) => instructions::run(instructions),
        Some(What::Rates(rates)) => rates::run(rates),
        Some(What::Audit) => audit::run(),
        Some(What::Table(table)) => table::run(table),
    }
}

/// Runs the bursts of each place for bodies.
///
/// # Errors
/// A function needs more than [`PEAK_MB_MAX`], or [`LOG_PEAK_MB_MAX`].
fn all_bursts(bench: &Bench) -> anyhow::Result<()> {
    let places: &[&str] = match &*bench.bodies {
        "all" => &BODIES,
        one => &[one],
    };
    package::package(&Package::default())?;
    let mut exceeded = Vec::new();
    for bodies in places {
        let command = package::local_burst(bench.messages)?;
        exceeded.extend(bursts(bench, bodies, command)?);
    }
    ensure!(exceeded.is_empty(), "{}", exceeded.join("\n"));
    Ok(())
}

/// Runs bursts one after the other, and prints a table of the figures of each function. Returns the medians of memory above
/// [`PEAK_MB_MAX`], or [`LOG_PEAK_MB_MAX`].
fn bursts(bench: &Bench, bodies: &str, mut command: Command) -> anyhow::Result<Vec<String>> {
    if bodies != "items" {
        command.args(["--bodies", bodies]);
    }
    let mut command = summarised(command, &bench.arguments);
    let mut figures: [Vec<f64>; FIGURES.len()] = Default::default();
    for _ in 0..bench.runs {
        let summary = burst(&mut command)?;
        for ((_, pointer), values) in FIGURES.iter().zip(&mut figures) {
            values.push(figure(&summary, pointer)?);
        }
    }
    let Bench { runs, messages, .. } = bench;
    println!("{runs} bursts of {messages} messages, bodies: {bodies}");
    let mut exceeded = Vec::new();
    for ((name, pointer), mut values) in FIGURES.iter().zip(figures) {
        values.sort_by(f64::total_cmp);
        let median = values[values.len() / 2];
        match *values {
            [least, .., most] => println!("{name:36} {median:6.1}   ({least:.1} to {most:.1})"),
            _ => println!("{name:36} {median:6.1}"),
        }
        let peak_mb_max = match bodies {
            "items" => PEAK_MB_MAX,
            _ => LOG_PEAK_MB_MAX,
        };
        if pointer.ends_with("peak_mb") && median > peak_mb_max {
            exceeded.push(format!(
                "{name}, bodies: {bodies}: got {median:.1}, expected at most {peak_mb_max}"
            ));
        }
    }
    Ok(exceeded)
}

fn parts(arguments: &[String]) -> anyhow::Result<()> {
    let mut command = vec!["bench", "--package", "tests", "--bench", "parts", "--"];
    command.extend(arguments.iter().map(String::as_str));
    tools::cargo(&command)
}
