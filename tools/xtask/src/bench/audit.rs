//! Measures the time and the memory of `loadgen audit`.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::{package, tools};

/// The number of messages. 5 % of them are duplicates, so that 10,000,000 events are written, some 60 bytes each.
const MESSAGES: &str = "10526316";
/// The most memory that an audit may take, in MB.
const MEMORY_MAX_MB: f64 = 200.0;
/// Time between two looks at the memory. The kernel keeps the peak, so only what comes after the last look is missed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Writes the deliveries of a burst, and audits them, with both rules.
///
/// # Errors
/// An audit finds problems, or takes more than 200 MB.
pub fn run() -> anyhow::Result<()> {
    let loadgen = package::build_tools()?.join("loadgen");
    let dir = tools::target_dir().join("bench-audit");
    println!("| rule | seconds | peak, MB |");
    println!("|---|---:|---:|");
    for rule in ["drop", "requeue"] {
        tools::remove_folder(&dir)?;
        let burst = |command: &mut Command| {
            command
                .arg("--dir")
                .arg(&dir)
                .args(["--messages", MESSAGES, "--duplicates", "5", "--size", "120"])
                .args(["--on-duplicate", rule]);
        };
        let mut deliver = Command::new(&loadgen);
        burst(deliver.arg("deliver"));
        tools::status(&mut deliver)?;
        let mut command = Command::new(&loadgen);
        burst(command.arg("audit"));
        let (seconds, peak_mb) = measured(&mut command)?;
        println!("| `{rule}` | {seconds:.1} | {peak_mb:.0} |");
        ensure!(
            peak_mb <= MEMORY_MAX_MB,
            "{rule}: got {peak_mb:.0} MB, expected at most {MEMORY_MAX_MB} MB"
        );
    }
    tools::remove_folder(&dir)
}

/// Runs a command; returns how many seconds it took, and its peak memory in MB.
fn measured(command: &mut Command) -> anyhow::Result<(f64, f64)> {
    let started = Instant::now();
    let mut child = command
        .stdout(Stdio::null())
        .spawn()
        .context("run the audit")?;
    let proc = format!("/proc/{}/status", child.id());
    let mut peak_kb = 0.0;
    loop {
        let status = fs::read_to_string(&proc).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok());
        peak_kb = peak.unwrap_or(peak_kb);
        if let Some(status) = child.try_wait().context("wait for the audit")? {
            ensure!(status.success(), "the audit failed: {status}");
            return Ok((started.elapsed().as_secs_f64(), peak_kb / 1_000.0));
        }
        thread::sleep(LOOK_EVERY);
    }
}
