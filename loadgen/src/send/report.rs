//! The printed result of a burst.

use planner::LatencySummary;
use serde::Serialize;

use super::rate::RateReport;

/// What was sent. A burst that was continued counts what all its runs sent, and times this run alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SendReport {
    /// Whether the queue acknowledged every message of the burst.
    pub complete: bool,
    /// The number of messages of the burst.
    pub messages: u64,
    /// The number of messages that the queue acknowledged.
    pub sent: u64,
    /// How many of those an earlier run sent.
    pub sent_earlier: u64,
    /// The number of messages whose last reply was lost and that were not sent again: they may be in the queue.
    pub unsure: u64,
    /// The number of distinct events in the burst.
    pub unique: u64,
    /// The number of messages of the burst that repeat an earlier one.
    pub duplicates: u64,
    /// The time from the first request to the last reply, in seconds.
    pub seconds: f64,
    /// The average number of acknowledged messages per second.
    pub per_second: f64,
    /// The total length of the acknowledged bodies.
    pub bytes: u64,
    /// The number of requests of this run.
    pub requests: u64,
    /// The number of requests that were retries.
    pub retries: u64,
    /// The number of messages that were sent again after a lost reply and may be in the queue twice.
    pub resent_unsure: u64,
    /// How well the rate was held; absent if the burst has no rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateReport>,
    /// Latencies of acknowledged messages: from when a message was due, unless the burst has no rate, and from when its
    /// first request began.
    pub latencies: Vec<LatencySummary>,
}

/// How far a burst is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendProgress {
    /// The number of acknowledged messages, those of earlier runs included.
    pub acknowledged: u64,
    /// The number of requests that were retries.
    pub retries: u64,
    /// The number of messages that were sent again after a lost reply.
    pub resent_unsure: u64,
}
