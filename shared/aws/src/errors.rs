//! Maps the errors of services to [`PortError`].

use std::error::Error;
use std::fmt::Write as _;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use shared::ports::PortError;

pub(crate) const DYNAMODB: &str = "DynamoDB";
pub(crate) const SQS: &str = "SQS";
pub(crate) const S3: &str = "S3";
#[cfg(feature = "full")]
pub(crate) const EVENTBRIDGE: &str = "EventBridge";

/// The meaning of a service's error code for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Nothing was written, and a retry may succeed.
    Throttled,
    /// The write may have been applied.
    Unknown,
    /// Nothing was written, and a retry would fail too.
    Refused,
}

/// Returns the meaning of the error code of a request, of a statement of a PartiQL batch, or of an entry of an SQS
/// batch.
///
/// Sources: botocore `dynamodb`, `sqs` and `s3` service models (2026-08).
pub(crate) fn meaning(code: &str, status: Option<u16>) -> Meaning {
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
        // This program writes no transactions, so another program does, and the state of the item after it is unknown.
        // The caller reads the item again.
        "TransactionConflict"
        | "TransactionConflictException"
        | "ReplicatedWriteConflictException" => Meaning::Unknown,
        "InternalServerError"
        | "InternalError"
        | "InternalException"
        | "InternalFailure"
        | "ServiceUnavailable" => Meaning::Unknown,
        // The bucket is in another region.
        "PermanentRedirect" => Meaning::Refused,
        _ => match status {
            Some(429) => Meaning::Throttled,
            Some(408 | 500..) => Meaning::Unknown,
            // The request may have succeeded with a reply that the SDK cannot read.
            Some(..400) => Meaning::Unknown,
            Some(_) | None => Meaning::Refused,
        },
    }
}

/// Returns whether a validation error says that the item is too large for the table.
pub(crate) fn is_item_too_large(code: &str, message: &str) -> bool {
    matches!(code, "ValidationException" | "ValidationError") && message.starts_with("Item size")
}

impl Meaning {
    /// Returns the [`PortError`] with this meaning.
    pub(crate) fn error(self, service: &'static str, message: String) -> PortError {
        match self {
            Meaning::Throttled => PortError::Throttled { service, message },
            Meaning::Unknown => PortError::Unknown { service, message },
            Meaning::Refused => PortError::Refused { service, message },
        }
    }
}

/// Returns whether a conditional write was applied; `false` if its condition did not hold.
pub(crate) fn applied<T, E: ProvideErrorMetadata + Error + 'static>(
    table: &str,
    sent: Result<T, SdkError<E, HttpResponse>>,
) -> Result<bool, PortError> {
    match sent {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(false),
        Err(error) => Err(port_error(DYNAMODB, table, &error)),
    }
}

/// Returns the [`PortError`] of a failed request. `what` is the table, queue or object in the message. If the credentials have
/// expired, the process ends.
pub(crate) fn port_error<E: ProvideErrorMetadata + Error + 'static>(
    service: &'static str,
    what: &str,
    error: &SdkError<E, HttpResponse>,
) -> PortError {
    if let SdkError::ServiceError(context) = error
        && let Some(code) = context
            .err()
            .code()
            .filter(|code| credentials_have_expired(code))
    {
        let message = context.err().message().unwrap_or("no message");
        end_process(service, code, message);
    }
    target_error(service, what, error)
}

/// As [`port_error`], and never ends the process: a target of notices may be in another region or partition, which answers valid
/// credentials as if they had expired. If they have, the next request to a table shows it.
pub(crate) fn target_error<E: ProvideErrorMetadata + Error + 'static>(
    service: &'static str,
    what: &str,
    error: &SdkError<E, HttpResponse>,
) -> PortError {
    let meaning = match error {
        // The SDK could not build the request, and a retry would fail too.
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
            return meaning(code, Some(status))
                .error(service, format!("{what}: {code}: {message}"));
        }
        // A kind of failure that a later version of the SDK may add.
        _ => Meaning::Unknown,
    };
    meaning.error(service, format!("{what}: {}", chain(error)))
}

/// Returns whether a code says that the credentials of this process are no longer valid. An environment gets its
/// credentials once, at its start, and may live longer than they do.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html> and
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html> (2026-08).
fn credentials_have_expired(code: &str) -> bool {
    let code = code.rsplit(['.', '#']).next().unwrap_or(code);
    matches!(
        code,
        "ExpiredTokenException"
            | "ExpiredToken"
            | "UnrecognizedClientException"
            | "InvalidClientTokenId"
    )
}

/// Ends the process, so that Lambda starts another one with new credentials. The messages of the present invocation
/// come back after the visibility timeout, and meet the claims that were written.
fn end_process(service: &str, code: &str, message: &str) -> ! {
    tracing::error!(
        service,
        code,
        message,
        "credentials have expired: this process ends, so that Lambda starts another one"
    );
    std::process::exit(1)
}

/// Returns the messages of an error and its causes, without repeating one that its error already ends with.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_what_a_failure_means_and_a_status_does_without_one() {
        use Meaning::{Refused, Throttled, Unknown};

        // The status 0 is none.
        for (code, status, expected) in [
            ("ThrottlingError", 400, Throttled),
            ("ProvisionedThroughputExceededException", 400, Throttled),
            ("RequestLimitExceeded", 400, Throttled),
            ("AWS.SimpleQueueService.RequestThrottled", 400, Throttled),
            ("", 429, Throttled),
            // After a server error, a write may have been applied.
            ("InternalServerError", 500, Unknown),
            ("TransactionConflict", 0, Unknown),
            ("", 503, Unknown),
            // Any other error is a refusal.
            ("ResourceNotFoundException", 400, Refused),
            ("AccessDeniedException", 400, Refused),
            ("ValidationError", 0, Refused),
            ("PermanentRedirect", 301, Refused),
            ("AWS.SimpleQueueService.NonExistentQueue", 400, Refused),
        ] {
            let status = Some(status).filter(|status| *status > 0);
            assert_eq!(meaning(code, status), expected, "{code}");
        }
    }

    #[test]
    fn only_expired_credentials_end_the_process() {
        for code in [
            "ExpiredTokenException",
            "com.amazon.coral.service#UnrecognizedClientException",
            "ExpiredToken",
        ] {
            assert!(credentials_have_expired(code), "{code}");
        }
        for code in [
            "AccessDeniedException",
            "ThrottlingException",
            "InvalidSignatureException",
        ] {
            assert!(!credentials_have_expired(code), "{code}");
        }
    }
}
