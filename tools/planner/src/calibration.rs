//! Figures of this program's own code: measured, not published. Each has its source and the day it was measured.
//!
//! They were measured on one x86-64 machine. What AWS's processors make of them is an assumption, which every plan prints.

/// CPU of the aggregator for a message of [`MEASURED_BYTES`], in microseconds, by place of the bodies.
/// Source: docs/performance.md, "CPU and memory" (2026-11-25): `cargo xtask bench`.
pub const AGGREGATOR_MICROS_ITEMS: f64 = 25.4;
pub const AGGREGATOR_MICROS_TABLE: f64 = 16.0;
pub const AGGREGATOR_MICROS_S3: f64 = 15.5;
/// CPU of the batch-processor for a message of [`MEASURED_BYTES`], in microseconds. Source: as above.
pub const PROCESSOR_MICROS_ITEMS: f64 = 29.3;
pub const PROCESSOR_MICROS_CHUNKS: f64 = 3.9;
/// The size of the bodies with which the figures above were measured.
pub const MEASURED_BYTES: f64 = 300.0;
/// CPU for each further byte of a body, in microseconds: the slope between 300 bytes and 10 KB.
/// Source: docs/performance.md, "Bursts of many kinds" (2026-11-22).
pub const AGGREGATOR_MICROS_PER_BYTE: f64 = 0.0132;
pub const PROCESSOR_MICROS_PER_BYTE: f64 = 0.0057;
/// How many times as much CPU a message takes with `WRITE_MODE=put`. Source: as above.
pub const PUT_FACTOR: f64 = 14.0;

/// From the start of a process until its first poll, in seconds, on the machine of `local`.
/// Source: docs/performance.md, "Size and cold start" (2026-11-22): 11 to 28 ms.
pub const COLD_START_SECS: f64 = 0.02;

/// Share of a body's bytes that is left when it is compressed by itself: bodies of 10 KB took 4 units.
/// Source: docs/performance.md, "Bursts of many kinds" (2026-11-22), with the bodies of `loadgen`.
pub const COMPRESSED_SHARE: f64 = 0.36;
/// Bytes of a chunk's line besides the body, and the share that is left of a chunk's lines when they are compressed.
/// Source: docs/choosing.md, "Price": lines of 590 bytes for bodies of 300; a chunk of 1,000 has 166 KB (2026-11-24).
pub const CHUNK_LINE_BYTES: f64 = 290.0;
pub const CHUNK_COMPRESSED_SHARE: f64 = 0.287;
/// Bytes of a compressed chunk that do not depend on its lines. Source: as above: a chunk of one line has 0.45 KB.
pub const CHUNK_BYTES_AT_LEAST: f64 = 300.0;
/// Bytes of a record in the batch table with `items`, and of one with chunks and 50,000 claims.
/// Source: docs/choosing.md, "Price" (2026-11-24): counts cost 5 and 6 units.
pub const COUNT_UNITS_ITEMS: f64 = 2.0;
pub const COUNT_UNITS_CHUNKS: f64 = 6.0;
/// Write units of a batch record besides its counts, from opening to completion. Source: as above.
pub const BATCH_UNITS_ITEMS: f64 = 40.0;
pub const BATCH_UNITS_CHUNKS: f64 = 80.0;
/// Bytes of an index entry that a query reads. Source: docs/deploying.md, "Cost" (2026-11).
pub const INDEX_ENTRY_BYTES: f64 = 150.0;

/// Share of the units a second of a table or key that writers get to use while it throttles: each environment lowers its
/// rate when it is throttled, and raises it again. Source: `cargo xtask check-plans` (2026-11-25).
pub const PACED_SHARE: f64 = 0.87;
/// Refused writes for each write that passes while a table or key throttles. Source: as above.
pub const REFUSED_PER_WRITE: f64 = 0.1;
