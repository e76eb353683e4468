//! The SQS server against the SDK that the lambdas use, over HTTP on a loopback port.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the report"
)]

mod messages;
mod queues;
mod refusals;
mod support;
mod visibility;
