//! The aggregator's configuration.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use protocol::batch::BatchLimits;
use protocol::bodies::{Bodies, NotBodies, ObjectSizes, S3Prefix};
use protocol::claim::{ClaimRules, DuplicateRule};
use protocol::ids::SourceArn;
use protocol::limits::{LOG_BATCH_ITEMS_MAX, PAST_DELIVERIES_MAX, WINDOW_MAX};
use protocol::scope::BatchRules;
use shared::close_at::CloseAt;
use shared::config::{
    BUCKET_NAME, BatchBytes, Common, ConfigError, DUPLICATES_SQS_URL, Declarations, Number,
    QUARANTINE_SQS_URL, Reader, Settings, Text, Unset, Variable, Word, bucket_name, in_full_build,
    queue_url,
};
use shared::expression::Expression;

use crate::event_id::EventIdRule;
use crate::quota::{QUOTA, QuotaRule};

const MAX_SECONDARY_BATCHING_WINDOW: Variable<Number<u64>> = Variable {
    name: "MAX_SECONDARY_BATCHING_WINDOW",
    key: Some("batches.window"),
    value: Number {
        unit: "seconds",
        default: 300,
        min: 1,
        max: WINDOW_MAX.as_secs(),
    },
    meaning: "How long a batch that does not fill up waits for more events, from its opening to its ticket. SQS delays a ticket by 900 s at \
              most, and 3 s are for clocks.",
};
const INDEX_SHARDS: Variable<Number<u16>> = Variable {
    name: "INDEX_SHARDS",
    key: Some("limits.index_shards"),
    value: Number {
        unit: "shards",
        default: 10,
        min: 1,
        max: 100,
    },
    meaning: "Keys that the index entries of a batch are spread over. One index key takes 1,000 write units a second.",
};
/// Crate-visible because errors of records name it.
pub(crate) const EVENT_ID: Variable<Text> = Variable {
    name: "EVENT_ID",
    key: Some("events.id"),
    value: Text {
        unset: Unset::Refused,
        allowed: "`json:EXPRESSION`, `attribute:NAME`, `body-hash`, or `message-id`, which misses messages that a producer sends again",
    },
    meaning: "What makes two messages the same event: the SQS message id, the hash of the body, a message attribute, or what \
              a JMESPath finds in the body: a string, a boolean, a whole number of 64 bits, or a list of these, which joins to one id. A \
              body that is nested in more than 127 levels cannot be read. Take `json:` if you can; docs/deploying.md#choices says why.",
};
const EVENT_ID_PREFIX: Variable<Text> = Variable {
    name: "EVENT_ID_PREFIX",
    key: Some("events.id_prefix"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "at most 256 bytes",
    },
    meaning: "Put before every event id. `{source}` in it is the ARN of the event's queue; without that, the same id from \
              two queues is one event.",
};
/// Crate-visible because errors of records name it.
pub(crate) const BATCH_KEY: Variable<Text> = Variable {
    name: "BATCH_KEY",
    key: Some("batches.key"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "a JMESPath over the body",
    },
    meaning: "What the events of one batch have in common: a batch holds one value of it. Without it a batch holds any events.",
};
const BYPASS: Variable<Text> = Variable {
    name: "BYPASS",
    key: Some("batches.bypass"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "a JMESPath over the body",
    },
    meaning: "Which events are urgent: those for which it finds anything but null, false, or an empty text, list or object. The \
              batch of an urgent event starts at once.",
};
const CLOSE_AT: Variable<Text> = Variable {
    name: "CLOSE_AT",
    key: Some("batches.close_at"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "times of the day and a time zone, such as `00:00, 12:00 Europe/Berlin`",
    },
    meaning: "When periods end, by the clock of a time zone. A batch then holds the events of one period only, and closes \
              `MAX_SECONDARY_BATCHING_WINDOW` after its end, so that what comes late still gets into it. `{period}` in layouts and paths \
              is written by the clock of `SINK_TIME_ZONE`, which should be the same time zone: otherwise a period that begins at midnight \
              in Berlin has the date of the day before.",
};
/// Crate-visible because errors of records name it.
pub(crate) const CLOSE_TIME: Variable<Text> = Variable {
    name: "CLOSE_TIME",
    key: Some("batches.close_time"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "a JMESPath over the body",
    },
    meaning: "With `CLOSE_AT`, where a body has the time that decides its period: a text such as `2026-11-25T20:15:00+01:00`, or whole \
              seconds or milliseconds since 1970. Without it, the time at which the message was sent decides.",
};
const CLOSE_AFTER_IDLE: Variable<Number<u64>> = Variable {
    name: "CLOSE_AFTER_IDLE",
    key: Some("batches.close_after_idle"),
    value: Number {
        unit: "seconds",
        default: 0,
        min: 0,
        max: 43_200,
    },
    meaning: "A batch also starts when none of its events came for so long; 0 is never. An environment of the aggregator looks when it is invoked, \
              so this is of use where other keys go on; when everything is idle, windows close.",
};
const BATCH_KEYS_MAX: Variable<Number<usize>> = Variable {
    name: "BATCH_KEYS_MAX",
    key: Some("batches.max_keys"),
    value: Number {
        unit: "batch keys and periods",
        default: 1_000,
        min: 1,
        max: 10_000,
    },
    meaning: "Batches with a key or a period open at once in an environment. Records of further ones fail, and come back.",
};
const SEAL_WHEN_DRAINED: Variable<Word<bool>> = Variable {
    name: "SEAL_WHEN_DRAINED",
    key: Some("batches.seal_when_drained"),
    value: Word {
        default: false,
        words: &[("on", true), ("off", false)],
    },
    meaning: "Whether a batch also starts when its queue holds nothing more, and not only when it is full or its window \
              closes. docs/deploying.md#choices says when that is worth its requests.",
};
const ON_DUPLICATE: Variable<Word<DuplicateRule>> = Variable {
    name: "ON_DUPLICATE",
    key: Some("events.on_duplicate"),
    value: Word {
        default: DuplicateRule::Drop,
        words: &[
            ("drop", DuplicateRule::Drop),
            ("requeue", DuplicateRule::Requeue),
        ],
    },
    meaning: "What happens to a duplicate: `drop` acknowledges it; with `requeue` it waits in the queue, and is processed \
              after the first.",
};
/// Where the bodies of batches go.
pub const BODIES: Variable<Text> = Variable {
    name: "BODIES",
    key: Some("batches.bodies"),
    value: Text {
        unset: Unset::Default("items"),
        allowed: "`items`, `log:table` or `log:s3://BUCKET/PREFIX`",
    },
    meaning: "Where the bodies of new batches go: `items` keeps each in its lock item; with `log:`, nothing is written for an event (a \
              preview). docs/choosing.md compares them.",
};
/// The bucket for bodies that do not fit their lock items.
pub const OVERFLOW_BUCKET: Variable<Text> = Variable {
    name: "OVERFLOW_BUCKET",
    key: Some("events.overflow_bucket"),
    value: Text {
        unset: Unset::Nothing,
        allowed: BUCKET_NAME,
    },
    meaning: "The bucket for bodies that fit no item (400 KB) even when they are compressed. Without it they go to the quarantine. The log needs none.",
};

/// The text in `EVENT_ID_PREFIX` that is replaced by the source.
const SOURCE_IN_PREFIX: &str = "{source}";

/// The configuration of the aggregator.
#[derive(Clone, Debug)]
pub struct Config {
    /// The variables that both functions read.
    pub common: Common,
    /// How long a batch takes events, from its opening.
    pub window: Duration,
    pub limits: BatchLimits,
    /// Index shards of one batch.
    pub shards: u16,
    /// Open batches at once, of all scopes that have a batch key or a period.
    pub keys_max: usize,
    pub event_id: EventIdRule,
    /// The text before every event id; `{source}` in it is replaced by the ARN of the message's queue.
    pub event_id_prefix: String,
    /// Finds the batch key in a body; `None` if a batch may hold any events of its source.
    pub batch_key: Option<Expression>,
    /// `CLOSE_AT`: when periods end; without it there are none.
    pub close_at: Option<CloseAt>,
    /// `CLOSE_TIME`: finds the time that decides the period of an event.
    pub close_time: Option<Expression>,
    /// `CLOSE_AFTER_IDLE`: how long a batch waits for a next event; `None` if it waits until its window closes.
    pub close_after_idle: Option<Duration>,
    /// How many events of a key are delivered; `None` without `QUOTA`.
    pub quota: Option<QuotaRule>,
    /// Whether a batch is sealed when its source is drained.
    pub seal_when_drained: bool,
    /// `BYPASS`: which events are urgent.
    pub bypass: Option<Expression>,
    /// `ON_DUPLICATE`.
    pub rule: DuplicateRule,
    /// Maximum number of past deliveries in one lock item.
    pub past_deliveries_max: usize,
    /// Where loads go by their size. No variable changes it; the simulation does.
    pub object_sizes: ObjectSizes,
    /// Where the bodies of new batches go.
    pub bodies: Bodies,
    /// The queue for reports of dropped duplicates; without it there are none.
    pub duplicates_url: Option<String>,
    /// The queue for messages that cannot be processed; without it they are reported as failed.
    pub quarantine_url: Option<String>,
    /// The bucket for bodies that do not fit their lock items; without it such messages go to the quarantine.
    pub overflow_bucket: Option<Arc<str>>,
}

impl Config {
    /// Reads the configuration from the variables that `lookup` returns.
    ///
    /// # Errors
    /// [`ConfigError`] with every problem. A retry with the same variables fails too.
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        Config::of(Settings::new(lookup, None))
    }

    /// Reads the configuration from variables and from the file.
    ///
    /// # Errors
    /// [`ConfigError`] with every problem. A retry with the same settings fails too.
    pub fn of(settings: Settings<'_>) -> Result<Config, ConfigError> {
        let mut reader = Reader::of(settings);
        let config = Config::read_with(&mut reader);
        reader.finish(config)
    }

    /// Returns every variable that is read, and the rules about several of them.
    pub fn declarations() -> Declarations {
        Declarations::of(Config::read_with)
    }

    fn read_with(reader: &mut Reader<'_>) -> Option<Config> {
        let common = Common::read(reader);
        let window_secs = reader.number(&MAX_SECONDARY_BATCHING_WINDOW);
        let BatchBytes {
            items_max,
            bytes_max,
            ..
        } = BatchBytes::read(reader);
        let shards = reader.number(&INDEX_SHARDS);
        let keys_max = reader.number(&BATCH_KEYS_MAX);
        let event_id = reader.text_with(&EVENT_ID, str::parse);
        let prefix = |text: &str| (text.len() <= 256).then(|| text.to_owned());
        let event_id_prefix = reader.text(&EVENT_ID_PREFIX, prefix).unwrap_or_default();
        let batch_key = reader.text_with(&BATCH_KEY, str::parse);
        let bypass = reader.text_with(&BYPASS, str::parse);
        let close_at: Option<CloseAt> = reader.text_with(&CLOSE_AT, str::parse);
        let close_time: Option<Expression> = reader.text_with(&CLOSE_TIME, str::parse);
        reader.rule(
            "`CLOSE_TIME` is set only with `CLOSE_AT`: otherwise there are no periods.",
            (close_time.is_some() && close_at.is_none()).then(|| {
                format!("`{CLOSE_TIME}` is set, but `{CLOSE_AT}` is not: there are no periods")
            }),
        );
        let idle_secs = reader.number(&CLOSE_AFTER_IDLE);
        let quota = QuotaRule::read(reader);
        let seal_when_drained = reader.word(&SEAL_WHEN_DRAINED);
        let rule = reader.word(&ON_DUPLICATE);
        let quarantine_url = reader.text(&QUARANTINE_SQS_URL, queue_url);
        let duplicates_url = reader.text(&DUPLICATES_SQS_URL, queue_url);
        reader.rule(
            "`DUPLICATES_SQS_URL` is set only with `ON_DUPLICATE` `drop`: otherwise no duplicate is dropped.",
            (duplicates_url.is_some() && rule == DuplicateRule::Requeue).then(|| {
                format!("`{DUPLICATES_SQS_URL}` is set, but `{ON_DUPLICATE}` `requeue` drops no duplicate")
            }),
        );
        let batch_url = common.as_ref().map(|common| &common.batch_queue_url);
        let own_queues = [batch_url, quarantine_url.as_ref()];
        let shared = duplicates_url
            .as_ref()
            .filter(|url| own_queues.contains(&Some(*url)));
        reader.rule(
            "The queue in `DUPLICATES_SQS_URL` is neither `BATCH_QUEUE_URL` nor `QUARANTINE_SQS_URL`.",
            shared.map(|url| {
                format!(
                    "`{DUPLICATES_SQS_URL}`: a queue that has another purpose: got `{url}`, expected neither `BATCH_QUEUE_URL` \
                     nor `QUARANTINE_SQS_URL`"
                )
            }),
        );
        let overflow_bucket = reader.text_with(&OVERFLOW_BUCKET, overflow_bucket_name);
        let bodies = reader.text_with(&BODIES, bodies_in_buckets);
        let is_log = bodies.as_ref().is_some_and(Bodies::is_log);
        reader.rule(
            "`BODIES` in the log needs `QUARANTINE_SQS_URL`: conflicts go there, and an unrepaired batch after 10 days.",
            (is_log && quarantine_url.is_none()).then(|| {
                format!("`{QUARANTINE_SQS_URL}`: not set: expected the URL of a queue, because `{BODIES}` is in the log")
            }),
        );
        reader.rule(
            "`MAX_BATCH_SIZE` is at most 100,000 if `BODIES` is in the log.",
            (is_log && items_max > LOG_BATCH_ITEMS_MAX).then(|| {
                format!("`MAX_BATCH_SIZE`: too large: got {items_max}, expected at most {LOG_BATCH_ITEMS_MAX}, because `{BODIES}` is in the log")
            }),
        );
        reader.rule(
            "`ON_DUPLICATE` is `drop` if `BODIES` is in the log: a message is acknowledged before it is known to be a duplicate.",
            (is_log && rule == DuplicateRule::Requeue).then(|| {
                format!("`{ON_DUPLICATE}`: not with the log: got `requeue`, expected `drop`, or another `{BODIES}`")
            }),
        );
        reader.rule(
            "`QUOTA` is set only if `BODIES` is in the log: events are counted when a batch of the log is decided.",
            (!is_log && quota.is_some()).then(|| {
                format!("`{QUOTA}`: only with the log: expected none, or a `{BODIES}` that begins with `log:`")
            }),
        );
        let place = bodies.as_ref().and_then(Bodies::s3);
        let bucket = place.map(|place| place.bucket.clone());
        reader.rule(
            "`BODIES` and `OVERFLOW_BUCKET` are different buckets.",
            (bucket.is_some() && bucket == overflow_bucket).then(|| {
                format!("`{BODIES}`: the bucket of `{OVERFLOW_BUCKET}`: expected another bucket")
            }),
        );
        Some(Config {
            common: common?,
            window: Duration::from_secs(window_secs),
            limits: BatchLimits {
                items_max,
                bytes_max,
            },
            shards,
            keys_max,
            bodies: bodies?,
            past_deliveries_max: PAST_DELIVERIES_MAX,
            object_sizes: ObjectSizes::default(),
            event_id: event_id?,
            event_id_prefix,
            batch_key,
            close_at,
            close_time,
            close_after_idle: (idle_secs > 0).then(|| Duration::from_secs(idle_secs)),
            quota,
            seal_when_drained,
            bypass,
            rule,
            duplicates_url,
            quarantine_url,
            overflow_bucket,
        })
    }

    /// Returns the text that goes before the event ids of a source.
    pub fn prefix_of(&self, source: &SourceArn) -> Cow<'_, str> {
        match self.event_id_prefix.contains(SOURCE_IN_PREFIX) {
            true => Cow::Owned(
                self.event_id_prefix
                    .replace(SOURCE_IN_PREFIX, source.as_str()),
            ),
            false => Cow::Borrowed(&self.event_id_prefix),
        }
    }

    /// Returns what all batches that the aggregator opens have in common.
    pub fn batch_rules(&self) -> BatchRules {
        BatchRules {
            window: self.window,
            bodies: self.bodies.clone(),
            shards: match self.bodies.is_log() {
                true => 1,
                false => self.shards,
            },
            dedup_window: self.common.dedup_window,
        }
    }

    /// Returns the rules that decide the outcome of a claim attempt that finds a lock item.
    pub fn claim_rules(&self) -> ClaimRules {
        ClaimRules {
            on_duplicate: self.rule,
            dedup_window: self.common.dedup_window,
            past_deliveries_max: self.past_deliveries_max,
        }
    }
}

/// Returns a value of `BODIES`. If it is in S3, the bucket has a name that a bucket can have.
fn bodies_in_buckets(text: &str) -> Result<Bodies, String> {
    let bodies: Bodies = text.parse().map_err(|error: NotBodies| error.to_string())?;
    match bodies.s3() {
        Some(S3Prefix { bucket, .. }) if bucket_name(bucket).is_none() => {
            Err(format!("expected, as the bucket, {BUCKET_NAME}"))
        }
        Some(_) => in_full_build(bodies),
        None => Ok(bodies),
    }
}

fn overflow_bucket_name(text: &str) -> Result<Arc<str>, String> {
    let name = bucket_name(text).ok_or_else(|| format!("expected {BUCKET_NAME}"))?;
    in_full_build(name)
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
            ("EVENT_ID", "message-id"),
        ];
        Config::read(&|name: &str| {
            let set = extra.iter().chain(&base).find(|(key, _)| *key == name);
            set.map(|(_, value)| (*value).to_owned())
        })
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
