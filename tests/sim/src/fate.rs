//! What becomes of a request, and what its caller is told.

use shared::ports::PortError;

/// What stands in every refusal of a service.
pub const REFUSED: &str = "the simulated service refuses";

/// What becomes of a request.
pub enum Fate {
    /// Applied, then answered.
    Answered {
        /// Until it is applied.
        apply_ms: u64,
        /// From then on until its reply is there.
        reply_ms: u64,
    },
    /// Refused for good, as it seems.
    Refused {
        /// Until that is known.
        after_ms: u64,
    },
    /// Refused for now.
    Throttled {
        /// Until that is known.
        after_ms: u64,
    },
    /// No reply.
    Lost {
        /// Until it is applied, if it is at all.
        apply_ms: Option<u64>,
        /// Until the caller gives it up.
        notice_ms: u64,
    },
}

/// "Never".
pub fn refused() -> PortError {
    PortError::Refused {
        service: "simulation",
        message: REFUSED.to_owned(),
    }
}

/// "Not now".
pub fn throttled() -> PortError {
    PortError::Throttled {
        service: "simulation",
        message: "throttled".to_owned(),
    }
}

/// No reply.
pub fn unanswered() -> PortError {
    PortError::Unknown {
        service: "simulation",
        message: "no reply".to_owned(),
    }
}
