//! Measures the cost of a message with the packaged functions.
//!
//! CPU time and peak memory are the kernel's figures for the processes of each function, including their start. Wall times
//! depend more on the machine than on the code, so they are shown only where waiting is measured.

mod instructions;
mod summary;
mod table;

use anyhow::ensure;
use summary::{burst, figure, summarised};

use crate::{package, tools};

/// The arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Bench {
    #[command(subcommand)]
    what: Option<What>,
    /// Number of messages in each burst, including duplicates
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    messages: u64,
    /// Number of bursts; the median is reported
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// More flags of `local burst`
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
    /// Run bursts of many kinds, one after the other, and print a table
    Table(table::Table),
}

/// A figure of a burst's summary.
struct Figure {
    name: &'static str,
    pointer: &'static str,
    /// The largest allowed median. Figures that depend on the disk have none.
    limit: Option<f64>,
}

const fn limited(name: &'static str, pointer: &'static str, limit: f64) -> Figure {
    let limit = Some(limit);
    Figure {
        name,
        pointer,
        limit,
    }
}

const fn unlimited(name: &'static str, pointer: &'static str) -> Figure {
    let limit = None;
    Figure {
        name,
        pointer,
        limit,
    }
}

const FIGURES: [Figure; 6] = [
    limited(
        "aggregator, CPU us per message",
        "/aggregator/cpu_micros_per_message",
        28.0,
    ),
    limited("aggregator, peak MB", "/aggregator/peak_mb", 64.0),
    unlimited("aggregator, cold start ms", "/aggregator/cold_start_ms"),
    limited(
        "batch-processor, CPU us per message",
        "/batch_processor/cpu_micros_per_message",
        30.0,
    ),
    limited("batch-processor, peak MB", "/batch_processor/peak_mb", 64.0),
    unlimited(
        "batch-processor, cold start ms",
        "/batch_processor/cold_start_ms",
    ),
];

/// Runs the chosen benchmark, by default the bursts.
pub fn run(bench: &Bench) -> anyhow::Result<()> {
    match &bench.what {
        None => bursts(bench),
        Some(What::Parts { arguments }) => parts(arguments),
        Some(What::Instructions(instructions)) => instructions::run(instructions),
        Some(What::Table(table)) => table::run(table),
    }
}

/// Runs bursts one after the other, and prints a table of the figures of each function.
///
/// # Errors
/// A median is above its limit.
fn bursts(bench: &Bench) -> anyhow::Result<()> {
    package::package(&package::Package::default())?;
    let mut command = summarised(package::local_burst(bench.messages)?, &bench.arguments);
    let mut figures: [Vec<f64>; FIGURES.len()] = Default::default();
    for _ in 0..bench.runs {
        let summary = burst(&mut command)?;
        for (one, values) in FIGURES.iter().zip(&mut figures) {
            values.push(figure(&summary, one.pointer)?);
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
