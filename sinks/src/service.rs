use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use shared::aws::chain;

use crate::sink::SinkError;

/// Only the service's own answer has a status that says something about the call.
pub(crate) fn status<E>(error: &SdkError<E, HttpResponse>) -> Option<u16> {
    match error {
        SdkError::ServiceError(context) => Some(context.raw().status().as_u16()),
        _ => None,
    }
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What was called, and what became of it.
    pub(crate) reason: String,
    /// Whether the same call may succeed later.
    pub(crate) may_pass: bool,
}

impl From<Failure> for SinkError {
    fn from(Failure { reason, may_pass }: Failure) -> SinkError {
        match may_pass {
            true => SinkError::Retryable { reason },
            false => SinkError::Permanent { reason },
        }
    }
}

/// What a failed call means for the part, as [`failure`] judges it.
pub(crate) fn told<E>(
    what: &str,
    error: &SdkError<E, HttpResponse>,
    may_pass: fn(Option<&str>, Option<u16>) -> bool,
) -> SinkError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    failure(what, error, may_pass).into()
}

/// What a failed call means: `what` was called, and `may_pass` judges the service's own answers by their code and status.
pub(crate) fn failure<E>(
    what: &str,
    error: &SdkError<E, HttpResponse>,
    may_pass: fn(Option<&str>, Option<u16>) -> bool,
) -> Failure
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
        // It never left this process, and would not the next time.
        SdkError::ConstructionFailure(_) => false,
        SdkError::ServiceError(_) => may_pass(code, status),
        // Everything else, the kinds that the SDK may add included.
        _ => true,
    };
    Failure { reason, may_pass }
}

/// Whether an answer is of this moment, this load or these credentials, whichever JSON service gave it.
/// Source: <https://docs.aws.amazon.com/lambda/latest/api/CommonErrors.html> (2026-11).
#[cfg(any(feature = "lambda", feature = "states"))]
pub(crate) fn is_of_the_moment(code: Option<&str>, status: Option<u16>) -> bool {
    match code {
        // Statuses of 400 and 403.
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
