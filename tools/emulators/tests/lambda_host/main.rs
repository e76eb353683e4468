//! End-to-end tests of the Lambda host and the event source mapping. The function is `examples/echo_lambda.rs`, which uses the
//! crate `lambda_runtime`.
//!
//! Tests wait for conditions, at most for [`support::PATIENCE`], and never for a fixed time.

mod aws_snapshots;
mod environments;
mod failures;
mod lambda_mapping;
mod payloads;
mod support;
