//! Limits of SQS for standard queues.
//!
//! Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-quotas.html>, read in
//! stored copies of November 2026.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Account that owns every queue.
pub(super) const ACCOUNT: &str = "000000000000";
/// Region of every queue.
pub(super) const REGION: &str = "us-east-1";

pub(super) const QUEUE_NAME_CHARS_MAX: usize = 80;
/// Maximum number of messages in flight per queue: received, and neither deleted nor visible again.
pub(super) const IN_FLIGHT_MAX: usize = 120_000;
pub(super) const RECEIVE_MESSAGES: RangeInclusive<u64> = 1..=10;
pub(super) const WAIT_SECS: RangeInclusive<u64> = 0..=20;
pub(super) const DELAY_SECS: RangeInclusive<u64> = 0..=900;
pub(super) const VISIBILITY_SECS: RangeInclusive<u64> = 0..=43_200;
/// Longest time from a receive until the message becomes visible again, extensions included.
pub(super) const VISIBILITY_TOTAL_MAX: Duration = Duration::from_secs(43_200);
pub(super) const RETENTION_SECS: RangeInclusive<u64> = 60..=1_209_600;
/// Allowed values of `MaximumMessageSize`, which limits a body with its attributes.
pub(super) const MESSAGE_SIZE_BYTES: RangeInclusive<u64> = 1_024..=1_048_576;
pub(super) const RECEIVES_MAX: RangeInclusive<u32> = 1..=1_000;

pub(super) const BATCH_ENTRIES_MAX: usize = 10;
/// Maximum number of bytes of all messages of a batch request, attributes included.
pub(super) const BATCH_BYTES_MAX: usize = 1_048_576;
pub(super) const BATCH_ENTRY_ID_CHARS_MAX: usize = 80;

pub(super) const ATTRIBUTES_MAX: usize = 10;
/// Longest name, and longest data type, of a message attribute, in characters.
pub(super) const ATTRIBUTE_NAME_CHARS_MAX: usize = 256;
pub(super) const GROUP_ID_CHARS_MAX: usize = 128;

/// Allowed rates of a task that moves messages, in messages per second.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html>
pub(super) const MOVES_PER_SECOND: RangeInclusive<u64> = 1..=500;
/// Maximum number of such tasks in a listing.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ListMessageMoveTasks.html>
pub(super) const LIST_MOVE_TASKS_MAX: usize = 10;

/// Maximum number of queues of one page of a listing.
pub(super) const LIST_QUEUES_MAX: usize = 1_000;
/// Maximum number of bytes of a request: a full batch in which each byte is escaped as `\u00xx`, plus the other fields.
pub(super) const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;

const _: () = assert!(REQUEST_BYTES_MAX > 6 * BATCH_BYTES_MAX);
