//! Measures how well `loadgen send` holds a rate.
//!
//! The queue is one of `batch-local serve` that nothing receives from, so that the functions do not compete for the processors.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::summary::figure;
use crate::package;

#[derive(clap::Args)]
pub struct Rates {
    /// Length of each burst
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    seconds: u64,
    /// Messages per second of each burst
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000], value_name = "RATES")]
    rates: Vec<u64>,
    /// Send to this queue, which must take part in nothing else [default: a queue of `batch-local serve`]
    #[arg(long, value_name = "URL")]
    queue_url: Option<String>,
}

/// The largest deviation of a rate, in percent.
const DEVIATION_MAX: f64 = 2.0;
/// The variable of a queue that no function receives from.
const QUEUE: &str = "export QUARANTINE_SQS_URL=";
/// The beginning of the last line of `batch-local serve`. It would fail if its output were closed before that.
const LAST: &str = "# Delivered batches are in ";

/// A running `batch-local serve`, which is stopped when this is dropped.
struct Serve(Child);

impl Drop for Serve {
    fn drop(&mut self) {
        // As Ctrl-C does, so that it ends the functions too.
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        let _ = self.0.wait();
    }
}

/// Sends a burst of each rate, and prints a table.
///
/// # Errors
/// A rate deviates by more than 2 %.
pub fn run(rates: &Rates) -> anyhow::Result<()> {
    let tools = package::build_tools()?;
    let (_serve, queue) = match &rates.queue_url {
        Some(url) => (None, url.clone()),
        None => {
            serve(Command::new(tools.join("batch-local"))).map(|(serve, url)| (Some(serve), url))?
        }
    };
    println!(
        "| messages a second | achieved | deviation, % | worst second, % | latest, ms | scheduled p50, p99, ms | request p50, p99, ms |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    let mut exceeded = Vec::new();
    for (seed, rate) in (1..).zip(&rates.rates) {
        let mut send = Command::new(tools.join("loadgen"));
        send.args(["send", "--queue-url", &queue, "--rate", &rate.to_string()])
            .args(["--messages", &(rate * rates.seconds).to_string()])
            .args(["--seed", &seed.to_string()])
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .stderr(Stdio::null());
        let output = send.output().context("run loadgen send")?;
        ensure!(output.status.success(), "loadgen send: {}", output.status);
        let report: Value = serde_json::from_slice(&output.stdout).context("read the summary")?;
        let deviation = figure(&report, "/rate/deviation_percent")?;
        let millis = |pointer: &str| figure(&report, pointer).map(|secs| secs * 1_000.0);
        println!(
            "| {rate} | {:.1} | {deviation:.2} | {:.1} | {:.1} | {:.1}, {:.1} | {:.1}, {:.1} |",
            figure(&report, "/rate/achieved_per_second")?,
            figure(&report, "/rate/worst_second/deviation_percent")?,
            millis("/rate/late_max_secs")?,
            millis("/latencies/0/p50_secs")?,
            millis("/latencies/0/p99_secs")?,
            millis("/latencies/1/p50_secs")?,
            millis("/latencies/1/p99_secs")?,
        );
        if deviation.abs() > DEVIATION_MAX {
            exceeded.push(format!(
                "{rate} a second: got {deviation:.2} %, expected at most {DEVIATION_MAX} %"
            ));
        }
    }
    ensure!(exceeded.is_empty(), "{}", exceeded.join("\n"));
    Ok(())
}

/// Starts `batch-local serve`; returns it with the URL of a queue.
fn serve(mut local: Command) -> anyhow::Result<(Serve, String)> {
    let mut child = local
        .arg("serve")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("run batch-local serve")?;
    let output = child.stdout.take();
    let output = output.context("the output of batch-local serve")?;
    let serve = Serve(child);
    let mut queue = None;
    for line in BufReader::new(output).lines() {
        let line = line.context("read the output of batch-local serve")?;
        if let Some(url) = line.strip_prefix(QUEUE) {
            queue = Some(url.trim_matches('\'').to_owned());
        }
        if line.starts_with(LAST) {
            break;
        }
    }
    Ok((serve, queue.context("batch-local serve: printed no queue")?))
}
