//! Tests of the SQS server with the SDK.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the report"
)]

mod aws_snapshots;
mod messages;
mod moto_facts;
mod queues;
mod refusals;
mod support;
