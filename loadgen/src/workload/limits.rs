//! The limits of a workload.

// A plan depends on these two.
pub use planner::{MESSAGES_MAX, NEAR_MESSAGES};

/// The largest body, in bytes. The SQS limit includes attributes, but the messages have none.
pub const BODY_BYTES_MAX: usize = protocol::limits::SQS_MESSAGE_BYTES_MAX;

/// An immediate repeat comes at most this many messages after its original, if there is an original that near. As many
/// messages fit one request.
pub const NEXT_MESSAGES: u64 = 10;

/// The largest skew of sources. With it, the first of 100 sources has 60 % of the events.
pub const SKEW_MAX: u32 = 8;
