//! The configuration that the targets read with.

use aggregator::Config;
use protocol::time::Timestamp;

/// When every event here is read.
pub(crate) const NOW: Timestamp = Timestamp::from_ms(1_700_000_000_000);

/// The aggregator's configuration with some variables set; the problems, where there are any.
pub(crate) fn config(variables: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let base = [
        ("DDB_LOCK_TABLE", "lock-table"),
        ("DDB_BATCH_TABLE", "batch-table"),
        ("BATCH_QUEUE_URL", "https://sqs/1/batch-queue"),
        ("EVENT_ID", "message-id"),
    ];
    let lookup = |name: &str| {
        let set = variables.iter().chain(&base).find(|(key, _)| *key == name);
        set.map(|(_, value)| (*value).to_owned())
    };
    Config::read(&lookup).map_err(|error| error.problems)
}
