//! The variables of the log.

use tracing::Level;

use super::reader::{Reader, Settings};
use super::variable::{Variable, Word};

const LOG_LEVEL: Variable<Word<Level>> = Variable {
    name: "LOG_LEVEL",
    key: Some("logs.level"),
    value: Word {
        default: Level::INFO,
        words: &[
            ("error", Level::ERROR),
            ("warn", Level::WARN),
            ("info", Level::INFO),
            ("debug", Level::DEBUG),
            ("trace", Level::TRACE),
        ],
    },
    meaning: "Log lines of this level and above are written. Metrics always are. Do not set the log level of Lambda itself: it \
              would drop the lines with metrics too.",
};
const LOG_FORMAT: Variable<Word<LogFormat>> = Variable {
    name: "LOG_FORMAT",
    key: Some("logs.format"),
    value: Word {
        default: LogFormat::Json,
        words: &[("json", LogFormat::Json), ("text", LogFormat::Text)],
    },
    meaning: "`json` is one object a line, with the fields at its top; `text` is for people who read along.",
};
const LOG_EVENT_IDS: Variable<Word<bool>> = Variable {
    name: "LOG_EVENT_IDS",
    key: Some("logs.event_ids"),
    value: Word {
        default: false,
        words: &[("on", true), ("off", false)],
    },
    meaning: "Whether log lines may name event ids and batch keys, which come from messages. Bodies are never logged.",
};

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A JSON object.
    Json,
    /// Words, and pairs of names and values.
    Text,
}

/// The level, the format and the content of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    pub level: Level,
    pub format: LogFormat,
    /// Whether lines may have event ids and batch keys.
    pub event_ids: bool,
}

impl LogSettings {
    pub(super) fn read(reader: &mut Reader<'_>) -> LogSettings {
        LogSettings {
            level: reader.word(&LOG_LEVEL),
            format: reader.word(&LOG_FORMAT),
            event_ids: reader.word(&LOG_EVENT_IDS),
        }
    }

    /// Returns the settings before the configuration is read, so that its problems can be logged. A wrong value counts as the
    /// default here; the configuration reports it.
    pub fn of(settings: Settings<'_>) -> LogSettings {
        LogSettings::read(&mut Reader::of(settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_json_without_event_ids_unless_a_variable_says_otherwise() {
        let expected = LogSettings {
            level: Level::INFO,
            format: LogFormat::Json,
            event_ids: false,
        };
        assert_eq!(LogSettings::of(Settings::new(&|_| None, None)), expected);
        assert_eq!(
            LogSettings::of(Settings::new(&|_| Some("loud".to_owned()), None)),
            expected
        );
        let lookup = |name: &str| {
            let value = match name {
                "LOG_LEVEL" => "trace",
                "LOG_FORMAT" => "text",
                _ => "on",
            };
            Some(value.to_owned())
        };
        let chosen = LogSettings {
            level: Level::TRACE,
            format: LogFormat::Text,
            event_ids: true,
        };
        assert_eq!(LogSettings::of(Settings::new(&lookup, None)), chosen);
    }
}
