//! Every service limit this program relies on and every cap of its own, with unit, source and date.

use std::time::Duration;

pub mod aws;

/// Clocks of two machines differ by less than this. It is an assumption (docs/protocol.md, "Assumptions"), not a
/// measurement.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(2);

/// Largest delay of an SQS message.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-timers.html> (2026-08).
pub const SQS_DELAY_MAX: Duration = Duration::from_secs(900);
/// Longest window of a batch: its ticket is delayed for as long, with the clock skew and a second for rounding.
pub const WINDOW_MAX: Duration = Duration::from_secs(897);
/// Entries of one SQS batch request.
/// Source: botocore `sqs` service model, SendMessageBatch (2026-08).
pub const SQS_BATCH_ENTRIES_MAX: usize = 10;
/// Bytes of one SQS message, and of one batch request, attributes included.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html> (2026-08).
pub const SQS_MESSAGE_BYTES_MAX: usize = 1_048_576;
/// Message attributes of one SQS message.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html> (2026-11).
pub const SQS_ATTRIBUTES_MAX: usize = 10;

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
/// The lowest rate at which an index key that throttles is written: two requests a second.
pub const PACE_UNITS_PER_SECOND_MIN: f64 = 50.0;
/// When this many keys throttle within [`PACE_CUT_EVERY`], the whole table counts as throttled.
pub const TABLE_KEYS_MIN: usize = 3;
/// The lowest rate at which one environment writes a table that throttles. A thousand environments at this rate stay
/// within the capacity of a new table.
pub const TABLE_PACE_UNITS_PER_SECOND_MIN: f64 = 4.0;
/// Above this rate, writes to the table are not paced any more. It is half of the default quota of a table.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html> (2026-08).
pub const TABLE_PACE_UNITS_PER_SECOND_MAX: f64 = 20_000.0;
/// Throttled replies within this time lower a rate only once, because their requests were in flight together.
pub const PACE_CUT_EVERY: Duration = Duration::from_millis(250);
/// A worker that would have to wait longer than this before it may write to a key does not wait, and leaves the write
/// to other workers.
pub const PACE_WAIT_MAX: Duration = Duration::from_millis(100);
/// How long a key's pace is remembered after its last write.
pub const PACE_FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Bytes that one write unit pays for.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html> (2026-08).
pub const WRITE_UNIT_BYTES: usize = 1_024;

/// Bytes of a claim's lock item besides its texts: attribute names, numbers, the hash, and the batch shard.
pub const CLAIM_OVERHEAD_BYTES: usize = 256;
/// Bodies that are written to or read from S3 at once, of up to 1 MiB each.
pub const OVERFLOW_CALLS_MAX: usize = 8;
/// Days for which a bucket must keep bodies: more than an operator may need to notice and repair a batch in error.
pub const OVERFLOW_DAYS_MIN: u32 = 30;
/// Bytes of a lock item's reference to a body in S3, besides the names of bucket and object.
pub const OVERFLOW_BYTES: usize = 64;
/// Past deliveries that one lock item remembers with `ON_DUPLICATE=requeue`; the next duplicate waits until one
/// expires.
pub const PAST_DELIVERIES_MAX: usize = 32;
/// Records of complete batches that an environment remembers, of up to [`LISTING_RECORD_BYTES_MAX`] each (or
/// [`RECORD_BYTES_MAX`], with bodies in lock items).
pub const COMPLETE_RECORDS_MAX: usize = 32;
/// Parts of one batch. As a batch uses up its parts, the remaining parts get larger, so that its size alone never needs
/// more parts than this.
pub const PARTS_MAX: usize = 100;
/// How many of those parts are kept for claims that become visible in the index last. Each look that finds such claims
/// makes one part.
pub const PARTS_FOR_STRAGGLERS: usize = 10;
/// Bytes of the largest set of seqs that a delivered part keeps for itself. A larger set goes into the set that all
/// parts share.
pub const PART_MEMBERS_BYTES_MAX: usize = 120;
/// Bytes of a part in the batch record besides its set and texts: attribute names, count, hash, time of delivery, number, link.
pub const PART_OVERHEAD_BYTES: usize = 280;
/// Bytes of a batch record besides sets, texts and parts: attribute names, numbers, times, ids.
pub const RECORD_OVERHEAD_BYTES: usize = 1_024;
/// Seats of one batch. The five bitmaps of its record (8 KB for every 65,536 seqs, each) must fit an item.
pub const SEATS_MAX: u32 = 524_288;
/// Items of the largest batch that can be configured.
pub const BATCH_ITEMS_MAX: u64 = 500_000;
/// Claims of open batches that an environment remembers, some 80 bytes each. Duplicates of other claims are recognised
/// only by a write to the lock table.
pub const KNOWN_CLAIMS_MAX: usize = 200_000;
/// Bytes of an error text in a batch record.
pub const RECORD_TEXT_BYTES_MAX: usize = 1_024;
/// Bytes of the last failure in a batch record; a longer one is cut.
pub const FAILURE_BYTES_MAX: usize = 512;
/// Notes about operators that a batch record keeps: the last ones.
pub const NOTES_MAX: usize = 8;
/// Bytes of the name of an operator in a note.
pub const NOTE_BY_BYTES_MAX: usize = 96;
/// Bytes of what an operator did, in a note.
pub const NOTE_ACTION_BYTES_MAX: usize = 64;
/// Bytes of the reason in a note.
pub const NOTE_WHY_BYTES_MAX: usize = 256;
/// Bytes of a note besides its texts: attribute names and the time.
pub const NOTE_OVERHEAD_BYTES: usize = 96;
/// Bytes of a receipt in a batch record, one for each part.
pub const RECEIPT_BYTES_MAX: usize = 256;
/// Bytes of the sink fingerprint of a part.
pub const FINGERPRINT_BYTES_MAX: usize = 256;
/// Traces that one log line names.
pub const LOGGED_TRACES_MAX: usize = 8;
/// How often an attempt may find that the item changed between reading and replacing it. Then its outcome is `Failed`.
pub const REPLACE_ROUNDS_MAX: usize = 4;
/// Time between two looks at a queue that is empty while other consumers hold messages of it. A consumer that polls a
/// queue which still gets messages receives some within this time.
pub const DRAINED_LOOKS_APART: Duration = Duration::from_secs(1);

/// How long the record of a complete batch is kept, for audits and for claims that become visible late.
pub const BATCH_RECORD_RETENTION: Duration = Duration::from_secs(14 * 24 * 3_600);
/// Longest dedup window. A late claim is classified by the record of its batch, so the record must outlast the window.
pub const DEDUP_WINDOW_MAX: Duration = Duration::from_secs(13 * 24 * 3_600);
/// How long the lock item of an event that was set aside or rejected is kept at least: as long as SQS keeps its message in the quarantine.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html> (2026-08).
pub const SET_ASIDE_RETENTION: Duration = Duration::from_secs(14 * 24 * 3_600);
/// How far after its message was sent an event may have happened by its own time. With `CLOSE_AT`, its batch is open until then.
pub const EVENT_AHEAD_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How long past its due time a batch is left alone before the sweep sends another ticket.
pub const DUE_GRACE: Duration = Duration::from_secs(60);
/// Longest delay of a given-back ticket by our own backoff.
pub const TICKET_BACKOFF_MAX: Duration = Duration::from_secs(300);
/// For how long ahead turns are taken. A ticket that arrives at a turn can be sent at once, whatever the clocks.
pub const TURNS_AHEAD: Duration = Duration::from_secs(840);
/// Longest delay of a given-back ticket when a sink named a time, or when the batch is still open.
pub const TICKET_AWAY_MAX: Duration = Duration::from_secs(3_600);
/// After so many leases of a batch, the sweep sends its next ticket, and not the invocation. Lambda stops a chain of invocations that
/// comes to the same function some 16 times. Source:
/// <https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html>, read on 2026-11-26.
pub const TICKETS_IN_CHAIN_MAX: u64 = 12;
/// Shortest time until the sweep sends another ticket of a batch, because the first may wait behind others.
pub const TICKET_RESEND_AFTER: Duration = Duration::from_secs(600);
/// Keys of `status-index` that the batches of one status are spread over. One key takes 1,000 write units a second.
pub const STATUS_SHARDS: u8 = 4;
/// Pages of one key of `status-index` that one sweep reads, of 1 MB each: some 300,000 batches, oldest first. A ticket moves the due
/// time of its batch, so the next sweep reads others.
pub const SWEEP_PAGES_MAX: usize = 50;
/// Tickets that a sweep sends however many tickets wait in the queue, so that a lost one is replaced in any case.
pub const SWEEP_TICKETS_MIN: usize = 500;

/// Longest one call to DynamoDB or SQS may take before its reply counts as lost.
pub const ATTEMPT_TIMEOUT_MAX: Duration = Duration::from_millis(1_500);

/// How long a batch may stay incomplete. After that, nothing of it is frozen or delivered, and it is set aside.
pub const BATCH_LIFE_MAX: Duration = Duration::from_secs(10 * 24 * 3_600);
/// Bytes of a quota key.
pub const QUOTA_KEY_BYTES_MAX: usize = 1_024;
/// How long ago the period of an event may have ended that counts in a quota. The aggregator refuses older ones, so the tallies of a
/// period may be dropped some day.
pub const QUOTA_EVENT_AGE_MAX: Duration = Duration::from_secs(24 * 24 * 3_600);
/// How far ahead the period of an event may begin that counts in a quota.
pub const QUOTA_EVENT_AHEAD_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Longest period of a quota. A day on which a clock is put back has 25 hours.
pub const QUOTA_PERIOD_MAX: Duration = Duration::from_secs(25 * 3_600);
/// How long the tallies of a period are kept after its end: lines of its events are stored for [`QUOTA_EVENT_AGE_MAX`], and a batch with
/// one of them may deliver for [`BATCH_LIFE_MAX`] more. As for entries, an invocation may deliver for some minutes after that.
pub const QUOTA_TALLY_RETENTION: Duration =
    Duration::from_secs(QUOTA_EVENT_AGE_MAX.as_secs() + ENTRY_RETENTION.as_secs());
/// How long deliveries may be paused by one pause.
pub const PAUSE_TIME_MAX: Duration = Duration::from_secs(3 * 24 * 3_600);
/// Pauses at the same time. The batch-processor reads all of them for every ticket.
pub const PAUSES_MAX: usize = 50;
/// Pauses that were resumed or replaced and would not have ended yet, in the item with the pauses.
pub const FORMER_PAUSES_MAX: usize = 50;
/// How long the record of a complete batch of the log outlasts the dedup window. It classifies every line that is stored before the
/// entries of the batch end, and is decided within a batch life.
pub const LOG_RECORD_RETENTION: Duration = Duration::from_secs(22 * 24 * 3_600);
/// Frames of loads that an invocation reads at once, if they fit a part together.
pub const OBJECT_CALLS_MAX: usize = 32;
/// Bytes of a compressed load that goes into the table although there is a bucket. Writing it there costs at most what
/// a request to the bucket does.
pub const SMALL_OBJECT_BYTES_MAX: usize = 8 << 10;
/// Bytes of an object in one item of the batch table.
pub const OBJECT_ITEM_BYTES_MAX: usize = 350 << 10;
/// Seats of one batch of the log. Every write pays for its whole record ([`LISTING_RECORD_BYTES_MAX`]).
pub const LISTED_SEATS_MAX: u32 = 131_072;
/// Events of the largest batch of the log that can be configured.
pub const LOG_BATCH_ITEMS_MAX: u64 = 100_000;

/// How long a scope item outlasts the window of its batch.
pub const SCOPE_RETENTION: Duration = Duration::from_secs(40 * 24 * 3_600);
/// How long a load, a slot, a run and a list of runs are kept: longer than any line is decided by them.
pub const LOG_RETENTION: Duration = Duration::from_secs(40 * 24 * 3_600);
/// How long an entry of the index is remembered beyond the dedup window, from the opening of its batch on. An invocation that began
/// within the batch life may deliver for some minutes more.
pub const ENTRY_RETENTION: Duration = Duration::from_secs(BATCH_LIFE_MAX.as_secs() + 24 * 3_600);
/// How much longer an entry is kept whose place was taken over from an entry that ends later.
pub const ENTRY_EXTENSION_MAX: Duration = Duration::from_secs(12 * 3_600);
/// How long after its opening a batch of the log gets holes. An empty slot of an older one had a load, which is lost.
pub const HOLES_UNTIL: Duration = Duration::from_secs(20 * 24 * 3_600);
/// How long after a line was stored it is decided, unless the batch-processor stands still. Entries that ended earlier may be left out.
/// The longest period and window are over after two days; the rest is for a batch-processor that is repaired after a long weekend.
pub const DECIDED_WITHIN: Duration = Duration::from_secs(5 * 24 * 3_600);
/// How long after a reservation in the log the closer of the batch waits for its slot.
pub const LINES_WAIT_MAX: Duration = Duration::from_secs(3);
/// How long after a reservation for claims the closer of the batch waits for its slot. A writer that needs longer finds a hole.
pub const CLAIMS_WAIT_MAX: Duration = Duration::from_secs(20);
/// Slots of one batch. Its closer reads all of them in one invocation.
pub const SLOTS_MAX: u32 = 20_000;
/// Requests that read or put slots, which an invocation sends at once.
pub const SLOT_CALLS_MAX: usize = 32;
/// Requests for records of owners that an invocation sends at once.
pub const LOG_CALLS_MAX: usize = 32;
/// Records of complete batches that an environment keeps to decide about lines.
pub const OWNERS_KEPT_MAX: usize = 1_000;
/// Bytes of the runs that an environment keeps by default. The others are read for each batch.
pub const INDEX_BYTES_KEPT: usize = 48 << 20;
/// Attempts of a batch to commit before it takes a turn.
pub const COMMIT_ATTEMPTS_MAX: u32 = 3;
/// How long a turn to commit lasts, if the batch does not commit before: longer than a batch takes to read the index and decide.
pub const COMMIT_TURN: Duration = Duration::from_secs(20);
/// Entries from which on a run is not merged once more: 2.6 MB.
pub const RUN_ENTRIES_MAX: u64 = 65_536;
/// Runs of about the same size before they are merged. A batch reads all of them.
pub const RUNS_OF_ONE_SIZE_MAX: usize = 8;
/// Runs of about the same size before the runs of incomplete batches are merged too. The end of their events is not known then.
pub const RUNS_INCOMPLETE_MAX: usize = 64;
/// Entries of the runs that one merge takes, so that it needs less than 100 MB.
pub const MERGED_ENTRIES_MAX: u64 = 8 * RUN_ENTRIES_MAX;
/// Owners and tallies in the header of a run from which on it is not merged once more: some 4 MB.
pub const RUN_ROWS_MAX: u64 = 32_768;
/// Owners and tallies of the runs that one merge takes. A reader takes a header of twice as many, as JSON.
pub const MERGED_ROWS_MAX: u64 = 8 * RUN_ROWS_MAX;
/// Runs in a list. A reader takes a list of as many.
pub const RUNS_MAX: usize = 50_000;

/// Links of one span, which is the default of OpenTelemetry's limit.
/// Source: <https://opentelemetry.io/docs/specs/otel/trace/sdk/#span-limits> (2026-11).
pub const SPAN_LINKS_MAX: usize = 128;
/// Spans that a ticket names.
pub const TICKET_LINKS_MAX: usize = 8;
/// Open batches of an environment for which spans are remembered.
pub const BATCHES_WITH_LINKS_MAX: usize = 1_000;
/// Spans that wait for their export.
pub const SPANS_MAX: usize = 2_048;
/// How long the export of spans may delay a response. It is enough to open a connection to another continent.
pub const EXPORT_TIME_MAX: Duration = Duration::from_secs(1);
/// How long no spans are exported after an export failed.
pub const EXPORT_PAUSE: Duration = Duration::from_secs(30);
/// Bytes of a response to an export. It has a few words.
pub const EXPORT_RESPONSE_BYTES_MAX: usize = 64 << 10;
/// Notices of errors of one batch that wait to be sent. There is one for each lease that ended in an error, so there are
/// several only if an operator tries again while notices cannot be sent.
pub const NOTICES_MAX: usize = 2;
/// Bytes of the error in a notice; a longer one is cut. The record has little room left for notices.
pub const NOTICE_ERROR_BYTES_MAX: usize = 512;
/// Bytes of a notice in a record, without its error.
pub const NOTICE_OVERHEAD_BYTES: usize = 128;
/// How long an invocation tries to send the notices of a batch. The sweep tries again; until then the time is for deliveries.
pub const NOTICE_TIME_MAX: Duration = Duration::from_secs(3);
/// Pause of an environment after a failed notice. Operator requests ignore it.
pub const NOTICE_PAUSE: Duration = Duration::from_secs(30);
/// Tickets for notices that one sweep sends. While notices cannot be sent, few of them take
/// [`NOTICE_TIME_MAX`]: see [`NOTICE_PAUSE`].
pub const NOTICE_TICKETS_MAX: usize = 100;
/// Bytes of the manifest in a notice. The smallest limit of the targets of notices: an SQS message may have 1 MiB, an
/// entry of EventBridge 256 KB in regions that do not take 1 MB yet.
/// Source: <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html> (2026-11).
pub const NOTICE_BYTES_MAX: usize = 240_000;

// A line may be stored until the last entry ends, and be decided a batch life later.
const _: () = assert!(
    LOG_RETENTION.as_secs()
        > ENTRY_RETENTION.as_secs()
            + ENTRY_EXTENSION_MAX.as_secs()
            + DEDUP_WINDOW_MAX.as_secs()
            + DECIDED_WITHIN.as_secs()
            + BATCH_LIFE_MAX.as_secs()
);
// A run with a tally of a period that is still ahead is read until the tally ends.
const _: () = assert!(
    LOG_RETENTION.as_secs()
        > QUOTA_EVENT_AHEAD_MAX.as_secs()
            + QUOTA_PERIOD_MAX.as_secs()
            + QUOTA_TALLY_RETENTION.as_secs()
            + 24 * 3_600
);
const _: () = assert!(LOG_BATCH_ITEMS_MAX * 2 <= MERGED_ROWS_MAX);
const _: () = assert!(
    LOG_RECORD_RETENTION.as_secs()
        > ENTRY_RETENTION.as_secs() + ENTRY_EXTENSION_MAX.as_secs() + BATCH_LIFE_MAX.as_secs()
);
const _: () = assert!(HOLES_UNTIL.as_secs() * 2 <= LOG_RETENTION.as_secs());
const _: () = assert!(PAUSE_TIME_MAX.as_secs() < BATCH_LIFE_MAX.as_secs());
const _: () = assert!(LOG_BATCH_ITEMS_MAX <= LISTED_SEATS_MAX as u64);

const _: () = assert!(BATCH_RECORD_RETENTION.as_secs() > DEDUP_WINDOW_MAX.as_secs());
/// Bytes of a set of any seqs below [`SEATS_MAX`]: a container of 8 KB for every 65,536 of them, and its header.
/// Source: <https://github.com/RoaringBitmap/RoaringFormatSpec> (2026-08).
pub const SEATS_BYTES_MAX: usize = (SEATS_MAX as usize).div_ceil(65_536) * (8_192 + 8) + 64;
/// Bytes of the largest batch record: five sets of any seqs (settled, witnessed, delivered, set aside, and the members
/// of a frozen part); every part with a set and a receipt of its own; notes, a fingerprint, errors, a key, a source and
/// an owner.
pub const RECORD_BYTES_MAX: usize = record_bytes_max(5, SEATS_BYTES_MAX);
/// Bytes of a set of any seqs below [`LISTED_SEATS_MAX`], as [`SEATS_BYTES_MAX`].
pub const LISTED_SEATS_BYTES_MAX: usize =
    (LISTED_SEATS_MAX as usize).div_ceil(65_536) * (8_192 + 8) + 64;
/// Bytes of the largest record of a batch of the log, with eight sets: claimed, witnessed, duplicates, conflicts, beyond a quota,
/// delivered, set aside, and the members of a frozen part. With 50,000 lines, every twentieth a duplicate, a record has some 31 KB.
pub const LISTING_RECORD_BYTES_MAX: usize = record_bytes_max(8, LISTED_SEATS_BYTES_MAX);

const fn record_bytes_max(sets: usize, set_bytes_max: usize) -> usize {
    RECORD_OVERHEAD_BYTES
        + sets * set_bytes_max
        + PARTS_MAX * (PART_OVERHEAD_BYTES + PART_MEMBERS_BYTES_MAX + RECEIPT_BYTES_MAX)
        + NOTES_MAX
            * (NOTE_OVERHEAD_BYTES + NOTE_BY_BYTES_MAX + NOTE_ACTION_BYTES_MAX + NOTE_WHY_BYTES_MAX)
        + (NOTICES_MAX + 1) * NOTICE_OVERHEAD_BYTES
        + NOTICES_MAX * NOTICE_ERROR_BYTES_MAX
        + FINGERPRINT_BYTES_MAX
        + 2 * RECORD_TEXT_BYTES_MAX
        + FAILURE_BYTES_MAX
        + 3 * 2_048
}

const _: () = assert!(LISTING_RECORD_BYTES_MAX < 208 << 10);
const _: () = assert!(RECORD_BYTES_MAX < DYNAMODB_ITEM_BYTES_MAX);
const _: () = assert!(PARTS_FOR_STRAGGLERS < PARTS_MAX);
const _: () = assert!(OVERFLOW_DAYS_MIN as u64 * 24 * 3_600 > BATCH_RECORD_RETENTION.as_secs());
const _: () = assert!(BATCH_ITEMS_MAX <= SEATS_MAX as u64);
const _: () =
    assert!(TURNS_AHEAD.as_secs() + 2 * CLOCK_SKEW_MAX.as_secs() < SQS_DELAY_MAX.as_secs());
const _: () = assert!(
    CLAIM_OVERHEAD_BYTES + PAST_DELIVERIES_MAX * 256 + DYNAMODB_KEY_BYTES_MAX
        < DYNAMODB_ITEM_BYTES_MAX
);
