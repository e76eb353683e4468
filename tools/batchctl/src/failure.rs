//! Why a command did not do what it was asked to, and the exit code for scripts.

use std::path::Path;
use std::process::ExitCode;

use protocol::batch::BatchRecord;
use protocol::ids::{BatchId, IdError};
use shared::ports::PortError;
use stack::{OpenError, SettingsError};

use crate::interrupt::Signal;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A service refused a request, or could not be reached.
    #[error(transparent)]
    Service(#[from] PortError),
    /// SQS refused a request, or could not be reached.
    #[error("queue `{queue}`: {message}")]
    Queue { queue: String, message: String },
    /// A sink did not take a part.
    #[error("{0}")]
    Sink(String),
    /// Some of several changes failed; each failure was printed.
    #[error("{failed} of {all} failed")]
    Some { failed: usize, all: usize },
    /// A file cannot be written or read.
    #[error("`{path}`: {source}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// A configuration file has problems; each was printed.
    #[error("`{file}`: {problems}")]
    Config { file: String, problems: String },
    /// The system refuses handlers of signals.
    #[error("signals: {0}")]
    Signals(#[source] std::io::Error),
    /// A second signal came while this was under way.
    #[error("given up: it may have been done")]
    GivenUp,
    /// There is no connection to the stack.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The stack does not say what the command needs.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Options that do not go together, or an id that is none.
    #[error("{0}")]
    Usage(String),
    /// What the command is about does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The state of a batch or an event does not allow the change, or it changed meanwhile. Nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// A batch changed since it was read. Nothing was changed by this command.
    #[error("{message}")]
    Changed {
        message: String,
        /// The batch as it is now.
        record: Box<BatchRecord>,
    },
}

impl From<IdError> for Failure {
    fn from(error: IdError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Yes,
    /// What was asked for does not exist; the output says so.
    NotFound,
    /// The command only showed what it would do, because `--yes` was not given.
    OnlyShown,
    /// A signal ended the command; the output says how far it got.
    Stopped(Signal),
}

/// Exit code of a command that did what it was asked to.
const OK: u8 = 0;
const FAILED: u8 = 1;
const USAGE: u8 = 2;
const NOT_FOUND: u8 = 3;
const ONLY_SHOWN: u8 = 4;
const REFUSED: u8 = 5;

impl Failure {
    /// Returns the failure to find a batch.
    pub fn no_batch(id: BatchId) -> Failure {
        Failure::NotFound(format!("batch `{id}`: not found"))
    }

    /// Returns the failure to read or write a file.
    pub fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
        let path = path.display().to_string();
        move |source| Failure::File { path, source }
    }

    fn code(&self) -> u8 {
        match self {
            Failure::Service(_)
            | Failure::Queue { .. }
            | Failure::Sink(_)
            | Failure::Some { .. }
            | Failure::File { .. }
            | Failure::Config { .. }
            | Failure::Signals(_)
            | Failure::GivenUp => FAILED,
            Failure::Open(error) if !error.is_usage() => FAILED,
            Failure::Open(_) | Failure::Settings(_) | Failure::Usage(_) => USAGE,
            Failure::NotFound(_) => NOT_FOUND,
            Failure::Refused(_) | Failure::Changed { .. } => REFUSED,
        }
    }
}

/// Prints the error of a command, if there is one, and returns its exit code.
pub fn exit_code(result: Result<Done, Failure>) -> ExitCode {
    ExitCode::from(match result {
        Ok(Done::Yes) => OK,
        Ok(Done::NotFound) => NOT_FOUND,
        Ok(Done::OnlyShown) => ONLY_SHOWN,
        Ok(Done::Stopped(signal)) => signal as u8,
        Err(failure) => {
            eprintln!("batchctl: {failure}");
            failure.code()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_has_its_exit_code() {
        let text = || "text".to_owned();
        for (failure, code) in [
            (Failure::Service(PortError::DeadlineReached), 1),
            (Failure::Some { failed: 1, all: 2 }, 1),
            (Failure::Usage(text()), 2),
            (Failure::NotFound(text()), 3),
            (Failure::Refused(text()), 5),
        ] {
            assert_eq!(failure.code(), code, "{failure}");
        }
    }
}
