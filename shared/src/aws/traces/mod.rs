//! The traces of a process: the span of each invocation, and the export of spans (feature `otel`).
//!
//! The SDK's own processors export from a thread or a task of their own, at times of their own. Lambda may freeze the process
//! once a response is returned, so spans are exported before that; and the processors' way to wait for an export blocks the
//! only thread, which the export needs. So [`Traces`] keeps the spans and exports them itself.

use crate::traces::Links;

#[cfg(feature = "otel")]
mod http_client;
#[cfg(not(feature = "otel"))]
mod off;
#[cfg(feature = "otel")]
mod process;
#[cfg(feature = "otel")]
mod resource;

#[cfg(not(feature = "otel"))]
pub use off::Traces;
#[cfg(feature = "otel")]
pub use process::Traces;

/// An invocation, as its span describes it.
pub struct TracedInvocation<'a> {
    pub request_id: &'a str,
    /// The ARN that was invoked.
    pub function_arn: &'a str,
    /// Lambda's trace header of the invocation.
    pub trace_header: Option<&'a str>,
    /// The messages; `None` for an invocation by a schedule.
    pub messages: Option<TracedMessages<'a>>,
}

/// The messages of an invocation.
pub struct TracedMessages<'a> {
    /// The ARN of the queue.
    pub queue_arn: Option<&'a str>,
    pub count: usize,
    /// The system attribute `AWSTraceHeader` of each message that has one.
    pub trace_headers: Vec<&'a str>,
    /// The spans that tickets name.
    pub links: Vec<Links>,
}
