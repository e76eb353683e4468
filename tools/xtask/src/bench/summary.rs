//! Runs a measured burst and reads the figures in its summary.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

/// Makes the command of a burst print only its summary, as JSON.
pub(super) fn summarised(
    mut command: Command,
    arguments: impl IntoIterator<Item: AsRef<OsStr>>,
) -> Command {
    command.arg("--json").args(arguments).stderr(Stdio::null());
    command
}

/// Runs a burst; returns its summary.
///
/// # Errors
/// The burst lost or repeated an event, or did not end.
pub(super) fn burst(command: &mut Command) -> anyhow::Result<Value> {
    let output = command.output().context("run local")?;
    ensure!(
        output.status.success(),
        "{command:?}: an event was lost or repeated, or the burst did not end: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    serde_json::from_slice(&output.stdout)
        .context("read the summary of a burst, expected one JSON object")
}

/// Returns a number in a burst's summary.
pub(super) fn figure(summary: &Value, pointer: &str) -> anyhow::Result<f64> {
    summary
        .pointer(pointer)
        .and_then(Value::as_f64)
        .with_context(|| format!("the summary has no number at {pointer}"))
}
