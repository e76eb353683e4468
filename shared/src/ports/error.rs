//! Why requests fail.

/// Why a request has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PortError {
    /// The service throttled the request, or was not available. Nothing was written, and a retry may succeed.
    #[error("throttled by {service}: {message}")]
    Throttled {
        service: &'static str,
        /// The code and message of the service.
        message: String,
    },
    /// There was no reply, or one that cannot be read. A write may have been applied, or may still be.
    #[error("no reply from {service}: {message}")]
    Unknown {
        service: &'static str,
        message: String,
    },
    /// The service refused the request: no such table or queue, no permission, an invalid request. Nothing was written,
    /// and a retry would be refused too.
    #[error("refused by {service}: {message}")]
    Refused {
        service: &'static str,
        /// The code and message of the service.
        message: String,
    },
    /// There was no time left to send the request. Nothing was written.
    #[error("deadline reached before the request was sent")]
    DeadlineReached,
}

impl PortError {
    /// Returns the error of a request that `service` throttled.
    pub fn throttled(service: &'static str, message: impl Into<String>) -> PortError {
        let message = message.into();
        PortError::Throttled { service, message }
    }

    /// Returns the error of a request without a reply that can be read.
    pub fn unknown(service: &'static str, message: impl Into<String>) -> PortError {
        let message = message.into();
        PortError::Unknown { service, message }
    }

    /// Returns the error of a request that `service` refused.
    pub fn refused(service: &'static str, message: impl Into<String>) -> PortError {
        let message = message.into();
        PortError::Refused { service, message }
    }

    /// Returns whether the same request may succeed later.
    pub fn retryable(&self) -> bool {
        match self {
            PortError::Throttled { .. } | PortError::Unknown { .. } => true,
            PortError::Refused { .. } | PortError::DeadlineReached => false,
        }
    }
}
