//! `--traces`: the spans of the functions and of the burst in one file, and a picture of them.
//!
//! The file has the form of OpenTelemetry's file exporter: one `ExportTraceServiceRequest` as JSON in each line.
//! Source: <https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/> (2026-11).

#[cfg(feature = "otel")]
mod collector;
mod picture;
#[cfg(feature = "otel")]
mod producer;
mod spans;

#[cfg(feature = "otel")]
pub use collector::Collector;
pub use picture::picture;

use std::path::Path;

use anyhow::bail;

/// Fails if there is a file for traces and this build has none.
pub(crate) fn check_build(file: Option<&Path>) -> anyhow::Result<()> {
    if let Some(file) = file.filter(|_| !cfg!(feature = "otel")) {
        bail!(
            "`--traces`: not in this build: got `{file}`, expected a build with the cargo feature `otel`; run \
             `cargo run --release -p local --features otel -- burst --traces {file}`",
            file = file.display()
        );
    }
    Ok(())
}
