//! The service's limits for standard queues.
//!
//! Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-quotas.html>, read in
//! stored copies of November 2026.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Account that owns every queue.
pub(super) const ACCOUNT: &str = "000000000000";
/// Region of every queue.
pub(super) const REGION: &str = "us-east-1";

/// Longest name of a queue, in characters.
pub(super) const QUEUE_NAME_CHARS_MAX: usize = 80;
/// Messages received and not yet deleted or visible again, per standard queue.
pub(super) const IN_FLIGHT_MAX: usize = 120_000;
/// Messages of one receive.
pub(super) const RECEIVE_MESSAGES: RangeInclusive<usize> = 1..=10;
/// Long poll, in seconds.
pub(super) const WAIT_SECS: RangeInclusive<u64> = 0..=20;
/// Delay of a message, in seconds.
pub(super) const DELAY_SECS: RangeInclusive<u64> = 0..=900;
/// Visibility timeout, in seconds.
pub(super) const VISIBILITY_SECS: RangeInclusive<u64> = 0..=43_200;
/// Time from a receive until the message becomes visible again, however often it is extended.
pub(super) const VISIBILITY_TOTAL_MAX: Duration = Duration::from_secs(43_200);
/// Retention of a message, in seconds.
pub(super) const RETENTION_SECS: RangeInclusive<u64> = 60..=1_209_600;
/// Size of a message with its attributes, as a queue may set it.
pub(super) const MESSAGE_SIZE_BYTES: RangeInclusive<u64> = 1_024..=1_048_576;
/// Receives before a message goes to the dead-letter queue.
pub(super) const RECEIVES_MAX: RangeInclusive<u32> = 1..=1_000;

/// Entries of one batch.
pub(super) const BATCH_ENTRIES_MAX: usize = 10;
/// Sum of a batch's messages with their attributes.
pub(super) const BATCH_BYTES_MAX: usize = 1_048_576;
/// Longest id of a batch's entry, in characters.
pub(super) const BATCH_ENTRY_ID_CHARS_MAX: usize = 80;

/// Attributes of one message.
pub(super) const ATTRIBUTES_MAX: usize = 10;
/// Longest name or data type of a message's attribute, in characters.
pub(super) const ATTRIBUTE_NAME_CHARS_MAX: usize = 256;
/// Longest message group id, in characters.
pub(super) const GROUP_ID_CHARS_MAX: usize = 128;

/// Queues of one page of a listing.
pub(super) const LIST_QUEUES_MAX: usize = 1_000;
/// Largest request: a full batch whose every byte is escaped as `\u00xx`, and room for the rest.
pub(super) const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;

const _: () = assert!(REQUEST_BYTES_MAX > 6 * BATCH_BYTES_MAX);
