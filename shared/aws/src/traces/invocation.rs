//! The facts about an invocation that its span has.

use shared::traces::Links;

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
