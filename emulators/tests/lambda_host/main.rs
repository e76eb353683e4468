//! The Lambda host and the event source mapping end to end, with the real `lambda_runtime` of `examples/echo_lambda.rs`.
//!
//! Waiting is always for a condition, with [`support::PATIENCE`] as the cap.

mod environments;
mod failures;
mod lambda_mapping;
mod payloads;
mod support;
