//! Every service limit this program relies on and every cap of its own, with unit, source and date.

use std::time::Duration;

/// Clocks of two machines differ by less than this: an assumption (docs/protocol.md, "Assumptions"), not a measurement.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(2);

/// Largest delay of an SQS message.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-timers.html> (2026-08).
pub const SQS_DELAY_MAX: Duration = Duration::from_secs(900);
/// Entries of one SQS batch request.
/// Source: botocore `sqs` service model, SendMessageBatch (2026-08).
pub const SQS_BATCH_ENTRIES_MAX: usize = 10;
/// Bytes of one SQS message, and of one batch request, attributes included.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html> (2026-08).
pub const SQS_MESSAGE_BYTES_MAX: usize = 1_048_576;

/// Bytes of one DynamoDB item, attribute names included.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html> (2026-08).
pub const DYNAMODB_ITEM_BYTES_MAX: usize = 409_600;
/// Bytes of a DynamoDB partition key value.
/// Source: same page.
pub const DYNAMODB_KEY_BYTES_MAX: usize = 2_048;
/// Statements of one BatchExecuteStatement.
/// Source: botocore `dynamodb` service model (2026-08).
pub const PARTIQL_STATEMENTS_MAX: usize = 25;
/// Keys of one BatchGetItem.
/// Source: botocore `dynamodb` service model (2026-08).
pub const BATCH_GET_KEYS_MAX: usize = 100;

/// Write units a second that one key of an index takes.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput-scenarios.html> (2026-08).
pub const INDEX_KEY_UNITS_PER_SECOND: f64 = 1_000.0;
/// An index key that throttles is written this slowly at worst: two requests a second.
pub const PACE_UNITS_PER_SECOND_MIN: f64 = 50.0;
/// Keys that throttle within [`PACE_CUT_EVERY`] before it is taken for the table that does.
pub const TABLE_KEYS_MIN: usize = 3;
/// A table that throttles is written this slowly at worst by one environment: a thousand of them still fit a new table.
pub const TABLE_PACE_UNITS_PER_SECOND_MIN: f64 = 4.0;
/// A rate of the table above this is none: half of what a table takes unless its quota was raised.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html> (2026-08).
pub const TABLE_PACE_UNITS_PER_SECOND_MAX: f64 = 20_000.0;
/// Throttles within this time are one reason to write a key more slowly: their requests were under way together.
pub const PACE_CUT_EVERY: Duration = Duration::from_millis(250);
/// A worker that would wait longer than this for a key's turn leaves it to the others.
pub const PACE_WAIT_MAX: Duration = Duration::from_millis(100);
/// How long a key's pace is remembered after its last write.
pub const PACE_FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// What a write unit carries.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html> (2026-08).
pub const WRITE_UNIT_BYTES: usize = 1_024;

/// What a claim takes besides its texts: attribute names, numbers, the hash, and the batch shard.
pub const CLAIM_OVERHEAD_BYTES: usize = 256;
/// Bodies on their way to or from S3 at once, of up to 1 MiB each.
pub const OVERFLOW_CALLS_MAX: usize = 8;
/// Days for which a bucket must keep bodies: longer than an operator may take to notice a batch in error and to mend it.
pub const OVERFLOW_DAYS_MIN: u32 = 30;
/// What an item says besides names about a body that is elsewhere.
pub const OVERFLOW_BYTES: usize = 64;
/// Past deliveries one lock item remembers under `ON_DUPLICATE=requeue`; the next duplicate waits until one expires.
pub const PAST_DELIVERIES_MAX: usize = 32;
/// Parts of one batch. What is left is spread over those that are left, so that a batch never needs more for its size.
pub const PARTS_MAX: usize = 100;
/// Parts of these that are kept for claims which only show after all others: each look that finds some makes one.
pub const PARTS_FOR_STRAGGLERS: usize = 10;
/// The largest set of seqs that a part keeps for itself once it has ended; a larger one joins those that parts share.
pub const PART_MEMBERS_BYTES_MAX: usize = 256;
/// What a part takes in its record besides its set and texts: attribute names, count, hash.
pub const PART_OVERHEAD_BYTES: usize = 128;
/// What a record takes besides sets, texts and parts: attribute names, numbers, times, ids.
pub const RECORD_OVERHEAD_BYTES: usize = 1_024;
/// Seats one batch hands out at most: the bitmaps of its record (8 KB for every 65,536 seqs, five of them) must fit an item.
pub const SEATS_MAX: u32 = 524_288;
/// Items of the largest batch that can be configured.
pub const BATCH_ITEMS_MAX: u64 = 500_000;
/// Claims of open batches that an environment remembers, some 80 bytes each; duplicates of others are for the table to
/// tell.
pub const KNOWN_CLAIMS_MAX: usize = 200_000;
/// An error that a batch record keeps.
pub const RECORD_TEXT_BYTES_MAX: usize = 1_024;
/// A receipt that a batch record keeps, one for each part.
pub const RECEIPT_BYTES_MAX: usize = 256;
/// What a part says of the sink it was frozen for.
pub const FINGERPRINT_BYTES_MAX: usize = 256;
/// Rounds of an invocation that fill a batch only a little, before the batch is taken for full.
pub const SHORT_ROUNDS_MAX: u32 = 16;
/// Longest an invocation waits for the last places of a batch, which depend on attempts of other invocations.
pub const SEAT_WAIT_MAX: Duration = Duration::from_secs(1);
/// Longest an invocation seals what earlier ones left behind, before it claims anything itself.
pub const OLD_SEALS_TIME_MAX: Duration = Duration::from_secs(1);
/// How often a claim may find the item changed between reading and replacing it before it is given up as failed.
pub const REPLACE_ROUNDS_MAX: usize = 4;
/// Between two looks at a queue that is empty while others hold messages of it: whoever polls a queue that still gets
/// messages receives some within this time.
pub const DRAINED_LOOKS_APART: Duration = Duration::from_secs(1);

/// How long a batch record is kept after its end, for audit and for claims that surface late.
pub const BATCH_RECORD_RETENTION: Duration = Duration::from_secs(14 * 24 * 3_600);
/// Longest dedup window: a late claim is judged by its batch's record, which must outlive the window.
pub const DEDUP_WINDOW_MAX: Duration = Duration::from_secs(13 * 24 * 3_600);
/// How long past its due time a batch is left alone before the sweep sends another ticket.
pub const DUE_GRACE: Duration = Duration::from_secs(60);
/// Longest a ticket that is given back stays away by our own schedule.
pub const TICKET_BACKOFF_MAX: Duration = Duration::from_secs(300);
/// Longest it stays away because somebody said so: a sink, or the end of a window.
pub const TICKET_AWAY_MAX: Duration = Duration::from_secs(3_600);
/// How long a batch is left alone after the sweep has sent it a ticket, which may wait behind others.
pub const REMINDED_FOR: Duration = Duration::from_secs(600);
/// Keys of `status-index` that the batches of one status are spread over: one takes 1,000 write units a second.
pub const STATUS_SHARDS: u8 = 4;
/// Batches of one status that one sweep looks at, oldest first; the next one goes on where their records have moved.
pub const SWEEP_BATCHES_MAX: usize = 500;

/// Longest one call to DynamoDB or SQS may take before its reply counts as lost.
pub const ATTEMPT_TIMEOUT_MAX: Duration = Duration::from_millis(1_500);

const _: () = assert!(BATCH_RECORD_RETENTION.as_secs() > DEDUP_WINDOW_MAX.as_secs());
/// A set of any seqs below [`SEATS_MAX`]: a container of 8 KB for every 65,536 of them, and what describes it.
/// Source: <https://github.com/RoaringBitmap/RoaringFormatSpec> (2026-08).
pub const SEATS_BYTES_MAX: usize = (SEATS_MAX as usize).div_ceil(65_536) * (8_192 + 8) + 64;
/// The largest batch record: settled, witnessed, delivered, set aside and the members of a frozen part, each any seqs at
/// all; every part with a set of its own, a fingerprint and a receipt; errors, a key, a source and an owner.
pub const RECORD_BYTES_MAX: usize = RECORD_OVERHEAD_BYTES
    + 5 * SEATS_BYTES_MAX
    + PARTS_MAX * (PART_OVERHEAD_BYTES + PART_MEMBERS_BYTES_MAX + RECEIPT_BYTES_MAX)
    + FINGERPRINT_BYTES_MAX
    + 2 * RECORD_TEXT_BYTES_MAX
    + 3 * 2_048;
const _: () = assert!(RECORD_BYTES_MAX < DYNAMODB_ITEM_BYTES_MAX);
const _: () = assert!(PARTS_FOR_STRAGGLERS < PARTS_MAX);
const _: () = assert!(OVERFLOW_DAYS_MIN as u64 * 24 * 3_600 > BATCH_RECORD_RETENTION.as_secs());
const _: () = assert!(BATCH_ITEMS_MAX <= SEATS_MAX as u64);
const _: () = assert!(CLOCK_SKEW_MAX.as_secs() < SQS_DELAY_MAX.as_secs());
const _: () = assert!(
    CLAIM_OVERHEAD_BYTES + PAST_DELIVERIES_MAX * 256 + DYNAMODB_KEY_BYTES_MAX
        < DYNAMODB_ITEM_BYTES_MAX
);
