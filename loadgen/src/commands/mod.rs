//! The commands: for each, its arguments and what it does.

pub mod audit;
pub mod burst;
mod connect;
pub mod deliver;
mod pace;
pub mod plan;
pub mod report;
pub mod send;
mod signals;
mod workload;

use anyhow::Context;

/// The exit code of a burst that was not sent, and of an audit that found problems.
pub const FAILED: u8 = 1;
/// The exit code of wrong options, and of an audit that could not read its files.
pub const USAGE: u8 = 2;

/// Writes one JSON object to standard output.
fn print(report: &impl serde::Serialize) -> anyhow::Result<()> {
    use std::io::Write;
    let json = serde_json::to_string(report).context("write the report")?;
    writeln!(std::io::stdout(), "{json}").context("write the report")
}
