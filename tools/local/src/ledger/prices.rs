//! List prices, in dollars: those of the price file of `planner`, for us-east-1 on demand, without free tier and savings plan.
//! The file has the source and month of each.

use std::sync::LazyLock;

use planner::{MILLION, Prices};

static PRICES: LazyLock<Prices> = LazyLock::new(Prices::us_east_1);

/// Returns the price of one write unit of an on-demand table.
pub fn dynamodb_write_unit() -> f64 {
    PRICES.dynamodb_million_write_units.dollars / MILLION
}

/// Returns the price of one read unit of an on-demand table.
pub fn dynamodb_read_unit() -> f64 {
    PRICES.dynamodb_million_read_units.dollars / MILLION
}

/// Returns the price of one request to a standard queue.
pub fn sqs_request() -> f64 {
    PRICES.sqs_million_requests.dollars / MILLION
}

/// Returns the price of one GB (2^30 bytes) in a table of the class Standard for a month.
pub fn dynamodb_gb_month() -> f64 {
    PRICES.dynamodb_gb_month.dollars
}

/// Returns the price of one request to S3 Standard that writes an object or lists objects.
pub fn s3_put() -> f64 {
    PRICES.s3_million_puts.dollars / MILLION
}

/// Returns the price of one request to S3 Standard that reads an object or its metadata.
pub fn s3_get() -> f64 {
    PRICES.s3_million_gets.dollars / MILLION
}

/// Returns the price of one GB (2^30 bytes) in S3 Standard for a month.
pub fn s3_gb_month() -> f64 {
    PRICES.s3_gb_month.dollars
}

/// Returns the price of one invocation.
pub fn lambda_request() -> f64 {
    PRICES.lambda_million_requests.dollars / MILLION
}

/// Returns the price of one GB-second (1,024 MB for a second) on arm64.
pub fn lambda_gb_second_arm64() -> f64 {
    PRICES.lambda_gb_second_arm64.dollars
}

/// Returns the price of one GB-second on x86_64.
pub fn lambda_gb_second_x86_64() -> f64 {
    PRICES.lambda_gb_second_x86_64.dollars
}

/// Write units of a unique message in the public proof of concept of such a service. The lock item and its index entry are
/// each written once and removed once.
pub const PROOF_OF_CONCEPT_WRITE_UNITS: f64 = 4.0;
