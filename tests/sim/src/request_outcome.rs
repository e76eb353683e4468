//! The outcome of a request, and the errors that its caller gets.

use shared::ports::PortError;

/// The text of every refusal by a service.
pub const REFUSED: &str = "the simulated service refuses";

/// The text of the refusal of a load that may not be read.
pub const DENIED: &str = "the simulated bucket denies access";

/// The outcome of a request.
pub enum RequestOutcome {
    /// The request is applied, and its reply arrives.
    Answered {
        /// Time until the request is applied.
        apply_ms: u64,
        /// Time from then until the reply arrives.
        reply_ms: u64,
    },
    /// The request is refused with an error that is not retryable.
    Refused {
        /// Time until the caller gets the error.
        after_ms: u64,
    },
    /// The request is throttled.
    Throttled {
        /// Time until the caller gets the error.
        after_ms: u64,
    },
    /// The reply does not arrive.
    Lost {
        /// Time until the request is applied, if it is.
        apply_ms: Option<u64>,
        /// Time until the caller gives up.
        notice_ms: u64,
    },
}

/// Returns the error of a read without permission.
pub fn denied() -> PortError {
    PortError::Refused {
        service: "simulation",
        message: DENIED.to_owned(),
    }
}

/// Returns the error of a refused request.
pub fn refused() -> PortError {
    PortError::Refused {
        service: "simulation",
        message: REFUSED.to_owned(),
    }
}

/// Returns the error of a throttled request.
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
