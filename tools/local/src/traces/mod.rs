//! `--traces`: the spans of the functions and of the burst in one file, and a picture of them.
//!
//! The file has the form of OpenTelemetry's file exporter: one `ExportTraceServiceRequest` as JSON in each line.
//! Source: <https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/> (2026-11).

#[cfg_attr(not(feature = "full"), path = "no_collector.rs")]
mod collector;
mod picture;
#[cfg(feature = "full")]
mod producer;
mod spans;

pub use collector::Collector;
pub use picture::picture;
