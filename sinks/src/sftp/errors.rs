//! Turns errors of the connection and the server into errors of the sink.

use russh_sftp::client::error::Error;
use russh_sftp::protocol::StatusCode;

use crate::sink::SinkError;

/// Returns the error of a file or directory that the server refused to `attempted`, or that the connection kept from it.
///
/// Only errors that no change on the server can fix are permanent. Servers report a full disk, an exceeded quota and many other
/// problems by the same status, so that one is retryable. A missing permission is retryable as well: the administrator of the server
/// can grant it, and need not know this service.
pub(super) fn sftp_error(uri: &str, attempted: &str, error: &Error) -> SinkError {
    let reason = match error {
        // The message may be in any language and name anything.
        Error::Status(status) => format!(
            "`{uri}`: the server refused to {attempted}: {} «{}»",
            status.status_code, status.error_message
        ),
        other => format!("`{uri}`: no reply from the server to {attempted}: «{other}»"),
    };
    match status(error) {
        // OpenSSH returns `BadMessage` for a name that is too long or has characters that the file system refuses.
        Some(StatusCode::OpUnsupported | StatusCode::BadMessage) => SinkError::Permanent { reason },
        Some(_) | None => SinkError::Retryable { reason },
    }
}

/// Returns the error of a file whose content could not be read or written.
pub(super) fn content_error(uri: &str, attempted: &str, error: &std::io::Error) -> SinkError {
    SinkError::retryable(format!(
        "`{uri}`: cannot {attempted} its content: «{error}»"
    ))
}

/// Returns the status that the server returned; `None` if it returned none.
pub(super) fn status(error: &Error) -> Option<StatusCode> {
    match error {
        Error::Status(status) => Some(status.status_code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use russh_sftp::protocol::Status;

    use super::*;

    fn refused(status_code: StatusCode) -> SinkError {
        let status = Status {
            id: 1,
            status_code,
            error_message: "/in/secret".to_owned(),
            language_tag: String::new(),
        };
        sftp_error("sftp://u@h/in", "make it", &Error::Status(status))
    }

    #[test]
    fn only_an_error_that_no_change_on_the_server_ends_is_permanent() {
        for (code, permanent) in [
            (StatusCode::Failure, false),
            (StatusCode::NoSuchFile, false),
            (StatusCode::PermissionDenied, false),
            (StatusCode::OpUnsupported, true),
            (StatusCode::BadMessage, true),
        ] {
            let error = refused(code);
            assert_eq!(
                matches!(error, SinkError::Permanent { .. }),
                permanent,
                "{error}"
            );
            assert!(error.to_string().contains("«/in/secret»"), "{error}");
        }
        let lost = sftp_error("sftp://u@h/in", "make it", &Error::Timeout);
        assert!(matches!(lost, SinkError::Retryable { .. }), "{lost}");
    }
}
