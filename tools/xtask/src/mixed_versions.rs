//! Runs a former version and the present one together, as they run during an update: bursts through `local`, with kills.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::former::{self, Former, LAST_RELEASE};
use crate::tools::{cargo, target_dir};

#[derive(clap::Args)]
pub struct MixedVersions {
    /// The former revision
    #[arg(long, value_name = "REV", default_value = LAST_RELEASE)]
    from: String,
    /// Number of messages in each burst, including duplicates
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u64).range(4_000..))]
    messages: u64,
    /// The seed of the bursts and of their faults
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Run only the bursts whose names contain TEXT
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// Faults of every burst. Timeouts are short because the messages of a killed process come back after six of them.
const BURST: [&str; 23] = [
    "burst",
    "--json",
    "--duplicates=10",
    "--kills=8",
    "--kill-at=part frozen:20",
    "--kill-at=part delivered:20",
    "--lost-replies=1",
    "--index-lag=2",
    "--duplicate-deliveries=2",
    "--expired-credentials=5",
    "--aggregator-timeout=5",
    "--batch-processor-timeout=8",
    "--batch-size=500",
    "--sweep-every=5",
    "--env=DEADLINE_MARGIN_MS=1500",
    "--env=MAX_BATCH_SIZE=2000",
    "--env=INDEX_SHARDS=2",
    "--env=MAX_SECONDARY_BATCHING_WINDOW=3",
    // As the templates of 0.2.0 set it. Without it, the fingerprints of 0.2.0 are others (CHANGELOG.md, "Upgrade from 0.2.0").
    "--env=SINK_TABLE=events",
    // One part has 2,000 bodies of 300 bytes: batches have several parts, which may be delivered by different versions.
    "--env=MAX_PART_BYTES=1048576",
    "--env=MAX_BATCH_BYTES=16777216",
    "--env=VERIFY_DELAY=1",
    "--patience=120",
];

/// A burst through both versions.
struct Burst {
    name: &'static str,
    /// Flags of `batch-local burst`.
    flags: Vec<String>,
}

/// Runs the bursts, and prints a line for each.
///
/// # Errors
/// A version does not build, or a burst lost or repeated an event, or did not end.
pub fn run(mixed: &MixedVersions) -> anyhow::Result<()> {
    let former = former::build(&mixed.from)?;
    // Selects the whole workspace, so that dependencies have the same features as in other tasks and are not built again.
    cargo(&["build", "--workspace", "--all-targets"])?;
    let local = target_dir().join("debug/batch-local");
    println!(
        "{} ({}) and {}, {} messages each",
        former.version,
        mixed.from,
        env!("CARGO_PKG_VERSION"),
        mixed.messages
    );
    let mut failed = Vec::new();
    let bursts = bursts(&former, mixed.messages);
    for burst in bursts.iter().filter(|one| one.name.contains(&mixed.only)) {
        let (ok, summary) = summary(&local, burst, mixed)?;
        println!("{:44} {}", burst.name, figures(&summary));
        if !ok {
            failed.push(burst.name);
            println!("{summary:#}");
        }
    }
    ensure!(
        failed.is_empty(),
        "bursts that did not end with OK: {}",
        failed.join(", ")
    );
    Ok(())
}

fn bursts(former: &Former, messages: u64) -> Vec<Burst> {
    let [aggregator, batch_processor] =
        [&former.aggregator, &former.batch_processor].map(|path| path.display().to_string());
    let former_aggregator = format!("--aggregator={aggregator}");
    let former_processor = format!("--batch-processor={batch_processor}");
    // The former batch-processor refuses the batches of the present aggregator until it is updated.
    // The messages take 10 s. The functions change in the middle, one after the other, as two deployments would.
    let rate = format!("--rate={}", (messages / 10).max(1));
    let at =
        |secs: f64, function: &str, path: &str| format!("--deploy-at={secs}:{function}={path}");
    let flags = |flags: &[&str]| Vec::from_iter(flags.iter().map(|flag| (*flag).to_owned()));
    vec![
        Burst {
            name: "former aggregator, present batch-processor",
            flags: flags(&[&former_aggregator]),
        },
        Burst {
            name: "update in the middle",
            flags: flags(&[
                &rate,
                &former_aggregator,
                &former_processor,
                &at(4.0, "aggregator", "built-in"),
                &at(7.0, "batch-processor", "built-in"),
            ]),
        },
        Burst {
            name: "update, roll back, update again",
            flags: flags(&[
                &rate,
                &former_aggregator,
                &former_processor,
                &at(2.0, "batch-processor", "built-in"),
                &at(3.5, "aggregator", "built-in"),
                &at(5.0, "batch-processor", &batch_processor),
                &at(6.5, "aggregator", &aggregator),
                &at(8.0, "aggregator", "built-in"),
                &at(9.5, "batch-processor", "built-in"),
            ]),
        },
    ]
}

/// Runs a burst; returns whether it ended with `OK`, and its summary.
fn summary(local: &Path, burst: &Burst, mixed: &MixedVersions) -> anyhow::Result<(bool, Value)> {
    let mut command = Command::new(local);
    command.args(BURST).args(&burst.flags);
    command.arg(format!("--messages={}", mixed.messages));
    command.arg(format!("--seed={}", mixed.seed));
    command.arg(format!("--fault-seed={}", mixed.seed));
    let output = command.stdin(Stdio::null()).output().context("run local")?;
    let summary = serde_json::from_slice(&output.stdout).with_context(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        format!("{}: no summary: {}\n{stderr}", burst.name, output.status)
    })?;
    Ok((output.status.success(), summary))
}

/// Returns the figures of a summary that say whether anything was lost, and how much went wrong meanwhile.
fn figures(summary: &Value) -> String {
    let number = |pointer| summary.pointer(pointer).and_then(Value::as_u64);
    let shown = |pointer| number(pointer).map_or_else(|| "?".to_owned(), |it| it.to_string());
    let replaced = summary.pointer("/faults/redeploys");
    let replaced = replaced.and_then(Value::as_array).map_or(0, Vec::len);
    format!(
        "delivered {}, lost {}, repeated {}, killed {} + {}, updates {replaced}",
        shown("/audit/delivered"),
        shown("/audit/lost"),
        shown("/audit/repeated"),
        shown("/aggregator/killed"),
        shown("/batch_processor/killed"),
    )
}
