//! Defaults of `batch-local burst`, in which it differs from a deployment. A plan for it, and `local` itself, take them from here.

/// Records of one event of the aggregator, at most.
pub const BATCH_SIZE: usize = 5_000;
/// Environments of the aggregator, and of the batch-processor, at most.
pub const ENVIRONMENTS: u32 = 2;
pub const AGGREGATOR_TIMEOUT_SECS: u64 = 10;
pub const BATCH_PROCESSOR_TIMEOUT_SECS: u64 = 30;
/// `VERIFY_DELAY`: short, so that a burst ends while you watch.
pub const VERIFY_DELAY_SECS: u32 = 2;
/// `WRITE_CONCURRENCY`: low because the DynamoDB stand-in handles one request at a time. More requests in flight would wait
/// longer, and time out.
pub const WRITE_CONCURRENCY: u32 = 8;
/// Receives before a message becomes a dead letter, if any fault is on. Every killed aggregator counts as a receive of all
/// messages of its event, and the audit would report dead letters as lost although the service lost nothing.
pub const RECEIVES_MAX_FAULTS: u32 = 100;

/// Bursts of more messages get a window in which batches of the default size can fill. The others get a short one.
const LONG_BURST_MESSAGES: u64 = 200_000;
/// Bursts of at most so many messages do not wait for their windows.
const SMALL_BURST_MESSAGES: u64 = 1_000;

/// Returns `MAX_SECONDARY_BATCHING_WINDOW` of a burst of so many messages, in seconds.
pub const fn window_secs(messages: u64) -> u64 {
    if messages > LONG_BURST_MESSAGES {
        60
    } else {
        5
    }
}

/// Returns whether a burst of so many messages, sent as fast as possible, seals its batches when the input queue is empty.
pub const fn is_small(messages: u64) -> bool {
    messages <= SMALL_BURST_MESSAGES
}
