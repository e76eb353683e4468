//! Failed cold starts, and whether two of them failed in the same way.

use std::fmt;
use std::process::ExitStatus;

use super::runtime_state::Diagnostic;

/// How a cold start failed: the process ended or was ended before its first poll. `Display` has the status and the message.
#[derive(Clone, Debug)]
pub struct StartFailure {
    /// Exit status of the process, or the error type that was reported.
    status: String,
    /// The last line that the process logged, or the error message that was reported.
    message: String,
}

impl StartFailure {
    pub(super) fn new(
        diagnostic: &Diagnostic,
        exit: Option<ExitStatus>,
        last_log_line: String,
    ) -> StartFailure {
        match exit {
            Some(exit) if diagnostic.error_type == "Runtime.ExitError" => StartFailure {
                status: exit.to_string(),
                message: last_log_line,
            },
            // The host killed the process after the error was reported, so the exit status tells nothing.
            Some(_) | None => StartFailure {
                status: diagnostic.error_type.clone(),
                message: diagnostic.error_message.clone(),
            },
        }
    }

    /// Returns whether both failed in the same way. Digits in the messages are ignored, because ports, process ids and times
    /// differ.
    pub(super) fn is_like(&self, other: &StartFailure) -> bool {
        let without_digits = |failure: &StartFailure| -> Vec<String> {
            let parts = failure.message.split(|c: char| c.is_ascii_digit());
            let parts = parts.filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        self.status == other.status && without_digits(self) == without_digits(other)
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = match self.message.as_str() {
            "" => "the process logged nothing",
            message => message,
        };
        write!(f, "{}: {message}", self.status)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn exited(code: i32, message: &str) -> StartFailure {
        let diagnostic = Diagnostic::new("Runtime.ExitError", "the process ended");
        let exit = ExitStatus::from_raw(code << 8);
        StartFailure::new(&diagnostic, Some(exit), message.to_owned())
    }

    #[test]
    fn failures_are_alike_if_status_and_message_are_equal_without_digits() {
        let first = exited(3, "no table `a` at port 4711");
        assert!(first.is_like(&exited(3, "no table `a` at port 815")));
        assert!(!first.is_like(&exited(4, "no table `a` at port 4711")));
        assert!(!first.is_like(&exited(3, "no table `b` at port 4711")));
    }

    #[test]
    fn a_failure_shows_the_last_line_of_the_process_or_the_reported_error() {
        let shown = |message| exited(3, message).to_string();
        assert_eq!(shown("no table"), "exit status: 3: no table");
        assert_eq!(shown(""), "exit status: 3: the process logged nothing");
        let reported = Diagnostic::new("Echo.Config", "no table");
        let killed = Some(ExitStatus::from_raw(9));
        let failure = StartFailure::new(&reported, killed, "other words".to_owned());
        assert_eq!(failure.to_string(), "Echo.Config: no table");
    }
}
