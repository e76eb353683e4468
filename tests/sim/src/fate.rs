//! The fate of a request, and the errors that its caller gets.

use shared::ports::PortError;

/// The text of every refusal by a service.
pub const REFUSED: &str = "the simulated service refuses";

/// The fate of a request.
pub enum Fate {
    /// Applied, and its reply arrives.
    Answered {
        /// Until it is applied.
        apply_ms: u64,
        /// From then on until its reply arrives.
        reply_ms: u64,
    },
    /// Refused with an error that is not retryable.
    Refused {
        /// Until the caller gets the error.
        after_ms: u64,
    },
    /// Throttled.
    Throttled {
        /// Until the caller gets the error.
        after_ms: u64,
    },
    /// The reply does not arrive.
    Lost {
        /// Until it is applied, if it is at all.
        apply_ms: Option<u64>,
        /// Until the caller gives up.
        notice_ms: u64,
    },
}

/// The error of a refused request.
pub fn refused() -> PortError {
    PortError::Refused {
        service: "simulation",
        message: REFUSED.to_owned(),
    }
}

/// The error of a throttled request.
pub fn throttled() -> PortError {
    PortError::Throttled {
        service: "simulation",
        message: "throttled".to_owned(),
    }
}

/// The error of a request without a reply.
pub fn unanswered() -> PortError {
    PortError::Unknown {
        service: "simulation",
        message: "no reply".to_owned(),
    }
}
