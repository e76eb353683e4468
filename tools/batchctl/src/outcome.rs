//! Prints what a command found: as one JSON object, or as text. Another program that runs the command keeps both instead.

use std::fmt::{self, Display};
use std::io::Write;
use std::sync::Mutex;

use serde::Serialize;
use serde_json::Value;
use shared::locked::locked;

/// How the output is printed.
#[derive(Clone, Copy, Debug)]
pub enum Output<'a> {
    Text,
    Json,
    Nothing,
    /// It is kept, and not printed.
    Kept(&'a Kept),
}

/// What commands would have printed. Another thread may read it while a command runs.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    text: String,
    value: Option<Value>,
    told: Vec<String>,
    progress: Option<String>,
}

/// Writes a line that ends with a value, if there is one.
pub fn line(f: &mut fmt::Formatter<'_>, what: &str, value: Option<impl Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| writeln!(f, "{what}{value}"))
}

impl Output<'_> {
    /// Prints `value` as JSON, or `text`; or keeps both.
    pub fn print(self, value: &impl Serialize, text: impl Display) {
        let printed = match self {
            Output::Text => text.to_string(),
            Output::Json => serde_json::to_string_pretty(value).expect("it is plain data") + "\n",
            Output::Nothing => return,
            Output::Kept(kept) => {
                let value = serde_json::to_value(value).expect("it is plain data");
                return kept.add(value, &text.to_string());
            }
        };
        // A reader that has seen enough, such as `head`, closes the pipe.
        let _ = std::io::stdout().write_all(printed.as_bytes());
    }

    /// Tells a line that is no part of what the command found, on standard error; or keeps it.
    pub fn tell(self, line: &str) {
        match self {
            Output::Text | Output::Json | Output::Nothing => eprintln!("{line}"),
            Output::Kept(kept) => locked(&kept.0).told.push(line.to_owned()),
        }
    }
}

impl Kept {
    fn add(&self, value: Value, text: &str) {
        let mut contents = locked(&self.0);
        contents.text += text;
        contents.value = Some(value);
    }

    /// Returns everything that was printed, as text.
    pub fn text(&self) -> String {
        locked(&self.0).text.clone()
    }

    /// Returns what was printed last, as JSON; `None` if nothing was.
    pub fn value(&self) -> Option<Value> {
        locked(&self.0).value.clone()
    }

    /// Returns the lines that were told beside it.
    pub fn told(&self) -> Vec<String> {
        locked(&self.0).told.clone()
    }

    /// Returns how far the command is; `None` if it does not say so, or has ended.
    pub fn progress(&self) -> Option<String> {
        locked(&self.0).progress.clone()
    }

    /// Replaces the line that says how far the command is.
    pub(crate) fn set_progress(&self, line: Option<String>) {
        locked(&self.0).progress = line;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_text_is_kept_and_the_last_value() {
        let kept = Kept::default();
        assert_eq!((kept.text(), kept.value()), (String::new(), None));
        let output = Output::Kept(&kept);
        output.print(&json!({"a": 1}), "one\n");
        output.print(&json!({"a": 2}), "two\n");
        assert_eq!(kept.text(), "one\ntwo\n");
        assert_eq!(kept.value(), Some(json!({"a": 2})));
    }

    #[test]
    fn a_line_that_is_told_is_kept_beside_the_text() {
        let kept = Kept::default();
        Output::Kept(&kept).tell("left out");
        assert_eq!(kept.told(), ["left out"]);
        assert_eq!((kept.text(), kept.value()), (String::new(), None));
    }
}
