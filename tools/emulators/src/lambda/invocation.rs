//! Results of an invocation, as its caller sees them.

use std::process::ExitStatus;
use std::time::Duration;

use bytes::Bytes;

/// The response of the process to an invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvokeResponse {
    /// The payload that the handler returned.
    Ok(Bytes),
    /// The handler returned an error or panicked, or its payload was refused. The environment stays in use.
    FunctionError {
        /// Type of the error, as the runtime reported it.
        error_type: String,
        /// Text of the error.
        message: String,
    },
}

/// Why an invocation has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvokeError {
    /// The environment did not initialise, and neither did a second one where Lambda starts a second one.
    #[error("initialise an environment: {error_type}: {message}")]
    InitFailed {
        /// Type of the error: AWS's, or the one that the process reported.
        error_type: String,
        /// Text of the error.
        message: String,
    },
    /// The invocation reached its deadline, and the environment was killed.
    #[error("finish the invocation within {after:?}")]
    Timeout {
        /// The function's timeout.
        after: Duration,
    },
    /// The process exited during the invocation.
    #[error("finish the invocation: Runtime.ExitError: environment {environment} ended, {}", exit_text(.exit))]
    Crashed {
        /// Number of the environment.
        environment: u32,
        /// Exit status of the process; `None` if it is not known.
        exit: Option<ExitStatus>,
    },
    /// The payload is over the limit and was not sent.
    #[error("send the payload: got {size_bytes} bytes, expected at most {limit_bytes}")]
    PayloadTooLarge {
        /// Size of the payload.
        size_bytes: usize,
        /// Largest size allowed.
        limit_bytes: usize,
    },
    /// The function was shut down before or during the invocation.
    #[error("invoke a function that is shut down")]
    ShutDown,
}

fn exit_text(exit: &Option<ExitStatus>) -> String {
    exit.map_or_else(|| "status unknown".to_owned(), |exit| exit.to_string())
}
