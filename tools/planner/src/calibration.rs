//! Figures of this program's own code: measured, not published. Each has its source and the day it was measured.
//!
//! They were measured on one x86-64 machine. What AWS's processors make of them is an assumption, which every plan prints.

/// CPU of the aggregator for a message of [`MEASURED_BYTES`], in microseconds, by place of the bodies.
/// Source: `cargo xtask bench` (2026-11-25).
pub const AGGREGATOR_MICROS_ITEMS: f64 = 25.4;
/// Not measured: what was measured with bodies in chunks (15.5 to 16.0), which stored the same and claimed each event besides.
pub const AGGREGATOR_MICROS_LOG: f64 = 16.0;
/// CPU of the batch-processor for a message of [`MEASURED_BYTES`], in microseconds. Source: as above.
pub const PROCESSOR_MICROS_ITEMS: f64 = 29.3;
/// Not measured: three times what was measured with bodies in chunks (3.9). A batch of the log reads its lines twice, and looks each up.
pub const PROCESSOR_MICROS_LOG: f64 = 11.7;
/// The size of the bodies with which the figures above were measured.
pub const MEASURED_BYTES: f64 = 300.0;
/// CPU for each further byte of a body, in microseconds: the slope between 300 bytes and 10 KB.
/// Source: `cargo xtask bench table` (2026-11-22).
pub const AGGREGATOR_MICROS_PER_BYTE: f64 = 0.0132;
pub const PROCESSOR_MICROS_PER_BYTE: f64 = 0.0057;
/// How many times as much CPU a message takes with `WRITE_MODE=put`. Source: as above.
pub const PUT_FACTOR: f64 = 14.0;

/// From the start of a process until its first poll, in seconds, on the machine of `local`.
/// Source: `cold_start_ms` of `batch-local burst --json` (2026-11-22): 11 to 28 ms.
pub const COLD_START_SECS: f64 = 0.02;

/// Share of a body's bytes that is left when it is compressed by itself: bodies of 10 KB took 4 units.
/// Source: `cargo xtask bench table` (2026-11-22), with the bodies of `loadgen`.
pub const COMPRESSED_SHARE: f64 = 0.36;
/// Compressed bytes of a line of a load besides its body, the share that is left of a body, and the bytes of a frame besides its lines.
/// Source: `batch-local burst --bodies log:table` with 10, 100 and 1,000 messages of 300 bytes an invocation, and with bodies of 1,000 and
/// 2,000 bytes (2026-11-28). Lines with bodies of 80 bytes have a third less.
pub const LINE_BYTES: f64 = 17.0;
pub const LINE_COMPRESSED_SHARE: f64 = 0.36;
pub const FRAME_BYTES_AT_LEAST: f64 = 300.0;
/// Bytes of a run for each entry, of its header, and of a list for each run. Source: as above, and `protocol::log::ENTRY_BYTES`.
pub const RUN_HEADER_BYTES: f64 = 300.0;
pub const LIST_ENTRY_BYTES: f64 = 150.0;
/// Bytes of a slot. Source: the JSON of `protocol::slot::Slot`.
pub const SLOT_BYTES: f64 = 400.0;
/// Write units of a batch record with `items`, from opening to completion, besides its reservations and the counts of its claims.
/// Source: docs/choosing.md, "Price" (2026-11-24).
pub const BATCH_UNITS_ITEMS: f64 = 40.0;
/// Write units of the scope item of a batch with `items`, and of the counts that its batch-processor writes. Not measured.
pub const SCOPE_UNITS_ITEMS: f64 = 1.0;
pub const COUNT_UNITS_ITEMS: f64 = 2.0;
/// Write units of a batch record and its scope item with the log, besides reservations, if no line is a duplicate; what the sets of
/// duplicates and winners add; and with how many duplicates they do. Source: as the bytes of a line: 14, 104 and 119 units with no, 2,500
/// and 10,000 duplicates.
pub const BATCH_UNITS_LOG: f64 = 14.0;
pub const SETS_UNITS_LOG: f64 = 100.0;
pub const DUPLICATES_OF_SETS: f64 = 2_500.0;
/// Bytes a second of a PUT or GET. Not measured.
pub const S3_BYTES_PER_SEC: f64 = 50e6;
/// Bytes of an index entry that a query reads. Source: docs/deploying.md, "Cost" (2026-11).
pub const INDEX_ENTRY_BYTES: f64 = 150.0;

/// Share of the units a second of a table or key that writers get to use while it throttles: each environment lowers its
/// rate when it is throttled, and raises it again. Source: `cargo xtask check-plans` (2026-11-25).
pub const PACED_SHARE: f64 = 0.87;
/// Refused writes for each write that passes while a table or key throttles. Source: as above.
pub const REFUSED_PER_WRITE: f64 = 0.1;
