//! Requests, and for how many they are billed.

use serde::Serialize;

/// So much of a payload is one request to a queue (June 2026).
/// Source: <https://aws.amazon.com/sqs/pricing/>
pub const SQS_CHUNK_BYTES: usize = 64 << 10;

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// How many.
    pub count: u64,
    /// For how many they are billed: SQS bills by chunks of 64 KB.
    pub billed: u64,
}

impl Requests {
    /// Adds a request that carries so much.
    pub fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.billed += bytes.div_ceil(SQS_CHUNK_BYTES).max(1) as u64;
    }

    /// Both together.
    pub fn and(self, other: Requests) -> Requests {
        Requests {
            count: self.count + other.count,
            billed: self.billed + other.billed,
        }
    }
}
