//! A Lambda host that runs bootstrap executables as AWS does, an event source mapping that invokes a function with batches
//! from an SQS queue, and a schedule that invokes one from time to time.
//!
//! A bootstrap sees what it sees on Lambda: the Runtime API, the environment variables, cold and warm starts, the deadline
//! with its SIGKILL, and the log pipes. The mapping forms batches and reads responses by Lambda's rules.
//!
//! Deliberately absent: freezing idle environments, memory limits (the process only gets the configured size), throttling,
//! and the slow start of the mapping's pollers.
//!
//! The rules are pure functions with their own tests: [`partial_batch_response()`] decides which records are deleted,
//! `event` writes the JSON and enforces the 6 MB limit, and [`MappingConfig`] is validated.

mod batcher;
mod end_command;
mod environment;
mod event;
mod event_source_mapping;
mod faults;
mod function;
mod function_config;
mod ids;
mod invocation;
mod limits;
mod logs;
mod mapping_config;
mod partial_batch_response;
mod pool;
mod process;
mod runtime_api;
mod runtime_state;
mod schedule;
mod start_failure;
mod stats;

pub use event_source_mapping::EventSourceMapping;
pub use faults::EnvironmentFaults;
pub use function::Function;
pub use function_config::{Bootstrap, FunctionConfig};
pub use invocation::{InvokeError, InvokeResponse};
pub use limits::{
    ACCOUNT_ID, INIT_TIME_MAX, REGION, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX, SHUTDOWN_GRACE,
};
pub use logs::{LogLine, LogSink, LogStream, print_logs};
pub use mapping_config::{MAPPING_CONCURRENCY, MappingConfig, MappingError, MappingProblem};
pub use partial_batch_response::{BatchOutcome, OutcomeReason, partial_batch_response};
pub use process::process_variables;
pub use schedule::Schedule;
pub use start_failure::StartFailure;
pub use stats::{
    CpuTime, EnvironmentState, EnvironmentStatus, FunctionStats, MappingRequests, MappingStats,
};
