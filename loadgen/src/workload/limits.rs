//! The limits of a workload.

/// The longest burst, in messages. Products of two such numbers still fit 64 bits.
pub const MESSAGES_MAX: u64 = 1_000_000_000;

/// The largest body, in bytes. The SQS limit includes attributes, but the messages have none.
///
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const BODY_BYTES_MAX: usize = 1_048_576;

/// About half of the repeats come at most this many messages after their original.
pub const NEAR_MESSAGES: u64 = 1_000;

/// An immediate repeat comes at most this many messages after its original, if there is an original that near. As many
/// messages fit one request.
pub const NEXT_MESSAGES: u64 = 10;

/// The largest skew of sources. With it, the first of 100 sources has 60 % of the events.
pub const SKEW_MAX: u32 = 8;
