//! What a message costs, measured on the executables that deploy.
//!
//! CPU and peak memory as the kernel accounts for each function's processes, start-up included. Wall times say more about the
//! machine than about the code, and are left out.

use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::package;

/// What `cargo xtask bench` is told.
#[derive(clap::Args)]
pub struct Bench {
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

/// What is read from a burst's summary: a name, and where it stands.
const FIGURES: [(&str, &str); 4] = [
    (
        "aggregator, CPU us a message",
        "/aggregator/cpu_micros_per_message",
    ),
    ("aggregator, peak MB", "/aggregator/peak_mb"),
    (
        "batch-processor, CPU us a message",
        "/batch_processor/cpu_micros_per_message",
    ),
    ("batch-processor, peak MB", "/batch_processor/peak_mb"),
];

/// Bursts one after the other, and a table of what each function took.
pub fn run(bench: &Bench) -> anyhow::Result<()> {
    package::package()?;
    let mut command = package::local_burst(bench.messages)?;
    command
        .arg("--json")
        .args(&bench.arguments)
        .stderr(Stdio::null());
    let mut figures: [Vec<f64>; FIGURES.len()] = Default::default();
    for run in 1..=bench.runs {
        let output = command.output().context("run local")?;
        ensure!(
            output.status.success(),
            "burst {run} of {} lost or repeated something, or did not end: {}\n{}",
            bench.runs,
            output.status,
            String::from_utf8_lossy(&output.stdout)
        );
        let summary: Value = serde_json::from_slice(&output.stdout)
            .context("the summary of a burst is one JSON object")?;
        for ((name, place), values) in FIGURES.iter().zip(&mut figures) {
            let value = summary.pointer(place).and_then(Value::as_f64);
            values.push(value.with_context(|| format!("the summary has no {name} at {place}"))?);
        }
    }
    println!("{} bursts of {} messages", bench.runs, bench.messages);
    for ((name, _), mut values) in FIGURES.iter().zip(figures) {
        values.sort_by(f64::total_cmp);
        let [least, .., most] = *values else {
            println!("{name:36} {:6.1}", values[0]);
            continue;
        };
        let median = values[values.len() / 2];
        println!("{name:36} {median:6.1}   ({least:.1} to {most:.1})");
    }
    Ok(())
}
