//! Cold starts that fail, and whether one fails as the one before it did.

use std::fmt;
use std::process::ExitStatus;

use super::exchange::Diagnostic;

/// How an environment ended that never polled.
#[derive(Clone, Debug)]
pub struct StartFailure {
    /// How the process ended, or what it was reported as.
    status: String,
    /// What it said last.
    words: String,
}

impl StartFailure {
    pub(super) fn new(
        diagnostic: &Diagnostic,
        exit: Option<ExitStatus>,
        said: String,
    ) -> StartFailure {
        match exit {
            Some(exit) if diagnostic.error_type == "Runtime.ExitError" => StartFailure {
                status: exit.to_string(),
                words: said,
            },
            // What was reported of a process that was then killed.
            Some(_) | None => StartFailure {
                status: diagnostic.error_type.clone(),
                words: diagnostic.error_message.clone(),
            },
        }
    }

    /// Whether it is the same failure once more. Numbers may differ: ports, process ids and times do.
    pub(super) fn is_like(&self, other: &StartFailure) -> bool {
        let words = |failure: &StartFailure| -> Vec<String> {
            let parts = failure.words.split(|letter: char| letter.is_ascii_digit());
            parts
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect()
        };
        self.status == other.status && words(self) == words(other)
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.words.as_str() {
            "" => "it said nothing",
            words => words,
        };
        write!(f, "{}: {words}", self.status)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn exited(code: i32, words: &str) -> StartFailure {
        let diagnostic = Diagnostic::new("Runtime.ExitError", "the process ended");
        let exit = ExitStatus::from_raw(code << 8);
        StartFailure::new(&diagnostic, Some(exit), words.to_owned())
    }

    #[test]
    fn failures_are_alike_by_status_and_words_whatever_the_numbers_in_them() {
        let first = exited(3, "no table `a` at port 4711");
        assert!(first.is_like(&exited(3, "no table `a` at port 815")));
        assert!(!first.is_like(&exited(4, "no table `a` at port 4711")));
        assert!(!first.is_like(&exited(3, "no table `b` at port 4711")));
    }

    #[test]
    fn a_failure_is_told_in_the_words_of_the_process_or_in_what_was_reported() {
        assert_eq!(
            exited(3, "no table").to_string(),
            "exit status: 3: no table"
        );
        assert_eq!(exited(3, "").to_string(), "exit status: 3: it said nothing");
        let reported = Diagnostic::new("Echo.Config", "no table");
        let killed = Some(ExitStatus::from_raw(9));
        let failure = StartFailure::new(&reported, killed, "other words".to_owned());
        assert_eq!(failure.to_string(), "Echo.Config: no table");
    }
}
