//! Limits of AWS that decide how fast a burst is taken off a queue. The functions do not need them, but code that computes
//! how long a burst takes does: `loadgen plan`.
//!
//! Each limit is quoted from AWS's documentation unless its comment says that somebody measured it.

/// Messages of a standard queue that consumers may have received and not deleted yet.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html> (2026-08).
pub const SQS_IN_FLIGHT_MAX: u64 = 120_000;
/// Messages of one receive request.
/// Source: botocore `sqs` service model, ReceiveMessage (2026-08).
pub const SQS_RECEIVE_MESSAGES_MAX: u64 = 10;

/// Bytes of the payload of a synchronous invocation.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html> (2026-10).
pub const LAMBDA_PAYLOAD_BYTES_MAX: u64 = 6 << 20;
/// Memory, in MB, with which a function has one whole processor.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html> (2026-08).
pub const LAMBDA_PROCESSOR_MB: f64 = 1_769.0;
/// Environments that one function may start within [`LAMBDA_START_SECONDS`].
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html> (2026-10).
pub const LAMBDA_STARTS_MAX: u64 = 1_000;
/// The time, in seconds, within which a function may start [`LAMBDA_STARTS_MAX`] environments. Source: same page.
pub const LAMBDA_START_SECONDS: f64 = 10.0;
/// Invocations a second of one environment; so a function has at most ten times its concurrency. Source: same page.
pub const LAMBDA_INVOCATIONS_PER_SECOND: f64 = 10.0;
/// Concurrent invocations of all functions of an account in a region, unless AWS raised it. Source: same page.
pub const LAMBDA_CONCURRENCY_DEFAULT: u64 = 1_000;

/// Batches that a mapping of a standard queue invokes at once when messages arrive.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html> (2026-08).
pub const MAPPING_CONCURRENCY_AT_FIRST: f64 = 5.0;
/// By how many concurrent invocations such a mapping grows in a minute. Source: same page.
pub const MAPPING_RISE_PER_MINUTE: f64 = 300.0;
/// Concurrent invocations of such a mapping. Source: same page.
pub const MAPPING_CONCURRENCY_MAX: f64 = 1_250.0;
/// By which share a mapping exceeds its MaximumConcurrency: somebody measured 128 with a maximum of 120.
/// Source: rehanvdm.com, quoted in 2026; not from AWS.
pub const MAPPING_OVERSHOOT: f64 = 8.0 / 120.0;
/// Receive requests a second of one provisioned poller.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html> (2026-08).
pub const POLLER_RECEIVES_PER_SECOND: f64 = 10.0;
/// Concurrent invocations of one provisioned poller. Source: same page.
pub const POLLER_CONCURRENCY_MAX: u64 = 10;
/// Bytes a second of one provisioned poller. Source: same page.
pub const POLLER_BYTES_PER_SECOND: f64 = 1_000_000.0;
/// By how many concurrent invocations provisioned pollers grow in a minute. Source: same page.
pub const POLLERS_RISE_PER_MINUTE: f64 = 1_000.0;

/// Write units a second that a new on-demand table takes, and as many each of its indexes.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput.html> (2026-08).
pub const TABLE_UNITS_PER_SECOND_AT_FIRST: f64 = 4_000.0;
/// Write units a second of a table, and of each index, unless AWS raised it.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html> (2026-08).
pub const TABLE_UNITS_PER_SECOND_QUOTA: f64 = 40_000.0;
/// An on-demand table takes this many times its previous peak.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html> (2026-08).
pub const TABLE_GROWTH: f64 = 2.0;
/// How long ago a peak must be to count as the previous one, in seconds. Source: same page.
pub const TABLE_GROWTH_SECONDS: f64 = 1_800.0;

const _: () = assert!(MAPPING_CONCURRENCY_AT_FIRST < MAPPING_CONCURRENCY_MAX);
const _: () = assert!(TABLE_UNITS_PER_SECOND_AT_FIRST < TABLE_UNITS_PER_SECOND_QUOTA);
