//! What an invocation comes to, for whoever asked for it.

use std::process::ExitStatus;
use std::time::Duration;

use bytes::Bytes;

/// What the process answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvokeResponse {
    /// The handler's response.
    Ok(Bytes),
    /// The handler returned an error or panicked, or its response was refused; the environment lives on.
    FunctionError {
        /// Stable name of the error.
        error_type: String,
        /// Its text.
        message: String,
    },
}

/// Why an invocation has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvokeError {
    /// The environment did not get as far as its first poll, nor did another one that was started in its place.
    #[error("initialise an environment: {error_type}: {message}")]
    InitFailed {
        /// AWS's name for the kind of failure, or the one the process reported.
        error_type: String,
        /// Its text.
        message: String,
    },
    /// The deadline passed; the environment was killed.
    #[error("finish the invocation within {after:?}")]
    Timeout {
        /// The function's timeout.
        after: Duration,
    },
    /// The process ended during the invocation.
    #[error("finish the invocation: Runtime.ExitError: environment {environment} ended, {}", exit_text(.exit))]
    Crashed {
        /// Number of the environment.
        environment: u32,
        /// How it ended; `None` if that is not known.
        exit: Option<ExitStatus>,
    },
    /// The payload is over the limit and was not sent.
    #[error("send a payload of {size_bytes} bytes, the limit is {limit_bytes}")]
    PayloadTooLarge {
        /// Bytes of the payload.
        size_bytes: usize,
        /// Most bytes allowed.
        limit_bytes: usize,
    },
    /// The function was shut down before or during the invocation.
    #[error("invoke a function that is shut down")]
    ShutDown,
}

fn exit_text(exit: &Option<ExitStatus>) -> String {
    exit.map_or_else(|| "status unknown".to_owned(), |exit| exit.to_string())
}
