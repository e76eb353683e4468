//! A burst that is measured, and the figures of its summary.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

/// The command of a burst, made to answer its summary alone.
pub(super) fn summarised(mut command: Command, arguments: &[impl AsRef<OsStr>]) -> Command {
    command.arg("--json").args(arguments).stderr(Stdio::null());
    command
}

/// Runs a burst; one that lost or repeated anything is an error.
pub(super) fn burst(command: &mut Command) -> anyhow::Result<Value> {
    let output = command.output().context("run local")?;
    ensure!(
        output.status.success(),
        "{command:?} lost or repeated something, or did not end: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    serde_json::from_slice(&output.stdout).context("the summary of a burst is one JSON object")
}

/// A number of a burst's summary.
pub(super) fn figure(summary: &Value, place: &str) -> anyhow::Result<f64> {
    summary
        .pointer(place)
        .and_then(Value::as_f64)
        .with_context(|| format!("the summary has no number at {place}"))
}
