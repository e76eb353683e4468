//! The aggregator's configuration.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use protocol::allocator::BatchLimits;
use protocol::claim::{ClaimRules, DuplicateRule};
use protocol::ids::SourceArn;
use protocol::limits::{KNOWN_CLAIMS_MAX, PAST_DELIVERIES_MAX, SEATS_MAX, SQS_DELAY_MAX};
use shared::config::{
    BUCKET_NAME, BatchBytes, Common, ConfigError, QUARANTINE_SQS_URL, QUEUE_URL, Reader,
    bucket_name, queue_url,
};

use crate::event_id::{EventIdRule, Expression};

/// From the first invocation's deadline to the ticket.
pub const MAX_SECONDARY_BATCHING_WINDOW: &str = "MAX_SECONDARY_BATCHING_WINDOW";
/// Index entries of a batch are spread over so many keys.
pub const INDEX_SHARDS: &str = "INDEX_SHARDS";
/// What makes an event the same event.
pub const EVENT_ID: &str = "EVENT_ID";
/// Put before every event id.
pub const EVENT_ID_PREFIX: &str = "EVENT_ID_PREFIX";
/// What the events of one batch have in common.
pub const BATCH_KEY: &str = "BATCH_KEY";
/// Batches with a key open at once.
pub const BATCH_KEYS_MAX: &str = "BATCH_KEYS_MAX";
/// Whether a batch is sealed when its source holds nothing more.
pub const SEAL_WHEN_DRAINED: &str = "SEAL_WHEN_DRAINED";
/// What happens to a duplicate.
pub const ON_DUPLICATE: &str = "ON_DUPLICATE";
/// Where bodies go that do not fit an item.
pub const OVERFLOW_BUCKET: &str = "OVERFLOW_BUCKET";

/// What stands for the source in `EVENT_ID_PREFIX`.
const SOURCE_IN_PREFIX: &str = "{source}";

/// Everything the aggregator is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// What both functions are told.
    pub common: Common,
    /// From the first invocation's deadline to the ticket.
    pub window: Duration,
    /// How large batches may be.
    pub limits: BatchLimits,
    /// What makes an event the same event.
    pub event_id: EventIdRule,
    /// Put before every event id; `{source}` in it stands for the ARN of the queue that the event came from.
    pub event_id_prefix: String,
    /// What the events of one batch have in common.
    pub batch_key: Option<Expression>,
    /// Whether a batch is sealed when its source holds nothing more.
    pub seal_when_drained: bool,
    /// What happens to a duplicate.
    pub rule: DuplicateRule,
    /// Past deliveries that one lock item remembers.
    pub past_deliveries_max: usize,
    /// Where messages go that cannot be processed.
    pub quarantine_url: Option<String>,
    /// Where bodies go that do not fit an item; without it, into the quarantine.
    pub overflow_bucket: Option<Arc<str>>,
}

impl Config {
    /// Reads the configuration through `lookup`.
    ///
    /// # Errors
    /// [`ConfigError`] with every problem; the same environment fails every time.
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        let mut reader = Reader::new(lookup);
        let common = Common::read(&mut reader);
        let window_secs = reader.number(
            MAX_SECONDARY_BATCHING_WINDOW,
            "seconds",
            300,
            1,
            SQS_DELAY_MAX.as_secs(),
        );
        let BatchBytes {
            items_max,
            bytes_max,
            ..
        } = BatchBytes::read(&mut reader);
        let shards = reader.number(INDEX_SHARDS, "shards", 10, 1, 100);
        let keys_max = reader.number(BATCH_KEYS_MAX, "batch keys", 1_000, 1, 10_000);
        let event_id = reader
            .optional_with(EVENT_ID, str::parse)
            .unwrap_or(EventIdRule::MessageId);
        let event_id_prefix = reader
            .optional(EVENT_ID_PREFIX, "at most 256 bytes", |text| {
                (text.len() <= 256).then(|| text.to_owned())
            })
            .unwrap_or_default();
        let batch_key = reader.optional_with(BATCH_KEY, str::parse);
        let seal_when_drained = reader
            .optional(SEAL_WHEN_DRAINED, "`on` or `off`", |text| match text {
                "on" => Some(true),
                "off" => Some(false),
                _ => None,
            })
            .unwrap_or(false);
        let rule = reader
            .optional(ON_DUPLICATE, "`drop` or `requeue`", |text| match text {
                "drop" => Some(DuplicateRule::Drop),
                "requeue" => Some(DuplicateRule::Requeue),
                _ => None,
            })
            .unwrap_or(DuplicateRule::Drop);
        let quarantine_url = reader.optional(QUARANTINE_SQS_URL, QUEUE_URL, queue_url);
        let overflow_bucket = reader.optional(OVERFLOW_BUCKET, BUCKET_NAME, bucket_name);
        if overflow_bucket.is_some() && !cfg!(feature = "s3") {
            reader.problem(format!(
                "`{OVERFLOW_BUCKET}` is set, but the executable was built without the cargo feature `s3`"
            ));
        }
        let config = common.map(|common| Config {
            common,
            window: Duration::from_secs(window_secs),
            limits: BatchLimits {
                items_max,
                bytes_max,
                shards,
                keys_max,
                seats_max: SEATS_MAX,
                known_claims_max: KNOWN_CLAIMS_MAX,
            },
            past_deliveries_max: PAST_DELIVERIES_MAX,
            event_id,
            event_id_prefix,
            batch_key,
            seal_when_drained,
            rule,
            quarantine_url,
            overflow_bucket,
        });
        reader.finish(config)
    }

    /// Returns what is put before the event ids of a source.
    pub fn prefix_of(&self, source: &SourceArn) -> Cow<'_, str> {
        match self.event_id_prefix.contains(SOURCE_IN_PREFIX) {
            true => Cow::Owned(
                self.event_id_prefix
                    .replace(SOURCE_IN_PREFIX, source.as_str()),
            ),
            false => Cow::Borrowed(&self.event_id_prefix),
        }
    }

    /// Returns how what a claim meets is judged.
    pub fn claim_rules(&self) -> ClaimRules {
        ClaimRules {
            on_duplicate: self.rule,
            dedup_window: self.common.dedup_window,
            past_deliveries_max: self.past_deliveries_max,
        }
    }
}

/// A configuration for the tests of this crate.
#[cfg(test)]
pub(crate) mod tests_support {
    use super::*;

    pub(crate) fn config(extra: &[(&str, &str)]) -> Config {
        read(extra).unwrap()
    }

    pub(crate) fn read(extra: &[(&str, &str)]) -> Result<Config, ConfigError> {
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
}

#[cfg(test)]
mod tests {
    use shared::config::{MAX_BATCH_BYTES, MAX_BATCH_SIZE};

    use super::tests_support::read;
    use super::*;

    #[test]
    fn defaults_are_those_of_the_design() {
        let config = read(&[]).unwrap();
        assert_eq!(config.window, Duration::from_secs(300));
        let limits = BatchLimits {
            items_max: 50_000,
            bytes_max: 134_217_728,
            shards: 10,
            keys_max: 1_000,
            seats_max: SEATS_MAX,
            known_claims_max: KNOWN_CLAIMS_MAX,
        };
        assert_eq!(config.limits, limits);
        assert_eq!(config.event_id, EventIdRule::MessageId);
        assert_eq!(config.rule, DuplicateRule::Drop);
        assert_eq!(config.batch_key, None);
        assert!(!config.seal_when_drained);
    }

    #[test]
    fn every_wrong_variable_is_named_in_one_message() {
        let error = read(&[
            ("DDB_LOCK_TABLE", ""),
            (MAX_SECONDARY_BATCHING_WINDOW, "0"),
            (MAX_BATCH_SIZE, "many"),
            (MAX_BATCH_BYTES, "1"),
            (INDEX_SHARDS, "101"),
            (EVENT_ID, "json:a["),
            (BATCH_KEY, "]"),
            (SEAL_WHEN_DRAINED, "yes"),
            (ON_DUPLICATE, "ignore"),
            (QUARANTINE_SQS_URL, "here"),
            (OVERFLOW_BUCKET, "Here"),
        ])
        .unwrap_err();
        let text = error.to_string();
        assert_eq!(error.problems.len(), 11, "{text}");
        for words in [
            "`DDB_LOCK_TABLE` is not set",
            "`MAX_SECONDARY_BATCHING_WINDOW` is `0`, expected a whole number of seconds from 1 to 900",
            "`MAX_BATCH_SIZE` is `many`",
            "`MAX_BATCH_BYTES` is `1`, expected a whole number of bytes from 409600",
            "`INDEX_SHARDS` is `101`, expected a whole number of shards from 1 to 100",
            "`EVENT_ID` is `json:a[`: ",
            "`BATCH_KEY` is `]`: ",
            "`SEAL_WHEN_DRAINED` is `yes`, expected `on` or `off`",
            "`ON_DUPLICATE` is `ignore`, expected `drop` or `requeue`",
            "`QUARANTINE_SQS_URL` is `here`",
            "`OVERFLOW_BUCKET` is `Here`, expected the name of a bucket",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }
}
