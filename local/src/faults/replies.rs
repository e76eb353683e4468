//! What may strike any request, whatever it asks: its reply is lost, or it fails.

use std::time::Duration;

use emulators::{Counter, Draws, Percent};

use super::options::FaultOptions;
use super::report::{LostRepliesReport, RequestErrorsReport};
use crate::call::{Reply, Service};

/// Longer than any caller of tables and queues waits for one attempt (`ATTEMPT_TIMEOUT_MAX`). One of a sink that waits
/// longer sees its connection closed.
pub(crate) const STALL: Duration = Duration::from_millis(2_000);
const _: () = assert!(STALL.as_millis() > protocol::limits::ATTEMPT_TIMEOUT_MAX.as_millis());

/// What may strike any request, whatever it asks.
#[derive(Debug)]
pub(crate) struct RequestFaults {
    lost_replies: Percent,
    lost_draws: Draws,
    error_rate: Percent,
    error_draws: Draws,
    cut: Counter,
    stalled: Counter,
    applied_late: Counter,
    server_errors: Counter,
    throttled: Counter,
}

/// What becomes of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    Arrives,
    /// The request is applied, and the connection closed in place of the reply. The most frequent: the caller knows
    /// at once and goes on, so that much of it fits a run.
    Cut,
    /// The request is applied, and nothing is said until the caller has given up.
    Stalled,
    /// The request is applied only after the caller has given up.
    AppliedLate,
}

impl RequestFaults {
    pub(super) fn new(options: &FaultOptions) -> RequestFaults {
        RequestFaults {
            lost_replies: options.lost_replies,
            lost_draws: Draws::new(options.seed, "lost replies"),
            error_rate: options.error_rate,
            error_draws: Draws::new(options.seed, "errors"),
            cut: Counter::default(),
            stalled: Counter::default(),
            applied_late: Counter::default(),
            server_errors: Counter::default(),
            throttled: Counter::default(),
        }
    }

    pub(super) fn lost_report(&self) -> LostRepliesReport {
        LostRepliesReport {
            cut: self.cut.get(),
            stalled: self.stalled.get(),
            applied_late: self.applied_late.get(),
        }
    }

    pub(super) fn error_report(&self) -> RequestErrorsReport {
        RequestErrorsReport {
            server_errors: self.server_errors.get(),
            throttled: self.throttled.get(),
        }
    }

    /// What becomes of the next reply.
    pub(crate) fn fate(&self) -> Fate {
        if !self.lost_draws.strikes(self.lost_replies) {
            return Fate::Arrives;
        }
        let (fate, counter) = match self.lost_draws.below(10) {
            0 => (Fate::Stalled, &self.stalled),
            1 => (Fate::AppliedLate, &self.applied_late),
            _ => (Fate::Cut, &self.cut),
        };
        counter.add(1);
        fate
    }

    /// An answer in place of the service's, if this request is to fail.
    pub(crate) fn error(&self, service: Service) -> Option<Reply> {
        if !self.error_draws.strikes(self.error_rate) {
            return None;
        }
        let throttled = self.error_draws.below(3) == 0;
        let counter = if throttled {
            &self.throttled
        } else {
            &self.server_errors
        };
        counter.add(1);
        Some(match (service, throttled) {
            (Service::DynamoDb, false) => Reply::error(
                500,
                "com.amazonaws.dynamodb.v20120810#InternalServerError",
                "Internal server error",
            ),
            (Service::DynamoDb, true) => Reply::error(
                400,
                "com.amazonaws.dynamodb.v20120810#RequestLimitExceeded",
                "Throughput exceeds the current throughput limit for your account.",
            ),
            (Service::Sqs, false) => {
                Reply::error(500, "com.amazonaws.sqs#InternalError", "Internal error")
            }
            (Service::Sqs, true) => Reply::error(
                400,
                "com.amazonaws.sqs#RequestThrottled",
                "The request was denied due to request throttling.",
            ),
            (Service::S3, false) => {
                Reply::s3_error(500, "InternalError", "We encountered an internal error.")
            }
            (Service::S3, true) => {
                Reply::s3_error(503, "SlowDown", "Please reduce your request rate.")
            }
            (Service::Http, false) => Reply::bare(500),
            (Service::Http, true) => Reply::bare(429),
        })
    }
}
