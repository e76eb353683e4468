//! Runs bursts of many kinds. The name of a row says how its burst differs from that of the first row.

use serde_json::Value;

use super::summary::{burst, figure, summarised};
use crate::package;

#[derive(clap::Args)]
pub struct Table {
    /// Run only the rows whose name contains this text [default: all]
    #[arg(long, value_name = "TEXT", default_value = "")]
    row: String,
}

/// The rows: name, number of messages, and flags of `batch-local burst`. The first row is 100,000 messages of 300 bytes, 5 % duplicates,
/// 10 shards, `WRITE_MODE=batch`.
const ROWS: [(&str, u64, &str); 15] = [
    ("100,000 messages", 100_000, ""),
    ("10,000 messages", 10_000, ""),
    ("1,200,000 messages", 1_200_000, ""),
    ("100 bytes", 100_000, "--size 100"),
    ("1 KB", 100_000, "--size 1024"),
    ("10 KB, 20,000 messages", 20_000, "--size 10240"),
    ("no duplicates", 100_000, "--duplicates 0"),
    ("50 % duplicates", 100_000, "--duplicates 50"),
    (
        "50 % duplicates, one environment",
        100_000,
        "--duplicates 50 --concurrency-per-environment 2",
    ),
    ("1 shard", 100_000, "--env INDEX_SHARDS=1"),
    ("`WRITE_MODE=put`", 100_000, "--env WRITE_MODE=put"),
    (
        "`SEAL_WHEN_DRAINED=on`",
        100_000,
        "--env SEAL_WHEN_DRAINED=on",
    ),
    (
        "1,000 units a key, one environment, 10 shards",
        50_000,
        "--partition-limit=1000 --duplicates=0 --concurrency-per-environment=2 --aggregator-timeout=30",
    ),
    (
        "1,000 units a key, one environment, 1 shard",
        50_000,
        "--partition-limit=1000 --duplicates=0 --concurrency-per-environment=2 --aggregator-timeout=30 --env=INDEX_SHARDS=1",
    ),
    (
        "100 units a key",
        20_000,
        "--partition-limit=100 --duplicates=0",
    ),
];

/// The columns: heading, JSON pointer into a burst's summary, and number of decimals.
const COLUMNS: [(&str, &str, usize); 9] = [
    ("aggregator, µs", "/aggregator/cpu_micros_per_message", 1),
    ("MB", "/aggregator/peak_mb", 0),
    (
        "processor, µs",
        "/batch_processor/cpu_micros_per_message",
        1,
    ),
    ("MB", "/batch_processor/peak_mb", 0),
    ("write units", "/cost/per_unique/write_units", 2),
    ("requests", "/cost/per_message/dynamodb_requests", 3),
    ("batches", "/audit/batches/count", 0),
    ("claimed, s", "/time/claimed_secs", 1),
    ("drained, s", "/time/drained_secs", 1),
];

/// Runs the bursts of the rows, and prints each row when its burst ends.
pub fn run(table: &Table) -> anyhow::Result<()> {
    package::package(&package::Package::default())?;
    let headings: Vec<&str> = COLUMNS.iter().map(|(heading, ..)| *heading).collect();
    println!("| | {} |", headings.join(" | "));
    println!("|---|{}", "---:|".repeat(COLUMNS.len()));
    for (name, messages, flags) in ROWS.iter().filter(|row| row.0.contains(&table.row)) {
        let command = package::local_burst(*messages)?;
        let summary = burst(&mut summarised(command, flags.split_whitespace()))?;
        println!("| {name} | {} |", cells(&summary)?.join(" | "));
    }
    Ok(())
}

fn cells(summary: &Value) -> anyhow::Result<Vec<String>> {
    COLUMNS
        .iter()
        .map(|(_, pointer, decimals)| Ok(format!("{:.*}", decimals, figure(summary, pointer)?)))
        .collect()
}
