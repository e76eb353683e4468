//! Reads the functions' logs: adds up their metrics, counts the tickets given back, and shows the other lines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use emulators::lambda::{LogLine, LogSink};
use serde_json::Value;

use crate::given_back::GivenBack;
use crate::locked::locked;

/// The sums of the metrics of all environments, by name, and the tickets that were given back.
#[derive(Clone, Debug, Default)]
pub struct FunctionLogs(Arc<Mutex<Totals>>);

#[derive(Debug, Default)]
struct Totals {
    sums: BTreeMap<String, f64>,
    given_back: GivenBack,
}

impl FunctionLogs {
    /// Returns a sink that reads every log line, and prints those that are not metrics: all of them, or only warnings and
    /// errors.
    pub fn sink(&self, all: bool) -> LogSink {
        let function_logs = self.clone();
        Arc::new(move |line: &LogLine| {
            if !function_logs.read_log_line(&line.text) && (all || worth_showing(&line.text)) {
                eprintln!("{line}");
            }
        })
    }

    /// Returns the sum of a metric; 0 if no line had it.
    pub fn sum(&self, name: &str) -> u64 {
        locked(&self.0).sums.get(name).copied().unwrap_or_default() as u64
    }

    /// Returns the tickets that were given back so far.
    pub fn given_back(&self) -> GivenBack {
        locked(&self.0).given_back.clone()
    }

    /// Reads a log line. Returns whether it has metrics.
    fn read_log_line(&self, line: &str) -> bool {
        if !(line.starts_with('{') && line.contains("\"_aws\":")) {
            locked(&self.0).given_back.read_log_line(line);
            return false;
        }
        let Ok(Value::Object(metrics)) = serde_json::from_str(line) else {
            return false;
        };
        let sums = &mut locked(&self.0).sums;
        for (name, value) in metrics {
            if let Some(value) = value.as_f64() {
                *sums.entry(name).or_default() += value;
            }
        }
        true
    }
}

/// Returns whether a line is a warning, an error, or has no level, as the lines of a panic.
fn worth_showing(line: &str) -> bool {
    !["TRACE", "DEBUG", "INFO"].iter().any(|level| {
        line.trim_start().starts_with(level) || line.starts_with(&format!(r#"{{"level":"{level}""#))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_add_up_and_other_lines_are_left_alone() {
        let function_logs = FunctionLogs::default();
        assert!(function_logs.read_log_line(r#"{"_aws":{},"function":"f","Claimed":3}"#));
        assert!(function_logs.read_log_line(r#"{"Claimed":4,"_aws":{}}"#));
        assert!(!function_logs.read_log_line(r#"{"level":"INFO"}"#));
        assert_eq!(function_logs.sum("Claimed"), 7);
        assert_eq!(function_logs.sum("Other"), 0);
    }

    #[test]
    fn panics_are_shown_and_ordinary_lines_are_not() {
        assert!(worth_showing("thread 'main' panicked at src/main.rs"));
        assert!(worth_showing(" WARN lock item"));
        assert!(!worth_showing(" INFO invocation done"));
        assert!(worth_showing(
            r#"{"level":"WARN","message":"claim refused"}"#
        ));
        assert!(!worth_showing(r#"{"level":"INFO","message":"a"}"#));
    }
}
