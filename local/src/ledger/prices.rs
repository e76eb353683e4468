//! List prices, in dollars, for us-east-1: on demand, first tier, no free tier, no savings plan.
//!
//! The prices are quoted from others, and were not read from AWS's own price lists. Each has the month of its newest quote.

/// One write unit of an on-demand table (September 2026; unchanged since November 2024).
/// Source: <https://aws.amazon.com/dynamodb/pricing/on-demand/>
pub const DYNAMODB_WRITE_UNIT: f64 = 0.625 / MILLION;

/// One read unit of an on-demand table (September 2026; unchanged since November 2024).
/// Source: <https://aws.amazon.com/dynamodb/pricing/on-demand/>
pub const DYNAMODB_READ_UNIT: f64 = 0.125 / MILLION;

/// One request to a standard queue (June 2026).
/// Source: <https://aws.amazon.com/sqs/pricing/>
pub const SQS_REQUEST: f64 = 0.40 / MILLION;

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
