//! The record of a run: what happened in a burst, or what a plan expects.
//!
//! `batch-local burst`, `loadgen burst` and `loadgen plan` write one as JSON, and `loadgen report` draws it. All times are
//! seconds from the start of the run; all counts of a sample are totals from the start. A field that a run could not
//! observe is absent, never 0.

use serde::{Deserialize, Serialize};

/// The version of the format. A reader refuses later versions.
const RECORD_VERSION: u32 = 2;

/// The earliest version that a reader takes: later ones have only added fields that may be absent.
const RECORD_VERSION_MIN: u32 = 1;

/// What happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The version of the format: a reader refuses later ones.
    pub version: u32,
    /// Whether the run took place.
    pub kind: RecordKind,
    /// A line for people that tells this run from others.
    pub title: String,
    /// When the run began, in milliseconds of Unix time; absent in a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_at_ms: Option<u64>,
    /// Where the run took place, and with which configuration, in the order in which a reader wants it.
    pub settings: Vec<Setting>,
    /// The figures of the whole run.
    pub outcome: Outcome,
    /// What was seen at points in time, in order. Any distance is fine; [`SAMPLES_MAX`] is the most.
    pub samples: Vec<Sample>,
    /// The batches, in the order in which they were opened.
    pub batches: Vec<BatchSpan>,
    /// Distributions of latencies, each with its name.
    pub latencies: Vec<LatencySummary>,
    /// What refused requests, and how often.
    pub throttles: Vec<Throttle>,
    /// What the run cost, by purpose.
    pub costs: Vec<Cost>,
    /// What a reader has to know about the figures: assumptions, parts that could not be observed, faults that were on.
    pub notes: Vec<String>,
}

/// The most samples of a record. A longer run has samples further apart.
pub const SAMPLES_MAX: usize = 2_000;

/// Whether the run of a record took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// A burst that was sent.
    Burst,
    /// A plan, computed by a model.
    Plan,
}

/// A name and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// `Messages`, `Region`, or the name of a variable or parameter.
    pub name: String,
    pub value: String,
}

/// The figures of a whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Whether nothing was lost, repeated, set aside or left in error. Absent if the sink could not be audited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// Why the run is not `ok`, a phrase with its count each. From version 2 on; empty if the run is `ok`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    pub sent: u64,
    pub unique: u64,
    /// Messages that repeat an earlier one.
    pub duplicates: u64,
    /// The fields up to `repeated` are what the audit found; absent without an audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u64>,
    /// Messages in the quarantine and in the dead-letter queues; absent if they were not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<u64>,
    /// When the last message was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_after_secs: Option<f64>,
    /// When the input queue was empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_after_secs: Option<f64>,
    /// When the last batch was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained_after_secs: Option<f64>,
    /// Requests of the sender that were retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_retries: Option<u64>,
}

/// What was seen at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    pub at_secs: f64,
    /// Messages that the queue acknowledged to the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// Messages that were taken off the input queue: claimed, or recognised as duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<u64>,
    /// Events that were claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<u64>,
    /// Messages that were recognised as duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<u64>,
    /// Events in delivered parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<u64>,
    /// Messages in the input queue that no consumer has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible: Option<u64>,
    /// Messages in the input queue that a consumer has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// Age of the oldest message in the input queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_secs: Option<f64>,
    /// Environments of the aggregator that have an invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregators: Option<u64>,
    /// Environments of the batch-processor that have an invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_processors: Option<u64>,
    /// Requests that were throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<u64>,
    /// Messages that came back to the input queue after an attempt that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<u64>,
}

/// The life of one batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSpan {
    pub batch_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_key: Option<String>,
    pub opened_secs: f64,
    /// When it was closed: when it was sealed, or when its window ended. From then on it got no claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_secs: Option<f64>,
    /// When a processor first had the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leased_secs: Option<f64>,
    /// When the last part was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_secs: Option<f64>,
    pub events: u64,
    pub parts: u64,
    /// Why the batch was closed; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushed: Option<Flushed>,
    /// The invocations that filled it; one that reserved seats in it twice counts twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocations: Option<u64>,
}

/// When a part was delivered, in seconds from the beginning of the burst. A record has it only for batches.
#[derive(Clone, Debug, PartialEq)]
pub struct PartTime {
    pub batch_id: String,
    pub part: u64,
    pub at_secs: f64,
}

/// Why a batch was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flushed {
    /// It was full.
    Full,
    /// The input queue was empty.
    Drained,
    /// Its window ended.
    Window,
}

/// The distribution of a latency, in seconds. Each figure is a value that occurred, or at most 1 % above it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencySummary {
    /// What was measured, for people: `scheduled send to delivery`.
    pub name: String,
    pub count: u64,
    pub min_secs: f64,
    pub p50_secs: f64,
    pub p90_secs: f64,
    pub p99_secs: f64,
    pub p999_secs: f64,
    pub max_secs: f64,
}

/// Requests that one resource refused for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    /// `lock-table`, `aggregator`, …
    pub resource: String,
    pub reason: String,
    pub count: u64,
}

/// What one purpose cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// `writes`, `reads`, `queues`, `functions`, …
    pub purpose: String,
    /// Units that the price is for, as a count with its name: `402200 write units`.
    pub quantity: String,
    /// Dollars for the whole run.
    pub dollars: f64,
    /// Dollars for a million unique events.
    pub dollars_per_million_unique: f64,
}

/// Why a file is not a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The text is not JSON, or not of this shape.
    #[error("the record: not a record of a run: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The record was written by another version.
    #[error(
        "the record: wrong version: got `{0}`, expected {RECORD_VERSION_MIN} to {RECORD_VERSION}"
    )]
    Version(u64),
}

impl Record {
    /// Returns a record of a run in which nothing was observed.
    pub fn bare(kind: RecordKind, title: impl Into<String>) -> Record {
        Record {
            version: RECORD_VERSION,
            kind,
            title: title.into(),
            began_at_ms: None,
            settings: Vec::new(),
            outcome: Outcome::default(),
            samples: Vec::new(),
            batches: Vec::new(),
            latencies: Vec::new(),
            throttles: Vec::new(),
            costs: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The text is not a record, or one of another version.
    pub fn from_json(text: &str) -> Result<Record, RecordError> {
        let json: serde_json::Value = serde_json::from_str(text)?;
        // Looked at first: a record of another version fails in its fields too, and that error would mislead.
        match json.get("version").and_then(serde_json::Value::as_u64) {
            Some(version)
                if !(u64::from(RECORD_VERSION_MIN)..=u64::from(RECORD_VERSION))
                    .contains(&version) =>
            {
                Err(RecordError::Version(version))
            }
            Some(_) | None => Ok(serde_json::from_value(json)?),
        }
    }

    /// Returns the record as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a record has only JSON keys that are texts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            began_at_ms: Some(1_764_000_000_000),
            settings: vec![Setting {
                name: "BODIES".into(),
                value: "items".into(),
            }],
            outcome: Outcome {
                sent: 10,
                unique: 9,
                duplicates: 1,
                ..Outcome::default()
            },
            samples: vec![Sample {
                at_secs: 0.5,
                sent: Some(3),
                ..Sample::default()
            }],
            ..Record::bare(RecordKind::Burst, "a burst")
        }
    }

    #[test]
    fn a_record_reads_as_it_was_written() {
        assert_eq!(Record::from_json(&record().to_json()).unwrap(), record());
        assert!(
            !record().to_json().contains("visible"),
            "what was not observed is absent"
        );
    }

    #[test]
    fn a_record_of_version_1_is_read_and_has_no_reasons() {
        let text = record().to_json().replace("\"version\":2", "\"version\":1");
        let read = Record::from_json(&text).unwrap();
        assert_eq!((read.version, read.outcome.reasons), (1, Vec::new()));
    }

    #[test]
    fn other_versions_and_other_files_are_refused_by_name() {
        let text = record()
            .to_json()
            .replace("\"version\":2", "\"version\":7,\"later\":0");
        let error = Record::from_json(&text).unwrap_err().to_string();
        assert_eq!(error, "the record: wrong version: got `7`, expected 1 to 2");
        let error = Record::from_json("{\"lost\":0}").unwrap_err().to_string();
        assert!(
            error.starts_with("the record: not a record of a run: "),
            "{error}"
        );
    }
}
