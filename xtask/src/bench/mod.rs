//! What a message costs, measured on the executables that deploy.
//!
//! CPU and peak memory as the kernel accounts for each function's processes, start-up included. Wall times say more about the
//! machine than about the code, and stand beside them only where waiting is what is measured.

mod instructions;
mod summary;
mod table;

use anyhow::ensure;
use summary::{burst, figure, summarised};

use crate::{package, tools};

/// What `cargo xtask bench` is told.
#[derive(clap::Args)]
pub struct Bench {
    #[command(subcommand)]
    what: Option<What>,
    /// Messages in each burst, duplicates included
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    messages: u64,
    /// Bursts, of which the median is taken
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// More flags of `local burst`
    #[arg(last = true, value_name = "FLAGS")]
    arguments: Vec<String>,
}

#[derive(clap::Subcommand)]
enum What {
    /// The pure parts of a message's way, each by itself
    Parts {
        /// Flags of the benchmarks; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Instructions a message of both functions, against those that were written down; needs valgrind
    Instructions(instructions::Instructions),
    /// Bursts of many kinds, one after the other, as the rows of a table
    Table(table::Table),
}

/// A figure of a burst's summary.
struct Figure {
    name: &'static str,
    place: &'static str,
    /// What the median may be at most; none for what depends on the disk.
    limit: Option<f64>,
}

const fn limited(name: &'static str, place: &'static str, limit: f64) -> Figure {
    let limit = Some(limit);
    Figure { name, place, limit }
}

const fn unlimited(name: &'static str, place: &'static str) -> Figure {
    let limit = None;
    Figure { name, place, limit }
}

const FIGURES: [Figure; 6] = [
    limited(
        "aggregator, CPU us a message",
        "/aggregator/cpu_micros_per_message",
        28.0,
    ),
    limited("aggregator, peak MB", "/aggregator/peak_mb", 64.0),
    unlimited("aggregator, cold start ms", "/aggregator/cold_start_ms"),
    limited(
        "batch-processor, CPU us a message",
        "/batch_processor/cpu_micros_per_message",
        30.0,
    ),
    limited("batch-processor, peak MB", "/batch_processor/peak_mb", 64.0),
    unlimited(
        "batch-processor, cold start ms",
        "/batch_processor/cold_start_ms",
    ),
];

/// Measures what is asked for; the bursts if nothing is.
pub fn run(bench: &Bench) -> anyhow::Result<()> {
    match &bench.what {
        None => bursts(bench),
        Some(What::Parts { arguments }) => parts(arguments),
        Some(What::Instructions(instructions)) => instructions::run(instructions),
        Some(What::Table(table)) => table::run(table),
    }
}

/// Runs bursts one after the other, and prints a table of what each function took.
///
/// # Errors
/// When a median is above its limit.
fn bursts(bench: &Bench) -> anyhow::Result<()> {
    package::package(&package::Package::default())?;
    let mut command = summarised(package::local_burst(bench.messages)?, &bench.arguments);
    let mut figures: [Vec<f64>; FIGURES.len()] = Default::default();
    for _ in 0..bench.runs {
        let summary = burst(&mut command)?;
        for (one, values) in FIGURES.iter().zip(&mut figures) {
            values.push(figure(&summary, one.place)?);
        }
    }
    println!("{} bursts of {} messages", bench.runs, bench.messages);
    let mut exceeded = Vec::new();
    for (Figure { name, limit, .. }, mut values) in FIGURES.iter().zip(figures) {
        values.sort_by(f64::total_cmp);
        let median = values[values.len() / 2];
        match *values {
            [least, .., most] => println!("{name:36} {median:6.1}   ({least:.1} to {most:.1})"),
            _ => println!("{name:36} {median:6.1}"),
        }
        if let Some(limit) = limit
            && median > *limit
        {
            exceeded.push(format!("{name}: got {median:.1}, expected at most {limit}"));
        }
    }
    ensure!(exceeded.is_empty(), "{}", exceeded.join("\n"));
    Ok(())
}

fn parts(arguments: &[String]) -> anyhow::Result<()> {
    let mut command = vec!["bench", "--package", "tests", "--bench", "parts", "--"];
    command.extend(arguments.iter().map(String::as_str));
    tools::cargo(&command)
}
