//! Prints what a command found: as one JSON object, or as text.

use std::fmt::Display;
use std::io::Write;

use serde::Serialize;

/// How the output is printed.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub json: bool,
    /// Print nothing.
    pub quiet: bool,
}

impl Output {
    /// Prints `value` as JSON, or `text`.
    pub fn print(self, value: &impl Serialize, text: impl Display) {
        if self.quiet {
            return;
        }
        let printed = match self.json {
            true => serde_json::to_string_pretty(value).expect("it is plain data") + "\n",
            false => text.to_string(),
        };
        // A reader that has seen enough, such as `head`, closes the pipe.
        let _ = std::io::stdout().write_all(printed.as_bytes());
    }
}
