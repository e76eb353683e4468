//! The outcome of a request, and the errors that its caller gets.

use shared::ports::PortError;

/// The text of every refusal by a service.
pub const REFUSED: &str = "the simulated service refuses";

/// The text of the refusal of a load that may not be read.
pub const DENIED: &str = "the simulated bucket denies access";

/// Makes an error, for each member of a request.
pub type MakeError = fn() -> PortError;

pub enum RequestOutcome {
    /// The request is applied, and its reply arrives.
    Answered {
        /// Time until the request is applied.
        apply_ms: u64,
        /// Time from then until the reply arrives.
        reply_ms: u64,
    },
    /// The caller gets an error.
    Failed {
        /// Time until the request is applied, if it is.
        apply_ms: Option<u64>,
        /// Time until the caller gets the error.
        after_ms: u64,
        error: MakeError,
    },
}

impl RequestOutcome {
    /// Returns the outcome of a request that is not applied.
    pub fn rejected(after_ms: u64, error: MakeError) -> RequestOutcome {
        RequestOutcome::Failed {
            apply_ms: None,
            after_ms,
            error,
        }
    }

    /// Returns the outcome of a request whose reply does not arrive.
    pub fn lost(apply_ms: Option<u64>, after_ms: u64) -> RequestOutcome {
        RequestOutcome::Failed {
            apply_ms,
            after_ms,
            error: unanswered,
        }
    }
}

/// Returns the error of a read without permission.
pub fn denied() -> PortError {
    PortError::Refused {
        service: "simulation",
        message: DENIED.to_owned(),
    }
}

pub fn refused() -> PortError {
    PortError::Refused {
        service: "simulation",
        message: REFUSED.to_owned(),
    }
}

pub fn throttled() -> PortError {
    PortError::Throttled {
        service: "simulation",
        message: "throttled".to_owned(),
    }
}

/// Returns the error of a request without a reply.
pub fn unanswered() -> PortError {
    PortError::Unknown {
        service: "simulation",
        message: "no reply".to_owned(),
    }
}
