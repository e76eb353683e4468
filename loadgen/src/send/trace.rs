//! The trace of a request: the header that its messages carry, as those of an instrumented producer do.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_sdk_sqs::types::{MessageSystemAttributeNameForSends, MessageSystemAttributeValue};

/// A request with a trace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    pub trace_id: u128,
    pub span_id: u64,
    pub began: SystemTime,
    pub ended: SystemTime,
    pub messages_count: usize,
    /// Whether every message was acknowledged.
    pub succeeded: bool,
}

/// Gets every request of a burst.
#[derive(Clone)]
pub struct TraceLog(pub Arc<dyn Fn(TracedRequest) + Send + Sync>);

impl fmt::Debug for TraceLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceLog")
    }
}

impl TracedRequest {
    /// Returns a request that begins now. X-Ray wants the seconds of the time at the beginning of a trace id.
    /// Source: <https://docs.aws.amazon.com/xray/latest/devguide/xray-api-sendingdata.html#xray-api-traceids> (2026-11).
    pub(super) fn begin(messages_count: usize) -> TracedRequest {
        let began = SystemTime::now();
        let since_epoch = began.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since_epoch.as_ref().map_or(0, Duration::as_secs) as u32;
        TracedRequest {
            trace_id: u128::from(seconds) << 96 | fastrand::u128(..) >> 32,
            // Zero is no id.
            span_id: fastrand::u64(1..),
            began,
            ended: began,
            messages_count,
            succeeded: false,
        }
    }

    /// Returns the system attribute of the messages.
    pub(super) fn header(
        &self,
    ) -> (
        MessageSystemAttributeNameForSends,
        MessageSystemAttributeValue,
    ) {
        let (time, random) = (self.trace_id >> 96, self.trace_id & (u128::MAX >> 32));
        let parent = self.span_id;
        let header = format!("Root=1-{time:08x}-{random:024x};Parent={parent:016x};Sampled=1");
        let value = MessageSystemAttributeValue::builder()
            .data_type("String")
            .string_value(header)
            .build();
        let value = value.expect("the value has its type");
        (MessageSystemAttributeNameForSends::AwsTraceHeader, value)
    }
}

impl TraceLog {
    pub(super) fn end(&self, request: TracedRequest, succeeded: bool) {
        (self.0)(TracedRequest {
            ended: SystemTime::now(),
            succeeded,
            ..request
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_ids_of_the_request() {
        let request = TracedRequest {
            trace_id: 0x5759_e988_bd86_2e3f_e1be_46a9_9427_2793,
            span_id: 0x0399_5c3f_42cd_8ad8,
            ..TracedRequest::begin(1)
        };
        let (_, value) = request.header();
        assert_eq!(
            value.string_value(),
            Some("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=03995c3f42cd8ad8;Sampled=1")
        );
    }
}
