//! The batch processor's configuration.

use std::time::Duration;

use protocol::limits::{PARTS_MAX, SQS_DELAY_MAX};
use shared::config::{
    BatchBytes, Common, ConfigError, DDB_BATCH_INDEX, QUARANTINE_SQS_URL, QUEUE_URL, Reader,
    TABLE_NAME, queue_url, table_name,
};
use sinks::SinkConfig;

/// How long after an empty look a batch is looked at once more.
pub const VERIFY_DELAY: &str = "VERIFY_DELAY";
/// Everything the batch processor is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What both functions are told.
    pub common: Common,
    /// The index of the lock table by batch.
    pub index: String,
    /// How long after an empty look a batch is looked at once more.
    pub verify_delay: Duration,
    /// What a part holds, unless the parts of a batch would run out.
    pub part_bytes_max: u64,
    /// Parts that a batch may have.
    pub parts_max: usize,
    /// Where events go that an operator sets aside.
    pub quarantine_url: Option<String>,
    /// Where batches go; a sink of your own leaves it unread.
    pub sink: SinkConfig,
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
        let part_bytes_max = BatchBytes::read(&mut reader).part_bytes_max;
        let quarantine_url = reader.optional(QUARANTINE_SQS_URL, QUEUE_URL, queue_url);
        let sink = SinkConfig::read(&mut reader);
        let config = common.map(|common| Config {
            common,
            index: index.unwrap_or_else(|| "batchId-index".to_owned()),
            verify_delay: Duration::from_secs(verify_secs),
            part_bytes_max,
            parts_max: PARTS_MAX,
            quarantine_url,
            sink,
        });
        reader.finish(config)
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
