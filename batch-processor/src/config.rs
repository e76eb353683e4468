//! The configuration of the batch-processor.

use std::time::Duration;

use protocol::limits::{INDEX_BYTES_KEPT, PARTS_MAX, SQS_DELAY_MAX};
use shared::config::{
    BatchBytes, COMPLETION, Common, Completion, ConfigError, DUPLICATES_SQS_URL, Declarations,
    Number, QUARANTINE_SQS_URL, Reader, Settings, TABLE_NAME, Text, Unset, Variable, completion,
    queue_url, table_name,
};
use shared::delivery_hours::DeliveryHours;
use sinks::SinkConfig;

const DDB_BATCH_INDEX: Variable<Text> = Variable {
    name: "DDB_BATCH_INDEX",
    key: None,
    value: Text {
        unset: Unset::Default("batchId-index"),
        allowed: TABLE_NAME,
    },
    meaning: "The lock table's index by batch.",
};
const VERIFY_DELAY: Variable<Number<u64>> = Variable {
    name: "VERIFY_DELAY",
    key: Some("delivery.verify_delay"),
    value: Number {
        unit: "seconds",
        default: 60,
        min: 1,
        max: SQS_DELAY_MAX.as_secs(),
    },
    meaning: "How long after an empty look a batch is looked at again, if its counts do not prove that it is complete.",
};
const INDEX_MEMORY: Variable<Number<usize>> = Variable {
    name: "INDEX_MEMORY",
    key: Some("limits.index_memory"),
    value: Number {
        unit: "bytes",
        default: INDEX_BYTES_KEPT,
        min: 0,
        max: 4 << 30,
    },
    meaning: "How much of the index of the log an environment of the batch-processor keeps in memory, at 40 bytes an event: 48 MiB are 1.2 \
              million events. The rest is read again for each batch, one run of at most 21 MB at a time.",
};

const DELIVERY_HOURS: Variable<Text> = Variable {
    name: "DELIVERY_HOURS",
    key: Some("delivery.hours"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "spans and a time zone, such as `Mon-Fri 20:00-05:00, Sat 10:00-12:00 Europe/Berlin`",
    },
    meaning: "The hours of the week in which parts go to the sink. At other times batches wait.",
};
const DELIVERY_MAX_PER_SECOND: Variable<Number<u64>> = Variable {
    name: "DELIVERY_MAX_PER_SECOND",
    key: Some("delivery.max_per_second"),
    value: Number {
        unit: "events",
        default: 0,
        min: 0,
        max: 1_000_000,
    },
    meaning: "How many events go to the sink in a second, on average over some parts and in all environments together. 0 is no limit.",
};

const APPROVE_ABOVE: Variable<Number<u64>> = Variable {
    name: "APPROVE_ABOVE",
    key: Some("delivery.approve_above"),
    value: Number {
        unit: "events",
        default: 0,
        min: 0,
        max: 1_000_000,
    },
    meaning: "A batch of more events waits in `error` until somebody has approved it, before any of it is delivered. 0 is no limit.",
};

/// The configuration of the batch-processor, as read from its environment.
#[derive(Clone, Debug)]
pub struct Config {
    /// The variables that both functions read.
    pub common: Common,
    /// `DDB_BATCH_INDEX`: the name of the lock table's index by batch.
    pub index: String,
    /// `VERIFY_DELAY`: how long after an empty look a batch is looked at again, if it is not proven.
    pub verify_delay: Duration,
    /// Bytes of a part: `MAX_PART_BYTES`, or less if that is more than the sink takes. Parts are larger if the batch would need more than `parts_max`.
    pub part_bytes_max: u64,
    /// `INDEX_MEMORY`: bytes of the index that an environment keeps.
    pub index_bytes_kept: usize,
    /// `MAX_BATCH_SIZE`: events of a full batch.
    pub batch_items_max: u64,
    /// The maximum number of parts of a batch; not configurable, but lower in tests.
    pub parts_max: usize,
    /// `QUARANTINE_SQS_URL`: the queue for events that are set aside.
    pub quarantine_url: Option<String>,
    /// `DUPLICATES_SQS_URL`: the queue for reports of duplicates that a batch of the log has.
    pub duplicates_url: Option<String>,
    /// `DELIVERY_HOURS`: the hours of the week in which parts go to the sink.
    pub delivery_hours: Option<DeliveryHours>,
    /// `DELIVERY_MAX_PER_SECOND`: how many events go to the sink in a second.
    pub events_per_second: Option<u64>,
    /// `APPROVE_ABOVE`: events of a batch that somebody must approve if it has more.
    pub approve_above: Option<u64>,
    /// `COMPLETION`: where notices go.
    pub completion: Option<Completion>,
    /// The settings of the built-in sinks. A sink of your own need not use them.
    pub sink: SinkConfig,
}

impl Config {
    /// Reads the configuration through `lookup`.
    ///
    /// # Errors
    /// [`ConfigError`] with every problem; the same environment fails every time.
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        Config::of(Settings::new(lookup, None))
    }

    /// Reads the configuration from variables and from the file.
    ///
    /// # Errors
    /// [`ConfigError`] with every problem; the same settings fail every time.
    pub fn of(settings: Settings<'_>) -> Result<Config, ConfigError> {
        let mut reader = Reader::of(settings);
        let config = Config::read_with(&mut reader);
        reader.finish(config)
    }

    /// Returns the declarations of all variables, and the rules between them.
    pub fn declarations() -> Declarations {
        Declarations::of(Config::read_with)
    }

    fn read_with(reader: &mut Reader<'_>) -> Option<Config> {
        let common = Common::read(reader);
        let index = reader.text(&DDB_BATCH_INDEX, table_name);
        let verify_secs = reader.number(&VERIFY_DELAY);
        let BatchBytes {
            items_max: batch_items_max,
            part_bytes_max,
            ..
        } = BatchBytes::read(reader);
        let index_bytes_kept = reader.number(&INDEX_MEMORY);
        let quarantine_url = reader.text(&QUARANTINE_SQS_URL, queue_url);
        let duplicates_url = reader.text(&DUPLICATES_SQS_URL, queue_url);
        let delivery_hours = reader.text_with(&DELIVERY_HOURS, str::parse);
        let events_per_second = reader.number(&DELIVERY_MAX_PER_SECOND);
        let approve_above = reader.number(&APPROVE_ABOVE);
        let completion = reader.text_with(&COMPLETION, completion);
        let own_queues = common
            .as_ref()
            .map(|common| common.batch_queue_url.as_str());
        let own_queues = own_queues.into_iter().chain(quarantine_url.as_deref());
        reader.rule(
            QUEUE_OF_ITS_OWN,
            shares_queue(completion.as_ref(), own_queues),
        );
        let sink = SinkConfig::read(reader);
        reader.rule(
            "With `ANSWERS_FROM`, `QUARANTINE_SQS_URL` is set: rejected events go there.",
            (sink.answers.is_some() && quarantine_url.is_none()).then(|| {
                format!("`{QUARANTINE_SQS_URL}`: not set: `ANSWERS_FROM` needs it for the events that answers reject")
            }),
        );
        let part_bytes_max = part_bytes_max.min(sink.part_bytes_max.unwrap_or(part_bytes_max));
        Some(Config {
            common: common?,
            index: index?,
            verify_delay: Duration::from_secs(verify_secs),
            part_bytes_max,
            index_bytes_kept,
            batch_items_max,
            parts_max: PARTS_MAX,
            quarantine_url,
            duplicates_url,
            delivery_hours,
            events_per_second: (events_per_second > 0).then_some(events_per_second),
            approve_above: (approve_above > 0).then_some(approve_above),
            completion,
            sink,
        })
    }
}

/// The rule behind [`shares_queue`].
const QUEUE_OF_ITS_OWN: &str = "The queue in `COMPLETION` is neither `BATCH_QUEUE_URL` nor `QUARANTINE_SQS_URL`, nor the input queue.";

/// Returns what is wrong if notices would go to one of these queues. The input queue is not known at the start; a notice to it
/// is refused when it is sent.
fn shares_queue<'a>(
    completion: Option<&Completion>,
    mut own_queues: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let Some(Completion::Queue { url, .. }) = completion else {
        return None;
    };
    own_queues.any(|own| own == url).then(|| {
        format!(
            "`{COMPLETION}`: a queue that has another purpose: got `{url}`, expected neither `BATCH_QUEUE_URL` nor \
             `QUARANTINE_SQS_URL`"
        )
    })
}

#[cfg(test)]
#[path = "config_tests.rs"]
pub(crate) mod tests;
