//! Spans of traces in the form of OpenTelemetry, and the links between them (feature `full`).
//!
//! Without the feature, everything here but [`TraceId`] does nothing and compiles to nothing, so callers need no conditions. With
//! it, there are spans only if a variable names an endpoint. Nothing that a function does depends on a span.
//!
//! `aws::Traces` starts the span of an invocation. [`span()`] starts one below the present span, which is the one whose
//! [`run`](Span::run) is being polled.
//!
//! `tracing-opentelemetry` is not used: its spans are those of the log, so `LOG_LEVEL` would decide which spans there are, and
//! functions without this feature would carry them too.
//!
//! No attribute has an event id, a batch key, a body or the text of an error, because an error may quote any of them.

pub mod names;

#[cfg(feature = "full")]
mod links;
#[cfg(not(feature = "full"))]
mod off;
#[cfg(feature = "full")]
mod spans;
mod xray;

#[cfg(not(feature = "full"))]
pub use off::{BatchLinks, Links, Span, count, failed, span, text, traceparent};
pub use xray::TraceId;
#[cfg(feature = "full")]
pub use {
    links::{BatchLinks, Links, of_xray_header},
    spans::{Span, count, failed, span, text, traceparent},
};
