use aws::chain;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use crate::sink::SinkError;

/// Returns the HTTP status if the service itself replied; other errors have none that says something about the call.
pub(crate) fn status<E>(error: &SdkError<E, HttpResponse>) -> Option<u16> {
    match error {
        SdkError::ServiceError(context) => Some(context.raw().status().as_u16()),
        _ => None,
    }
}

/// Returns the error of a sink whose call to `what` failed. `may_pass` decides from the code and the status of the service's error
/// whether a retry may succeed.
pub(crate) fn call_failed<E>(
    what: &str,
    error: &SdkError<E, HttpResponse>,
    may_pass: fn(Option<&str>, Option<u16>) -> bool,
) -> SinkError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let code = error.code();
    let words = match (code, error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => chain(error),
    };
    let status = status(error);
    let reason = match status {
        Some(status) => format!("`{what}`: HTTP status {status}: {words}"),
        None => format!("`{what}`: {words}"),
    };
    let may_pass = match error {
        // The request could not be built, and a retry would build the same one.
        SdkError::ConstructionFailure(_) => false,
        SdkError::ServiceError(_) => may_pass(code, status),
        // Timeouts, connections, unreadable responses, and kinds that a later SDK may add.
        _ => true,
    };
    match may_pass {
        true => SinkError::Retryable { reason },
        false => SinkError::Permanent { reason },
    }
}

/// Returns whether an error of an AWS JSON service is transient: throttling, expired credentials, or a server error.
/// Source: <https://docs.aws.amazon.com/lambda/latest/api/CommonErrors.html> (2026-11).
pub(crate) fn is_transient(code: Option<&str>, status: Option<u16>) -> bool {
    match code {
        // These come with the status 400 or 403.
        Some(
            "ThrottlingException"
            | "KMSThrottlingException"
            | "KmsThrottlingException"
            | "ExpiredTokenException"
            | "RequestExpired",
        ) => true,
        Some(_) | None => matches!(status, Some(408 | 429 | 500..)),
    }
}
