//! The configuration that both functions share, and the reader of declared variables.
//!
//! A variable is declared beside the `Config` that it belongs to: here, in `aggregator/src/config.rs`, in
//! `batch-processor/src/config.rs`, and in `sinks/src/config.rs`. `docs/configuration.md` is generated from the
//! declarations.

use std::sync::Arc;
use std::time::Duration;

use protocol::limits::{
    BATCH_ITEMS_MAX, CLAIM_OVERHEAD_BYTES, DEDUP_WINDOW_MAX, DYNAMODB_ITEM_BYTES_MAX,
    PARTS_FOR_STRAGGLERS, PARTS_MAX,
};

mod completion;
mod error;
mod feature;
mod file;
mod file_value;
mod known;
mod logs;
mod reader;
mod schema;
mod units;
mod unknown;
mod variable;
mod without_password;

pub use completion::{COMPLETION, Completion, completion};
pub use error::ConfigError;
pub use feature::{FULL, WITHOUT_FULL, in_full_build};
pub use file::{ConfigFile, FILE_BYTES_MAX, nearest_key};
pub use known::{keys, variable_names};
pub use logs::{LogFormat, LogSettings};
pub use reader::{Declarations, Reader, Settings};
pub use schema::{SECTIONS, schema};
pub use unknown::{OWN_PREFIXES, UnknownVariable, names_in_environment, unknown_variables};
pub use variable::{Declared, Description, List, Number, Text, Unset, Variable, Word};

/// Where the configuration file is. `aws::open_settings` reads it before any other setting is read.
pub const CONFIG: Variable<Text> = Variable {
    name: "CONFIG",
    key: None,
    value: Text {
        unset: Unset::Nothing,
        allowed: "`file:///path`, `s3://bucket/key` or `ssm:<parameter name>`",
    },
    meaning: "Where the configuration file is: in the deployment package (`file:///var/task/service.toml`), in S3, or in a parameter of \
              Systems Manager. It is read once, at the cold start, and has at most 64 KiB. Variables that are set override it.",
};
const DDB_LOCK_TABLE: Variable<Text> = Variable {
    name: "DDB_LOCK_TABLE",
    key: None,
    value: Text {
        unset: Unset::Refused,
        allowed: TABLE_NAME,
    },
    meaning: "The lock table: claims of events, and tombstones of delivered ones.",
};
const DDB_BATCH_TABLE: Variable<Text> = Variable {
    name: "DDB_BATCH_TABLE",
    key: None,
    value: Text {
        unset: Unset::Refused,
        allowed: TABLE_NAME,
    },
    meaning: "The batch table: a record for each batch.",
};
const BATCH_QUEUE_URL: Variable<Text> = Variable {
    name: "BATCH_QUEUE_URL",
    key: None,
    value: Text {
        unset: Unset::Refused,
        allowed: QUEUE_URL,
    },
    meaning: "The batch queue, which carries the tickets.",
};
/// Both functions read it: the aggregator for messages, the batch-processor for events.
pub const QUARANTINE_SQS_URL: Variable<Text> = Variable {
    name: "QUARANTINE_SQS_URL",
    key: None,
    value: Text {
        unset: Unset::Nothing,
        allowed: QUEUE_URL,
    },
    meaning: "The queue for messages that cannot be processed, and for events that an operator sets aside. Without it \
              such messages come back until the dead-letter queue takes them, and no batch can be set aside.",
};
/// Where reports of dropped duplicates go.
pub const DUPLICATES_SQS_URL: Variable<Text> = Variable {
    name: "DUPLICATES_SQS_URL",
    key: Some("events.duplicates_queue"),
    value: Text {
        unset: Unset::Nothing,
        allowed: QUEUE_URL,
    },
    meaning: "The queue that gets a report of each duplicate that is dropped. Never let it be an input queue.",
};
const DEDUP_WINDOW: Variable<Number<u64>> = Variable {
    name: "DEDUP_WINDOW",
    key: Some("events.dedup_window"),
    value: Number {
        unit: "seconds",
        default: 3_600,
        min: 0,
        max: DEDUP_WINDOW_MAX.as_secs(),
    },
    meaning: "How long a delivered event id is remembered. With 0 it is not remembered, and the promises about redelivery do not hold.",
};
const MAX_BATCH_SIZE: Variable<Number<u64>> = Variable {
    name: "MAX_BATCH_SIZE",
    key: Some("batches.max_size"),
    value: Number {
        unit: "items",
        default: 50_000,
        min: 1,
        max: BATCH_ITEMS_MAX,
    },
    meaning: "Events of a batch. A batch with this many events is full, and starts at once.",
};
const MAX_BATCH_BYTES: Variable<Number<u64>> = Variable {
    name: "MAX_BATCH_BYTES",
    key: Some("batches.max_bytes"),
    // At least the largest item; at most what the parts of one batch hold by default.
    value: Number {
        unit: "bytes",
        default: 128 << 20,
        min: DYNAMODB_ITEM_BYTES_MAX as u64,
        max: BATCH_BYTES_MAX,
    },
    meaning: "Sum of the bodies and message attributes of a batch. A batch with this many bytes is full, and starts at once.",
};
/// Public because an error of a sink names it too.
pub const MAX_PART_BYTES: Variable<Number<u64>> = Variable {
    name: "MAX_PART_BYTES",
    key: Some("limits.max_part_bytes"),
    value: Number {
        unit: "bytes",
        default: PART_BYTES,
        min: 1_024,
        max: 1 << 30,
    },
    meaning: "How much of a batch is held in memory at once and delivered as one part: bodies, message attributes, \
              256 bytes more for each event, and index data of the whole batch, which takes a quarter of this at most. A batch has at most 100 \
              parts; they get larger than this if the batch needs more than 100. With `arn:` and no `SINK_PAYLOADS`, parts are smaller: three \
              quarters of what a call takes.",
};
const WRITE_MODE: Variable<Word<WriteMode>> = Variable {
    name: "WRITE_MODE",
    key: Some("limits.write_mode"),
    value: Word {
        default: WriteMode::Auto,
        words: &[
            ("auto", WriteMode::Auto),
            ("batch", WriteMode::Batch),
            ("put", WriteMode::Put),
        ],
    },
    meaning: "How claims and releases are written: `batch` is PartiQL, 25 items a request; `put` is one conditional \
              request an item, which also works for stores without PartiQL; `auto` is `batch`, and `put` once the store has refused \
              PartiQL because it does not know it or the function may not use it.",
};
const WRITE_CONCURRENCY: Variable<Number<usize>> = Variable {
    name: "WRITE_CONCURRENCY",
    key: Some("limits.write_concurrency"),
    // An environment has 1,024 file descriptors, and each request in flight takes one.
    value: Number {
        unit: "requests",
        default: 64,
        min: 1,
        max: 900,
    },
    meaning: "Requests in flight of one environment.",
};
const DEADLINE_MARGIN_MS: Variable<Number<u64>> = Variable {
    name: "DEADLINE_MARGIN_MS",
    key: Some("limits.deadline_margin"),
    value: Number {
        unit: "milliseconds",
        default: 3_000,
        min: 100,
        max: 60_000,
    },
    meaning: "An invocation starts no new request within this time before its deadline. Below the timeout of the function: otherwise every \
              invocation fails, with an error that names both.",
};

/// Returns a value of the right form for a table or queue that every deployment has, for checks of a file without one.
pub fn placeholder(name: &str) -> Option<String> {
    let value = match name {
        name if name == DDB_LOCK_TABLE.name => "lock-table",
        name if name == DDB_BATCH_TABLE.name => "batch-table",
        name if name == BATCH_QUEUE_URL.name => "https://sqs.invalid/batch-queue",
        name if name == QUARANTINE_SQS_URL.name => "https://sqs.invalid/quarantine-queue",
        _ => return None,
    };
    Some(value.to_owned())
}

/// Returns `url` if it may be the URL of a queue.
pub fn queue_url(url: &str) -> Option<String> {
    (url.starts_with("https://") || url.starts_with("http://")).then(|| url.to_owned())
}

/// Returns `name` if it may be the name or ARN of a table or index.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html>.
pub fn table_name(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
    (name.len() >= 3 && name.chars().all(fits)).then(|| name.to_owned())
}

/// Returns `name` if it may be the name of a bucket.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>.
pub fn bucket_name(name: &str) -> Option<Arc<str>> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    ((3..=63).contains(&name.len()) && name.chars().all(fits)).then(|| name.into())
}

/// The values that [`bucket_name`] allows.
pub const BUCKET_NAME: &str = "the name of a bucket, 3 to 63 of `a-z 0-9 - .`";
/// The values that [`table_name`] allows.
pub const TABLE_NAME: &str = "a name of 3 or more of `A-Z a-z 0-9 _ - .`, or an ARN";
/// The values that [`queue_url`] allows.
pub const QUEUE_URL: &str = "the URL of an SQS queue";

/// How claims and releases are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// [`WriteMode::Batch`] until the store refuses PartiQL, then [`WriteMode::Put`].
    Auto,
    /// PartiQL with 25 statements a request: the fewest requests.
    Batch,
    /// One conditional request an item. A refused request returns the existing item. Works for stores without PartiQL.
    Put,
}

/// The default of `MAX_PART_BYTES`: the largest batch that may be configured fits its parts.
const PART_BYTES: u64 = 64 << 20;
const _: () = assert!(
    PART_BYTES
        >= BatchBytes {
            items_max: BATCH_ITEMS_MAX,
            bytes_max: BATCH_BYTES_MAX,
            part_bytes_max: PART_BYTES,
        }
        .part_bytes_min()
);
/// The largest value of `MAX_BATCH_BYTES`.
const BATCH_BYTES_MAX: u64 = 4 << 30;

/// The rule behind [`BatchBytes::part_bytes_min`].
const PARTS_FIT: &str = "The largest batch fits 90 parts, each three quarters full: `MAX_BATCH_BYTES` + 256 × `MAX_BATCH_SIZE` \
                         ≤ 90 × ¾ × `MAX_PART_BYTES`. Another 10 parts are kept for claims that become visible late.";
const _: () =
    assert!(PARTS_MAX == 100 && PARTS_FOR_STRAGGLERS == 10 && CLAIM_OVERHEAD_BYTES == 256);

/// How large a batch and its parts may be. The aggregator fills batches and the batch-processor delivers parts, but
/// both read all three variables and check them together: a batch that needed too many parts would get larger parts
/// than configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchBytes {
    /// Items of a batch.
    pub items_max: u64,
    /// Sum of the bodies and message attributes of a batch.
    pub bytes_max: u64,
    /// Bytes of a part.
    pub part_bytes_max: u64,
}

impl BatchBytes {
    /// Reads the three variables, and checks the rule between them.
    pub fn read(reader: &mut Reader<'_>) -> BatchBytes {
        let read = BatchBytes {
            items_max: reader.number(&MAX_BATCH_SIZE),
            bytes_max: reader.number(&MAX_BATCH_BYTES),
            part_bytes_max: reader.number(&MAX_PART_BYTES),
        };
        let least = read.part_bytes_min();
        let problem = || {
            format!(
                "`{MAX_PART_BYTES}`: too small: got `{}`, expected at least {least} with `{MAX_BATCH_BYTES}` `{}` and `{MAX_BATCH_SIZE}` `{}`: \
                 a batch has at most {PARTS_MAX} parts",
                read.part_bytes_max, read.bytes_max, read.items_max
            )
        };
        reader.rule(PARTS_FIT, (read.part_bytes_max < least).then(problem));
        read
    }

    /// Returns the smallest part size with which the largest batch fits its parts. Three quarters of a part are for
    /// events, each with its body and its overhead.
    const fn part_bytes_min(&self) -> u64 {
        let parts = (PARTS_MAX - PARTS_FOR_STRAGGLERS) as u64;
        let bytes = self.bytes_max + self.items_max * CLAIM_OVERHEAD_BYTES as u64;
        (bytes * 4).div_ceil(parts * 3)
    }
}

/// The variables that both functions read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    pub lock_table: String,
    pub batch_table: String,
    pub batch_queue_url: String,
    /// How long a delivered event id is remembered; with zero, it is not remembered.
    pub dedup_window: Duration,
    pub write_mode: WriteMode,
    /// Requests in flight of one environment.
    pub write_concurrency: usize,
    /// An invocation starts no new request within this time before its deadline.
    pub deadline_margin: Duration,
    pub logs: LogSettings,
}

impl Common {
    /// Reads the variables; returns `None` if a required one is missing or wrong.
    pub fn read(reader: &mut Reader<'_>) -> Option<Common> {
        reader.declare(&[&CONFIG]);
        let lock_table = reader.text(&DDB_LOCK_TABLE, table_name);
        let batch_table = reader.text(&DDB_BATCH_TABLE, table_name);
        let batch_queue_url = reader.text(&BATCH_QUEUE_URL, queue_url);
        let dedup_window = reader.number(&DEDUP_WINDOW);
        let write_mode = reader.word(&WRITE_MODE);
        let write_concurrency = reader.number(&WRITE_CONCURRENCY);
        let deadline_margin_ms = reader.number(&DEADLINE_MARGIN_MS);
        let logs = LogSettings::read(reader);
        Some(Common {
            lock_table: lock_table?,
            batch_table: batch_table?,
            batch_queue_url: batch_queue_url?,
            dedup_window: Duration::from_secs(dedup_window),
            write_mode,
            write_concurrency,
            deadline_margin: Duration::from_millis(deadline_margin_ms),
            logs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_with<T>(
        variables: &[(&str, &str)],
        read: impl FnOnce(&mut Reader<'_>) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut reader = Reader::new(&lookup);
        let read = read(&mut reader);
        reader.finish(read)
    }

    fn read(variables: &[(&str, &str)]) -> Result<Common, ConfigError> {
        read_with(variables, Common::read)
    }

    #[test]
    fn all_problems_are_reported_at_once_with_name_value_and_what_is_expected() {
        let error = read(&[
            ("DDB_LOCK_TABLE", "x"),
            ("BATCH_QUEUE_URL", "queue"),
            ("DEDUP_WINDOW", "an hour"),
            ("WRITE_MODE", "both"),
            ("WRITE_CONCURRENCY", "0"),
        ])
        .unwrap_err();
        let text = error.to_string();
        assert_eq!(error.problems.len(), 6, "{text}");
        for words in [
            "`DDB_LOCK_TABLE`: wrong value: got `x`",
            "`DDB_BATCH_TABLE`: not set",
            "`BATCH_QUEUE_URL`: wrong value: got `queue`, expected the URL of an SQS queue",
            "`DEDUP_WINDOW`: wrong value: got `an hour`, expected a whole number of seconds from 0 to 1123200",
            "`WRITE_MODE`: wrong value: got `both`, expected `auto`, `batch` or `put`",
            "`WRITE_CONCURRENCY`: wrong value: got `0`, expected a whole number of requests from 1 to 900",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }

    #[test]
    fn a_configuration_that_needs_too_many_parts_is_refused_with_the_smallest_allowed_value() {
        let read = |variables: &[(&str, &str)]| {
            read_with(variables, |reader| Some(BatchBytes::read(reader)))
        };
        assert!(read(&[]).is_ok());
        let largest = [
            ("MAX_BATCH_SIZE", "500000"),
            ("MAX_BATCH_BYTES", "4294967296"),
        ];
        assert!(read(&largest).is_ok(), "the largest batch fits the default");
        let with_parts_of = |part_bytes: &str| {
            let batch_bytes = ("MAX_BATCH_BYTES", "200000000");
            read(&[("MAX_PART_BYTES", part_bytes), batch_bytes])
        };
        let error = with_parts_of("1048576").unwrap_err().to_string();
        let words = "`MAX_PART_BYTES`: too small: got `1048576`, expected at least 3152593 with";
        assert!(error.contains(words), "{error}");
        assert!(with_parts_of("3152593").is_ok());
    }

    #[test]
    fn defaults_are_those_that_are_documented() {
        let common = read(&[
            ("DDB_LOCK_TABLE", "lock-table"),
            ("DDB_BATCH_TABLE", "batch-table"),
            (
                "BATCH_QUEUE_URL",
                "http://127.0.0.1:1/000000000000/batch-queue",
            ),
        ])
        .unwrap();
        assert_eq!(common.dedup_window, Duration::from_secs(3_600));
        assert_eq!(common.write_concurrency, 64);
        assert_eq!(common.deadline_margin, Duration::from_secs(3));
    }
}
