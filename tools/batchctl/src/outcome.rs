//! Prints what a command found: as one JSON object, or as text.

use std::fmt::{self, Display};
use std::io::Write;

use serde::Serialize;

/// How the output is printed.
#[derive(Clone, Copy, Debug)]
pub enum Output {
    Text,
    Json,
    Nothing,
}

/// Writes a line that ends with a value, if there is one.
pub fn line(f: &mut fmt::Formatter<'_>, what: &str, value: Option<impl Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| writeln!(f, "{what}{value}"))
}

impl Output {
    /// Prints `value` as JSON, or `text`.
    pub fn print(self, value: &impl Serialize, text: impl Display) {
        let printed = match self {
            Output::Text => text.to_string(),
            Output::Json => serde_json::to_string_pretty(value).expect("it is plain data") + "\n",
            Output::Nothing => return,
        };
        // A reader that has seen enough, such as `head`, closes the pipe.
        let _ = std::io::stdout().write_all(printed.as_bytes());
    }
}
