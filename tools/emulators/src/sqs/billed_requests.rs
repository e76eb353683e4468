//! Counts requests, and how many requests SQS bills them as.

use serde::Serialize;

/// SQS bills one request for each 64 KiB of a payload (June 2026).
/// Source: <https://aws.amazon.com/sqs/pricing/>
pub const SQS_CHUNK_BYTES: usize = 64 << 10;

/// Number of requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCount {
    /// Requests sent.
    pub count: u64,
    /// Requests billed: one per [`SQS_CHUNK_BYTES`] begun, and at least one per request sent.
    pub billed: u64,
}

impl RequestCount {
    /// Adds one request with a payload of `bytes`.
    pub fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.billed += bytes.div_ceil(SQS_CHUNK_BYTES).max(1) as u64;
    }

    /// Returns the sum of both.
    pub fn plus(self, other: RequestCount) -> RequestCount {
        RequestCount {
            count: self.count + other.count,
            billed: self.billed + other.billed,
        }
    }
}
