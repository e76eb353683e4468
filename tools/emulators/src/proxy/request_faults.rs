//! Faults of any request, whatever it asks for: its reply is lost, or it fails with an error.

use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;

use super::request::{Reply, Service};
use crate::locked::locked;
use crate::random::{Percent, RandomStream};

/// How long a stalled request or reply is held back: 2 s. A client that waits longer sees its connection closed.
pub const STALL: Duration = Duration::from_millis(2_000);

/// Number of lost replies, by how they were lost. Each request was forwarded to the service.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LostRepliesReport {
    /// Forwarded, then the connection was closed at once.
    pub cut: u64,
    /// Forwarded at once, then the connection was closed after [`STALL`].
    pub stalled: u64,
    /// Forwarded only after [`STALL`].
    pub applied_late: u64,
}

/// Number of requests that the proxy failed with an error. The service never saw them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RequestErrorsReport {
    /// Failed with status 500.
    pub server_errors: u64,
    /// Failed with a throttling error of the service.
    pub throttled: u64,
}

/// Loses replies and fails requests at random. The default does neither.
#[derive(Debug)]
pub struct RequestFaults {
    lost_replies: Percent,
    lost_draws: RandomStream,
    error_rate: Percent,
    error_draws: RandomStream,
    lost: Mutex<LostRepliesReport>,
    errors: Mutex<RequestErrorsReport>,
}

/// What the proxy does with the reply to a request.
#[derive(Clone, Copy, Debug)]
pub enum ReplyOutcome {
    /// Returns it to the client.
    Returned,
    /// Forwards the request, and closes the connection in place of the reply. 8 of 10 lost replies are cut: the client
    /// notices at once, so that a test run has room for many of them.
    Cut,
    /// Forwards the request, and closes the connection after [`STALL`], when the client has given up.
    Stalled,
    /// Forwards the request only after [`STALL`], when the client has given up, and closes the connection.
    AppliedLate,
}

impl RequestFaults {
    /// Makes faults that lose the replies of `lost_replies` of the requests and fail `error_rate` of them. Equal seeds draw
    /// the same faults in the same order.
    pub fn new(seed: u64, lost_replies: Percent, error_rate: Percent) -> RequestFaults {
        RequestFaults {
            lost_replies,
            lost_draws: RandomStream::new(seed, "lost replies"),
            error_rate,
            error_draws: RandomStream::new(seed, "errors"),
            lost: Mutex::default(),
            errors: Mutex::default(),
        }
    }

    /// Returns the number of replies lost so far.
    pub fn lost_report(&self) -> LostRepliesReport {
        *locked(&self.lost)
    }

    /// Returns the number of requests failed so far.
    pub fn error_report(&self) -> RequestErrorsReport {
        *locked(&self.errors)
    }

    /// Draws what happens to the next reply, and counts it if it is lost.
    pub(super) fn draw_reply(&self) -> ReplyOutcome {
        if !self.lost_draws.happens(self.lost_replies) {
            return ReplyOutcome::Returned;
        }
        let mut lost = locked(&self.lost);
        let (outcome, count) = match self.lost_draws.below(10) {
            0 => (ReplyOutcome::Stalled, &mut lost.stalled),
            1 => (ReplyOutcome::AppliedLate, &mut lost.applied_late),
            _ => (ReplyOutcome::Cut, &mut lost.cut),
        };
        *count += 1;
        outcome
    }

    /// Draws whether the next request fails; returns the error to return to the client if it does. One error in three is a
    /// throttling error, the others have status 500.
    pub(super) fn draw_error(&self, service: Service) -> Option<Reply> {
        if !self.error_draws.happens(self.error_rate) {
            return None;
        }
        let throttled = self.error_draws.below(3) == 0;
        match throttled {
            true => locked(&self.errors).throttled += 1,
            false => locked(&self.errors).server_errors += 1,
        }
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

impl Default for RequestFaults {
    fn default() -> RequestFaults {
        RequestFaults::new(0, Percent::default(), Percent::default())
    }
}
