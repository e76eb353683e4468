//! Reading a configuration from the environment, once, with every problem reported at once.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use protocol::limits::{
    BATCH_ITEMS_MAX, CLAIM_OVERHEAD_BYTES, DEDUP_WINDOW_MAX, DYNAMODB_ITEM_BYTES_MAX,
    PARTS_FOR_STRAGGLERS, PARTS_MAX,
};

/// The lock table.
pub const DDB_LOCK_TABLE: &str = "DDB_LOCK_TABLE";
/// The batch table.
pub const DDB_BATCH_TABLE: &str = "DDB_BATCH_TABLE";
/// The index of the lock table by batch.
pub const DDB_BATCH_INDEX: &str = "DDB_BATCH_INDEX";
/// The batch queue.
pub const BATCH_QUEUE_URL: &str = "BATCH_QUEUE_URL";
/// How long a released id is remembered.
pub const DEDUP_WINDOW: &str = "DEDUP_WINDOW";
/// How claims and releases are written.
pub const WRITE_MODE: &str = "WRITE_MODE";
/// Items of a batch.
pub const MAX_BATCH_SIZE: &str = "MAX_BATCH_SIZE";
/// Sum of the bodies of a batch.
pub const MAX_BATCH_BYTES: &str = "MAX_BATCH_BYTES";
/// What a part holds: bodies, 256 bytes for each event besides, and up to a quarter of it what is known of the whole batch.
pub const MAX_PART_BYTES: &str = "MAX_PART_BYTES";
/// Where messages go that cannot be processed, and events that an operator sets aside.
pub const QUARANTINE_SQS_URL: &str = "QUARANTINE_SQS_URL";
/// Requests in flight.
pub const WRITE_CONCURRENCY: &str = "WRITE_CONCURRENCY";
/// How long before its deadline an invocation starts nothing new.
pub const DEADLINE_MARGIN_MS: &str = "DEADLINE_MARGIN_MS";

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// One line each.
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration has {} problem(s)", self.problems.len())?;
        self.problems
            .iter()
            .try_for_each(|problem| write!(f, "; {problem}"))
    }
}

impl std::error::Error for ConfigError {}

/// Reads variables and collects what is wrong with them.
pub struct Reader<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
}

impl<'a> Reader<'a> {
    /// Over any source of variables: the environment in `main`, a map in tests.
    pub fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Reader<'a> {
        Reader {
            lookup,
            problems: Vec::new(),
        }
    }

    fn raw(&self, name: &str) -> Option<String> {
        (self.lookup)(name)
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    }

    /// A variable that must be there; `allowed` says what it may be.
    pub fn required<T>(
        &mut self,
        name: &str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        match self.raw(name) {
            Some(value) => self.parse(name, &value, allowed, parse),
            None => {
                self.problem(format!("`{name}` is not set, expected {allowed}"));
                None
            }
        }
    }

    /// A variable that may be missing or empty.
    pub fn optional<T>(
        &mut self,
        name: &str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = self.raw(name)?;
        self.parse(name, &value, allowed, parse)
    }

    /// A whole number within bounds, or its default.
    pub fn number<T>(&mut self, name: &str, unit: &str, default: T, min: T, max: T) -> T
    where
        T: Copy + PartialOrd + FromStr + fmt::Display,
    {
        let allowed = format!("a whole number of {unit} from {min} to {max}");
        let parse = |text: &str| {
            text.parse()
                .ok()
                .filter(|number| *number >= min && *number <= max)
        };
        self.optional(name, &allowed, parse).unwrap_or(default)
    }

    /// Whether a variable has a value.
    pub fn is_set(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    /// Returns the text of a variable, if it has any.
    pub fn value(&self, name: &str) -> Option<String> {
        self.raw(name)
    }

    /// A variable whose parser says itself what is wrong.
    pub fn optional_with<T, E: fmt::Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.raw(name)?;
        parse(&value)
            .map_err(|error| self.problem(format!("`{name}` is `{value}`: {error}")))
            .ok()
    }

    fn parse<T>(
        &mut self,
        name: &str,
        value: &str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let parsed = parse(value);
        if parsed.is_none() {
            self.problem(format!("`{name}` is `{value}`, expected {allowed}"));
        }
        parsed
    }

    /// Adds a problem of several variables together.
    pub fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// `config`, if nothing was wrong.
    ///
    /// # Errors
    /// [`ConfigError`] with every problem found.
    pub fn finish<T>(self, config: Option<T>) -> Result<T, ConfigError> {
        match config {
            Some(config) if self.problems.is_empty() => Ok(config),
            Some(_) | None => Err(ConfigError {
                problems: self.problems,
            }),
        }
    }
}

/// Whether `url` may be the URL of a queue.
pub fn queue_url(url: &str) -> Option<String> {
    (url.starts_with("https://") || url.starts_with("http://")).then(|| url.to_owned())
}

/// Whether `name` may be the name or ARN of a table or index.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html>.
pub fn table_name(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
    (name.len() >= 3 && name.chars().all(fits)).then(|| name.to_owned())
}

/// Whether `name` may be the name of a bucket.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>.
pub fn bucket_name(name: &str) -> Option<Arc<str>> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    ((3..=63).contains(&name.len()) && name.chars().all(fits)).then(|| name.into())
}

/// What [`bucket_name`] allows.
pub const BUCKET_NAME: &str = "the name of a bucket, 3 to 63 of `a-z 0-9 - .`";
/// What [`table_name`] allows.
pub const TABLE_NAME: &str = "a name of 3 or more of `A-Z a-z 0-9 _ - .`, or an ARN";
/// What [`queue_url`] allows.
pub const QUEUE_URL: &str = "the URL of an SQS queue";

/// How claims and releases are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// PartiQL, 25 statements a request: fewest requests, connections and signatures.
    Batch,
    /// One conditional call an item, which tells at once what it met; also for stores without PartiQL.
    Put,
}

/// How large a batch and its parts may be. The aggregator fills batches and the batch processor delivers parts, but each
/// reads all three: a batch that takes more parts than there may be would be delivered in larger ones than anybody wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchBytes {
    /// Items of a batch.
    pub items_max: u64,
    /// Sum of the bodies of a batch.
    pub bytes_max: u64,
    /// What a part holds.
    pub part_bytes_max: u64,
}

impl BatchBytes {
    /// Reads the three variables, and whether they go together.
    pub fn read(reader: &mut Reader<'_>) -> BatchBytes {
        // At least one item of the largest kind; at most what the parts of one batch hold as they are by default.
        let bytes_min = DYNAMODB_ITEM_BYTES_MAX as u64;
        let items_max = reader.number(MAX_BATCH_SIZE, "items", 50_000, 1, BATCH_ITEMS_MAX);
        let bytes_max = reader.number(MAX_BATCH_BYTES, "bytes", 128 << 20, bytes_min, 4 << 30);
        let part_bytes_max = reader.number(MAX_PART_BYTES, "bytes", 64 << 20, 1_024, 1 << 30);
        let read = BatchBytes {
            items_max,
            bytes_max,
            part_bytes_max,
        };
        let least = read.part_bytes_min();
        if read.part_bytes_max < least {
            reader.problem(format!(
                "`{MAX_PART_BYTES}` is `{}`, expected at least {least} with `{MAX_BATCH_BYTES}` `{}` and `{MAX_BATCH_SIZE}` `{}`: \
                 a batch has at most {PARTS_MAX} parts",
                read.part_bytes_max, read.bytes_max, read.items_max
            ));
        }
        read
    }

    /// Returns the least a part must hold so that the largest batch comes to no more parts than there may be. Three
    /// quarters of a part are for events, each with what it takes besides its body.
    fn part_bytes_min(&self) -> u64 {
        let parts = (PARTS_MAX - PARTS_FOR_STRAGGLERS) as u64;
        let bytes = self.bytes_max + self.items_max * CLAIM_OVERHEAD_BYTES as u64;
        (bytes * 4).div_ceil(parts * 3)
    }
}

/// What both functions read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// The lock table.
    pub lock_table: String,
    /// The batch table.
    pub batch_table: String,
    /// The batch queue.
    pub batch_queue_url: String,
    /// How long a released id is remembered; zero is not at all.
    pub dedup_window: Duration,
    /// How claims and releases are written.
    pub write_mode: WriteMode,
    /// Requests in flight.
    pub write_concurrency: usize,
    /// How long before its deadline an invocation starts nothing new.
    pub deadline_margin: Duration,
}

impl Common {
    /// Reads what both functions read.
    pub fn read(reader: &mut Reader<'_>) -> Option<Common> {
        let lock_table = reader.required(DDB_LOCK_TABLE, TABLE_NAME, table_name);
        let batch_table = reader.required(DDB_BATCH_TABLE, TABLE_NAME, table_name);
        let batch_queue_url = reader.required(BATCH_QUEUE_URL, QUEUE_URL, queue_url);
        let dedup_window = reader.number(
            DEDUP_WINDOW,
            "seconds",
            3_600,
            0,
            DEDUP_WINDOW_MAX.as_secs(),
        );
        let write_mode = reader
            .optional(WRITE_MODE, "`batch` or `put`", |text| match text {
                "batch" => Some(WriteMode::Batch),
                "put" => Some(WriteMode::Put),
                _ => None,
            })
            .unwrap_or(WriteMode::Batch);
        // An environment has 1,024 file descriptors, and each request in flight takes one.
        let write_concurrency = reader.number(WRITE_CONCURRENCY, "requests", 64, 1, 900);
        let deadline_margin_ms =
            reader.number(DEADLINE_MARGIN_MS, "milliseconds", 3_000, 100, 60_000);
        Some(Common {
            lock_table: lock_table?,
            batch_table: batch_table?,
            batch_queue_url: batch_queue_url?,
            dedup_window: Duration::from_secs(dedup_window),
            write_mode,
            write_concurrency,
            deadline_margin: Duration::from_millis(deadline_margin_ms),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Common, ConfigError> {
        let lookup = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let mut reader = Reader::new(&lookup);
        let common = Common::read(&mut reader);
        reader.finish(common)
    }

    #[test]
    fn every_problem_is_reported_at_once_with_name_value_and_what_is_allowed() {
        let error = read(&[
            (DDB_LOCK_TABLE, "x"),
            (BATCH_QUEUE_URL, "queue"),
            (DEDUP_WINDOW, "an hour"),
            (WRITE_MODE, "both"),
            (WRITE_CONCURRENCY, "0"),
        ])
        .unwrap_err();
        let text = error.to_string();
        assert_eq!(error.problems.len(), 6, "{text}");
        for words in [
            "`DDB_LOCK_TABLE` is `x`",
            "`DDB_BATCH_TABLE` is not set",
            "`BATCH_QUEUE_URL` is `queue`, expected the URL of an SQS queue",
            "`DEDUP_WINDOW` is `an hour`, expected a whole number of seconds from 0 to 1123200",
            "`WRITE_MODE` is `both`, expected `batch` or `put`",
            "`WRITE_CONCURRENCY` is `0`, expected a whole number of requests from 1 to 900",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }

    #[test]
    fn a_batch_that_would_need_too_many_parts_is_refused_with_what_would_do() {
        let read = |variables: &[(&str, &str)]| {
            let lookup = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let mut reader = Reader::new(&lookup);
            let read = BatchBytes::read(&mut reader);
            reader.finish(Some(read))
        };
        assert!(read(&[]).is_ok());
        let largest = [(MAX_BATCH_SIZE, "500000"), (MAX_BATCH_BYTES, "4294967296")];
        assert!(read(&largest).is_ok(), "the largest batch fits the default");
        let stranded = [(MAX_PART_BYTES, "1048576"), (MAX_BATCH_BYTES, "200000000")];
        let error = read(&stranded).unwrap_err().to_string();
        assert!(
            error.contains("`MAX_PART_BYTES` is `1048576`, expected at least 3152593 with"),
            "{error}"
        );
        let least = [(MAX_PART_BYTES, "3152593"), (MAX_BATCH_BYTES, "200000000")];
        assert!(read(&least).is_ok());
    }

    #[test]
    fn defaults_are_those_of_the_design() {
        let common = read(&[
            (DDB_LOCK_TABLE, "lock-table"),
            (DDB_BATCH_TABLE, "batch-table"),
            (
                BATCH_QUEUE_URL,
                "http://127.0.0.1:1/000000000000/batch-queue",
            ),
        ])
        .unwrap();
        assert_eq!(common.dedup_window, Duration::from_secs(3_600));
        assert_eq!(common.write_concurrency, 64);
        assert_eq!(common.deadline_margin, Duration::from_secs(3));
    }
}
