//! A Lambda host: bootstrap binaries run as AWS runs them, and an SQS event source mapping that feeds them.
//!
//! What is served is what a bootstrap sees: the Runtime API, the environment variables, cold and warm starts, the
//! deadline with its SIGKILL, the log pipes, and batches cut and judged by the rules of Lambda's mapping.
//!
//! Deliberately absent: freezing idle environments, memory limits (the configured size is only told to the
//! process), throttling, and the scaling ramp of the pollers.
//!
//! The rules live in pure code with tests of their own: [`partial_batch_response()`] for outcomes, [`event`] for the JSON and the 6 MB
//! cut, [`MappingConfig`] for validation. The rest is processes, sockets and clocks.

mod accounting;
mod environment;
mod esm;
mod esm_config;
pub mod event;
mod exchange;
mod faults;
mod function;
mod function_config;
mod gather;
mod ids;
mod invocation;
mod limits;
mod logs;
mod orders;
mod partial_batch_response;
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
pub use function::Function;
pub use function_config::{Bootstrap, FunctionConfig};
pub use invocation::{InvokeError, InvokeResponse};
pub use limits::{
    ACCOUNT_ID, INIT_TIME_MAX, REGION, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX, SHUTDOWN_GRACE,
};
pub use logs::{LogLine, LogSink, LogStream, print_logs};
pub use partial_batch_response::{BatchOutcome, Why, partial_batch_response};
pub use process::process_variables;
pub use start_failure::StartFailure;
