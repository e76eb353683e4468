//! What an error of a service means, in one place.

use std::error::Error;
use std::fmt::Write as _;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::ports::PortError;

/// As [`PortError`] names it.
pub(super) const DYNAMODB: &str = "DynamoDB";
/// As [`PortError`] names it.
pub(super) const SQS: &str = "SQS";
/// As [`PortError`] names it.
pub(super) const S3: &str = "S3";

/// What a service's error code says about the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Not now; nothing was written.
    Throttled,
    /// It may have been written.
    Unknown,
    /// Never; nothing was written.
    Refused,
}

/// Judges the error code of a whole request, of a PartiQL batch's member, or of an SQS batch's entry.
///
/// Sources: botocore `dynamodb`, `sqs` and `s3` service models (2026-08).
pub(super) fn meaning(code: &str, status: Option<u16>) -> Meaning {
    match code.rsplit('.').next().unwrap_or(code) {
        "ThrottlingException"
        | "ThrottlingError"
        | "Throttling"
        | "ProvisionedThroughputExceededException"
        | "ProvisionedThroughputExceeded"
        | "RequestLimitExceeded"
        | "RequestThrottled"
        | "RequestThrottledException"
        | "KmsThrottled"
        | "SlowDown"
        | "TooManyRequestsException" => Meaning::Throttled,
        // Nothing in this system writes these tables by transactions, so whoever does is unknown, and with it what
        // the item will look like afterwards: whoever asked reads it again.
        "TransactionConflict"
        | "TransactionConflictException"
        | "ReplicatedWriteConflictException" => Meaning::Unknown,
        "InternalServerError" | "InternalError" | "InternalFailure" | "ServiceUnavailable" => {
            Meaning::Unknown
        }
        _ => match status {
            Some(429) => Meaning::Throttled,
            Some(408 | 500..) => Meaning::Unknown,
            // It may have been done, and what it says about that cannot be read.
            Some(..400) => Meaning::Unknown,
            Some(_) | None => Meaning::Refused,
        },
    }
}

/// Whether the words of a validation error say that the item is too large for the table.
pub(super) fn is_item_too_large(code: &str, message: &str) -> bool {
    matches!(code, "ValidationException" | "ValidationError") && message.starts_with("Item size")
}

impl Meaning {
    /// The error with this meaning.
    pub(super) fn error(self, service: &'static str, message: String) -> PortError {
        match self {
            Meaning::Throttled => PortError::Throttled { service, message },
            Meaning::Unknown => PortError::Unknown { service, message },
            Meaning::Refused => PortError::Refused { service, message },
        }
    }
}

/// What a failed call means. `what` names the call's object (a table, a queue) in the message.
pub(super) fn port_error<E>(
    service: &'static str,
    what: &str,
    error: &SdkError<E, HttpResponse>,
) -> PortError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let meaning = match error {
        // It never left this process, and would not the next time.
        SdkError::ConstructionFailure(_) => Meaning::Refused,
        SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => {
            Meaning::Unknown
        }
        SdkError::ServiceError(context) => {
            let status = context.raw().status().as_u16();
            let Some(code) = context.err().code() else {
                let words = format!("{what}: HTTP status {status}: {}", chain(error));
                return meaning("", Some(status)).error(service, words);
            };
            let message = context.err().message().unwrap_or("no message");
            if credentials_are_over(code) {
                end_process(service, code, message);
            }
            return meaning(code, Some(status))
                .error(service, format!("{what}: {code}: {message}"));
        }
        // The SDK may add kinds of failure; what is not known is treated as not known.
        _ => Meaning::Unknown,
    };
    meaning.error(service, format!("{what}: {}", chain(error)))
}

/// Whether a code says that the credentials of this process will never be good again. An environment gets its credentials
/// once, at its start, and may outlive them.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html> and
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html> (2026-08).
fn credentials_are_over(code: &str) -> bool {
    let code = code.rsplit(['.', '#']).next().unwrap_or(code);
    matches!(
        code,
        "ExpiredTokenException"
            | "ExpiredToken"
            | "UnrecognizedClientException"
            | "InvalidClientTokenId"
    )
}

/// Ends the process, so that Lambda starts another one with new credentials. What this one was invoked with comes back
/// after the visibility timeout, and meets whatever was written of it.
fn end_process(service: &str, code: &str, message: &str) -> ! {
    tracing::error!(
        service,
        code,
        message,
        "credentials are over: the process ends itself"
    );
    std::process::exit(1)
}

/// An error and its causes, each said once.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            // Writing to a string cannot fail.
            let _ = write!(text, ": {words}");
        }
        cause = error.source();
    }
    text
}

/// The same error once more: every item of a failed request gets it.
pub(super) fn repeated(error: &PortError) -> PortError {
    match error {
        PortError::Throttled { service, message } => PortError::Throttled {
            service,
            message: message.clone(),
        },
        PortError::Unknown { service, message } => PortError::Unknown {
            service,
            message: message.clone(),
        },
        PortError::Refused { service, message } => PortError::Refused {
            service,
            message: message.clone(),
        },
        PortError::DeadlineReached => PortError::DeadlineReached,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_throttle_says_that_a_later_attempt_helps_and_nothing_was_written() {
        for code in [
            "ThrottlingError",
            "ProvisionedThroughputExceededException",
            "RequestLimitExceeded",
        ] {
            assert_eq!(meaning(code, Some(400)), Meaning::Throttled, "{code}");
        }
        assert_eq!(meaning("", Some(429)), Meaning::Throttled);
        assert_eq!(
            meaning("AWS.SimpleQueueService.RequestThrottled", Some(400)),
            Meaning::Throttled
        );
    }

    #[test]
    fn a_server_error_leaves_open_whether_it_was_written() {
        assert_eq!(meaning("InternalServerError", Some(500)), Meaning::Unknown);
        assert_eq!(meaning("TransactionConflict", None), Meaning::Unknown);
        assert_eq!(meaning("", Some(503)), Meaning::Unknown);
    }

    #[test]
    fn only_what_new_credentials_would_mend_ends_the_process() {
        for code in [
            "ExpiredTokenException",
            "com.amazon.coral.service#UnrecognizedClientException",
            "ExpiredToken",
        ] {
            assert!(credentials_are_over(code), "{code}");
        }
        for code in [
            "AccessDeniedException",
            "ThrottlingException",
            "InvalidSignatureException",
        ] {
            assert!(!credentials_are_over(code), "{code}");
        }
    }

    #[test]
    fn anything_else_a_service_says_is_final() {
        assert_eq!(
            meaning("ResourceNotFoundException", Some(400)),
            Meaning::Refused
        );
        assert_eq!(
            meaning("AccessDeniedException", Some(400)),
            Meaning::Refused
        );
        assert_eq!(meaning("ValidationError", None), Meaning::Refused);
        assert_eq!(
            meaning("AWS.SimpleQueueService.NonExistentQueue", Some(400)),
            Meaning::Refused
        );
    }
}
