//! The error of looks at a stack.

use aws_sdk_sqs::error::{DisplayErrorContext, SdkError};

/// Why a stack cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("{what} `{name}`: {message}")]
pub struct WatchError {
    what: &'static str,
    name: String,
    message: String,
}

impl WatchError {
    pub(crate) fn request<E, R>(
        what: &'static str,
        name: &str,
        error: &SdkError<E, R>,
    ) -> WatchError
    where
        E: std::error::Error + 'static,
        R: std::fmt::Debug,
    {
        WatchError {
            what,
            name: name.to_owned(),
            message: DisplayErrorContext(error).to_string(),
        }
    }
}
