//! List prices, in dollars, for us-east-1: on demand, first tier, no free tier, no savings plan.
//!
//! The prices are quoted from others, and were not read from AWS's own price lists. Each has the month of its newest quote.

use std::time::Duration;

/// One write unit of an on-demand table (September 2026; unchanged since November 2024).
/// Source: <https://aws.amazon.com/dynamodb/pricing/on-demand/>
pub const DYNAMODB_WRITE_UNIT: f64 = 0.625 / MILLION;

/// One read unit of an on-demand table (September 2026; unchanged since November 2024).
/// Source: <https://aws.amazon.com/dynamodb/pricing/on-demand/>
pub const DYNAMODB_READ_UNIT: f64 = 0.125 / MILLION;

/// One request to a standard queue (June 2026).
/// Source: <https://aws.amazon.com/sqs/pricing/>
pub const SQS_REQUEST: f64 = 0.40 / MILLION;

/// One GB (2^30 bytes) in a table of the class Standard for a month (October 2026).
/// Source: <https://aws.amazon.com/dynamodb/pricing/on-demand/>
pub const DYNAMODB_GB_MONTH: f64 = 0.25;

/// One request to S3 Standard that writes an object or lists objects (October 2026).
/// Source: <https://aws.amazon.com/s3/pricing/>
pub const S3_PUT: f64 = 5.0 / MILLION;

/// One request to S3 Standard that reads an object or its metadata (October 2026).
/// Source: <https://aws.amazon.com/s3/pricing/>
pub const S3_GET: f64 = 0.40 / MILLION;

/// One GB (2^30 bytes) in S3 Standard for a month (October 2026).
/// Source: <https://aws.amazon.com/s3/pricing/>
pub const S3_GB_MONTH: f64 = 0.023;

/// Returns the GB-months of bytes that are kept for this time. A month has 730 hours.
pub fn gb_months(bytes: f64, time: Duration) -> f64 {
    bytes / f64::from(1 << 30) * time.as_secs_f64() / (730.0 * 3_600.0)
}

/// One invocation (September 2026).
/// Source: <https://aws.amazon.com/lambda/pricing/>
pub const LAMBDA_REQUEST: f64 = 0.20 / MILLION;

/// One GB-second (1,024 MB for a second) on arm64 (September 2026).
/// Source: <https://aws.amazon.com/lambda/pricing/>
pub const LAMBDA_GB_SECOND_ARM64: f64 = 0.000_013_333_4;

/// One GB-second on x86_64 (September 2026).
/// Source: <https://aws.amazon.com/lambda/pricing/>
pub const LAMBDA_GB_SECOND_X86_64: f64 = 0.000_016_666_7;

/// Write units of a unique message in the public proof of concept of such a service. The lock item and its index entry are
/// each written once and removed once.
pub const PROOF_OF_CONCEPT_WRITE_UNITS: f64 = 4.0;

/// The number of messages to which prices refer.
pub const MILLION: f64 = 1e6;
