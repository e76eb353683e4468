//! What the functions' logs tell: their metrics, added up, and the lines worth showing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use emulators::lambda::{LogLine, LogSink};
use serde_json::Value;

use crate::given_back::GivenBack;

/// Metrics of all environments, added up by name, and what their tickets came to.
#[derive(Clone, Debug, Default)]
pub struct FunctionLogs(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    sums: BTreeMap<String, f64>,
    given_back: GivenBack,
}

impl FunctionLogs {
    /// A sink that takes metric lines in, and shows the others: all, or warnings and errors alone.
    pub fn sink(&self, all: bool) -> LogSink {
        let function_logs = self.clone();
        Arc::new(move |line: &LogLine| {
            if !function_logs.take_in(&line.text) && (all || worth_showing(&line.text)) {
                eprintln!("{line}");
            }
        })
    }

    /// The sum of a metric.
    pub fn sum(&self, name: &str) -> u64 {
        self.heard().sums.get(name).copied().unwrap_or_default() as u64
    }

    /// Tickets that were given back.
    pub fn given_back(&self) -> GivenBack {
        self.heard().given_back.clone()
    }

    fn take_in(&self, line: &str) -> bool {
        if !(line.starts_with('{') && line.contains("\"_aws\":")) {
            self.heard().given_back.heard(line);
            return false;
        }
        let Ok(Value::Object(metrics)) = serde_json::from_str(line) else {
            return false;
        };
        let sums = &mut self.heard().sums;
        for (name, value) in metrics {
            if let Some(value) = value.as_f64() {
                *sums.entry(name).or_default() += value;
            }
        }
        true
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything but what an ordinary run says. A panic has no level, so what is left out is named, not what is shown.
fn worth_showing(line: &str) -> bool {
    !["TRACE", "DEBUG", "INFO"]
        .iter()
        .any(|level| line.trim_start().starts_with(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_add_up_and_other_lines_are_left_alone() {
        let function_logs = FunctionLogs::default();
        assert!(function_logs.take_in(r#"{"_aws":{},"function":"f","Claimed":3}"#));
        assert!(function_logs.take_in(r#"{"Claimed":4,"_aws":{}}"#));
        assert!(!function_logs.take_in(r#"{"level":"INFO"}"#));
        assert_eq!(function_logs.sum("Claimed"), 7);
        assert_eq!(function_logs.sum("Other"), 0);
    }

    #[test]
    fn panics_are_shown_and_ordinary_lines_are_not() {
        assert!(worth_showing("thread 'main' panicked at src/main.rs"));
        assert!(worth_showing(" WARN lock item"));
        assert!(!worth_showing(" INFO invocation done"));
    }
}
