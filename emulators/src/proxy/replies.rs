//! What may strike any request, whatever it asks: its reply is lost, or it fails.

use std::time::Duration;

use serde::Serialize;

use super::call::{Reply, Service};
use crate::counter::Counter;
use crate::draws::{Draws, Percent};

/// How long a stalled request or reply is held back. A caller that waits longer sees its connection closed.
pub const STALL: Duration = Duration::from_millis(2_000);

/// How many replies were lost, and how.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LostRepliesReport {
    /// Applied, and the connection closed.
    pub cut: u64,
    /// Applied, and nothing said for [`STALL`].
    pub stalled: u64,
    /// Applied only after [`STALL`].
    pub applied_late: u64,
}

/// How many requests were answered with an error and not applied.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RequestErrorsReport {
    /// With status 500.
    pub server_errors: u64,
    /// With a throttling error.
    pub throttled: u64,
}

/// What may strike any request, whatever it asks.
#[derive(Debug)]
pub struct RequestFaults {
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
pub enum Fate {
    /// It reaches the caller.
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
    /// Loses replies of this share of the requests, and fails this share of them; the draws come from the seed.
    pub fn new(seed: u64, lost_replies: Percent, error_rate: Percent) -> RequestFaults {
        RequestFaults {
            lost_replies,
            lost_draws: Draws::new(seed, "lost replies"),
            error_rate,
            error_draws: Draws::new(seed, "errors"),
            cut: Counter::default(),
            stalled: Counter::default(),
            applied_late: Counter::default(),
            server_errors: Counter::default(),
            throttled: Counter::default(),
        }
    }

    /// Returns how many replies were lost so far.
    pub fn lost_report(&self) -> LostRepliesReport {
        LostRepliesReport {
            cut: self.cut.get(),
            stalled: self.stalled.get(),
            applied_late: self.applied_late.get(),
        }
    }

    /// Returns how many requests have failed so far.
    pub fn error_report(&self) -> RequestErrorsReport {
        RequestErrorsReport {
            server_errors: self.server_errors.get(),
            throttled: self.throttled.get(),
        }
    }

    /// Draws what becomes of the next reply, and counts it.
    pub(super) fn fate(&self) -> Fate {
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

    /// Draws whether the next request fails; returns the error in place of the service's reply if it does.
    pub(super) fn error(&self, service: Service) -> Option<Reply> {
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

/// Strikes nothing.
impl Default for RequestFaults {
    fn default() -> RequestFaults {
        RequestFaults::new(0, Percent::default(), Percent::default())
    }
}
