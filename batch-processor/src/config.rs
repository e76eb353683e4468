//! The batch processor's configuration.

use std::time::Duration;

use shared::config::{Common, ConfigError, DDB_BATCH_INDEX, Reader, TABLE_NAME, table_name};
use shared::limits::SQS_DELAY_MAX;

use crate::sink::{Format, SinkUri};

/// How long after an empty look a batch is looked at once more.
pub const VERIFY_DELAY: &str = "VERIFY_DELAY";
/// Where batches go.
pub const SINK: &str = "SINK";
/// What they look like there.
pub const SINK_FORMAT: &str = "SINK_FORMAT";

/// Everything the batch processor is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What both functions are told.
    pub common: Common,
    /// The index of the lock table by batch.
    pub index: String,
    /// How long after an empty look a batch is looked at once more.
    pub verify_delay: Duration,
    /// Where batches go; a sink of your own leaves it unread.
    pub sink: SinkUri,
    /// What they look like there.
    pub format: Format,
}

impl Config {
    /// Reads the configuration through `lookup`.
    ///
    /// # Errors
    /// [`ConfigError`] with every problem; the same environment fails every time.
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        let mut reader = Reader::new(lookup);
        let common = Common::read(&mut reader);
        let index = reader.optional(DDB_BATCH_INDEX, TABLE_NAME, table_name);
        let verify_secs = reader.number(VERIFY_DELAY, "seconds", 60, 1, SQS_DELAY_MAX.as_secs());
        let sink = reader
            .optional_with(SINK, str::parse)
            .unwrap_or(SinkUri::Log);
        let format = reader
            .optional(SINK_FORMAT, "`envelope` or `body`", |text| match text {
                "envelope" => Some(Format::Envelope),
                "body" => Some(Format::Body),
                _ => None,
            })
            .unwrap_or(Format::Envelope);
        let config = common.map(|common| Config {
            common,
            index: index.unwrap_or_else(|| "batchId-index".to_owned()),
            verify_delay: Duration::from_secs(verify_secs),
            sink,
            format,
        });
        reader.finish(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(extra: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let base = [
            ("DDB_LOCK_TABLE", "lock-table"),
            ("DDB_BATCH_TABLE", "batch-table"),
            (
                "BATCH_QUEUE_URL",
                "https://sqs.eu-west-1.amazonaws.com/1/batch-queue",
            ),
        ];
        Config::read(&|name: &str| {
            let set = extra.iter().chain(&base).find(|(key, _)| *key == name);
            set.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn defaults_are_those_of_the_design() {
        let config = read(&[]).unwrap();
        assert_eq!(config.index, "batchId-index");
        assert_eq!(config.verify_delay, Duration::from_secs(60));
        assert_eq!(config.sink, SinkUri::Log);
        assert_eq!(config.format, Format::Envelope);
    }

    #[test]
    fn every_wrong_variable_is_named_in_one_message() {
        let error = read(&[
            ("DDB_BATCH_TABLE", ""),
            (DDB_BATCH_INDEX, "!"),
            (VERIFY_DELAY, "901"),
            (SINK, "ftp://host"),
            (SINK_FORMAT, "xml"),
        ])
        .unwrap_err();
        let text = error.to_string();
        assert_eq!(error.problems.len(), 5, "{text}");
        for words in [
            "`DDB_BATCH_TABLE` is not set",
            "`DDB_BATCH_INDEX` is `!`",
            "`VERIFY_DELAY` is `901`, expected a whole number of seconds from 1 to 900",
            "`SINK` is `ftp://host`: expected `log:` or `file:///directory`",
            "`SINK_FORMAT` is `xml`, expected `envelope` or `body`",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }
}
