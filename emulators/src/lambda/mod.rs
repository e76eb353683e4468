//! A Lambda host: bootstrap binaries run as AWS runs them, and an SQS event source mapping that feeds them.
//!
//! What is served is what a bootstrap sees: the Runtime API, the environment variables, cold and warm starts, the
//! deadline with its SIGKILL, the log pipes, and batches cut and judged by the rules of Lambda's mapping.
//!
//! Deliberately absent: freezing idle environments, memory limits (the configured size is only told to the
//! process), throttling, and the scaling ramp of the pollers.
//!
//! The rules live in pure code with tests of their own: [`judge()`] for outcomes, [`event`] for the JSON and the 6 MB
//! cut, [`MappingConfig`] for validation. The rest is processes, sockets and clocks.

mod accounting;
mod environment;
mod esm;
mod esm_config;
pub mod event;
mod exchange;
mod faults;
mod function;
mod gather;
mod ids;
mod judge;
mod logs;
mod pool;
mod process;
mod runtime_api;
mod start_failure;

pub use accounting::{
    CpuTime, EnvironmentState, EnvironmentStatus, FunctionStats, MappingRequests, MappingStats,
};
pub use esm::EventSourceMapping;
pub use esm_config::{MappingConfig, MappingError, MappingProblem};
pub use faults::{EnvironmentFaults, NoFaults};
pub use function::{Bootstrap, Function, FunctionConfig, InvokeError, InvokeResponse};
pub use judge::{Verdict, Why, judge};
pub use logs::{LogLine, LogSink, LogStream, print_logs};
pub use process::process_variables;
pub use start_failure::StartFailure;

use std::time::Duration;

/// Region told to the functions.
pub const REGION: &str = "us-east-1";

/// Account in the ARNs handed out.
pub const ACCOUNT_ID: &str = "000000000000";

/// Most bytes of a synchronous invocation's payload.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
pub const REQUEST_BYTES_MAX: usize = 6 * 1024 * 1024;

/// Most bytes of a synchronous invocation's response: AWS allows 100 bytes over the 6 MB.
pub const RESPONSE_BYTES_MAX: usize = 6 * 1024 * 1024 + 100;

/// Longest init phase, from the start of the process to its first poll.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html>
pub const INIT_TIME_MAX: Duration = Duration::from_secs(10);

/// What Lambda calls an init phase that took longer.
const INIT_TIMED_OUT: &str = "Sandbox.Timedout";

/// Time between SIGTERM and SIGKILL for an environment in which an extension registered.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
