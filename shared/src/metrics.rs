//! The types of metrics, and the log line that CloudWatch reads them from: the embedded metric format.
//!
//! Each function declares its metrics as a struct with fields of these types, and `docs/metrics.md` is generated from the
//! structs. A line has the metrics of one source, because CloudWatch takes the value of a dimension from the line: an
//! invocation with messages of several sources writes a line for each.
//! Source: <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>
//! (2026-11).

use std::time::{Duration, SystemTime};

use metrique_writer::format::Format as _;
use metrique_writer::unit::{NegativeScale, PositiveScale};
use metrique_writer::{Entry, EntryWriter, MetricFlags, Observation, Unit, Value, ValueWriter};
use metrique_writer_format_emf::Emf;
use protocol::time::Timestamp;
use tracing::error;

use crate::ports::MetricLog;

/// The CloudWatch namespace of every metric.
pub const NAMESPACE: &str = "UniqueEventBatchAggregator";

/// The dimensions of every metric: the name of the function, and the ARN of the queue or another word for it.
pub const DIMENSIONS: [&str; 2] = ["function", "source"];

const MILLISECONDS: Unit = Unit::Second(NegativeScale::Milli);
const BYTES: Unit = Unit::Byte(PositiveScale::One);

/// How many times something happened in an invocation. Zero is left out of the line, because CloudWatch charges for each
/// metric that is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count(u64);

impl Count {
    pub fn add(&mut self, by: u64) {
        self.0 += by;
    }

    pub fn get(self) -> u64 {
        self.0
    }
}

/// A number of bytes in an invocation. Zero is left out of the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes(u64);

impl Bytes {
    pub fn add(&mut self, by: u64) {
        self.0 += by;
    }
}

/// The longest of the times that were measured in an invocation, in milliseconds. Left out of the line if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestTime(Option<u64>);

impl LongestTime {
    pub fn measured(&mut self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.0 = self.0.max(Some(ms));
    }
}

/// The lowest of the percentages that were measured in an invocation. Left out of the line if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LowestPercent(Option<f64>);

impl LowestPercent {
    /// Measures `part` of `whole`.
    pub fn measured(&mut self, part: u64, whole: u64) {
        let percent = part as f64 * 100.0 / whole.max(1) as f64;
        self.0 = Some(self.0.map_or(percent, |lowest| lowest.min(percent)));
    }
}

/// How many things there are. Zero is in the line too: an alarm recovers only when it sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level(pub u64);

/// The age of the oldest thing, in milliseconds; zero, which is in the line too, if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldestAge(pub u64);

fn write_one(writer: impl ValueWriter, observation: Observation, unit: Unit) {
    writer.metric([observation], unit, [], MetricFlags::empty());
}

impl Value for Count {
    const UNIT: Unit = Unit::Count;

    fn write(&self, writer: impl ValueWriter) {
        if self.0 > 0 {
            write_one(writer, Observation::Unsigned(self.0), Self::UNIT);
        }
    }
}

impl Value for Bytes {
    const UNIT: Unit = BYTES;

    fn write(&self, writer: impl ValueWriter) {
        if self.0 > 0 {
            write_one(writer, Observation::Unsigned(self.0), Self::UNIT);
        }
    }
}

impl Value for LongestTime {
    const UNIT: Unit = MILLISECONDS;

    fn write(&self, writer: impl ValueWriter) {
        if let Some(ms) = self.0 {
            write_one(writer, Observation::Unsigned(ms), Self::UNIT);
        }
    }
}

impl Value for LowestPercent {
    const UNIT: Unit = Unit::Percent;

    fn write(&self, writer: impl ValueWriter) {
        if let Some(percent) = self.0 {
            write_one(writer, Observation::Floating(percent), Self::UNIT);
        }
    }
}

impl Value for Level {
    const UNIT: Unit = Unit::Count;

    fn write(&self, writer: impl ValueWriter) {
        write_one(writer, Observation::Unsigned(self.0), Self::UNIT);
    }
}

impl Value for OldestAge {
    const UNIT: Unit = MILLISECONDS;

    fn write(&self, writer: impl ValueWriter) {
        write_one(writer, Observation::Unsigned(self.0), Self::UNIT);
    }
}

/// The subject of the metrics of a line.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The name of the function.
    pub function: &'a str,
    /// The ARN of the queue that the messages or the batch came from, or another word for the source.
    pub source: &'a str,
    pub at: Timestamp,
}

struct Line<'a, M> {
    about: About<'a>,
    metrics: &'a M,
}

impl<M: Entry> Entry for Line<'_, M> {
    fn write<'a>(&'a self, writer: &mut impl EntryWriter<'a>) {
        let since_epoch = Duration::from_millis(self.about.at.as_ms());
        writer.timestamp(SystemTime::UNIX_EPOCH + since_epoch);
        let [function, source] = DIMENSIONS;
        writer.value(function, self.about.function);
        writer.value(source, self.about.source);
        self.metrics.write(writer);
    }
}

/// Writes a line with these metrics. Metrics that cannot be written are only logged, because no invocation fails for them.
pub fn write_line(log: &dyn MetricLog, about: About<'_>, metrics: &impl Entry) {
    let dimensions = vec![DIMENSIONS.map(str::to_owned).to_vec()];
    let mut line = Vec::new();
    // Builds with debug assertions, which all tests are, refuse a name that occurs twice and a dimension without a value.
    let written = Emf::builder(NAMESPACE.to_owned(), dimensions)
        .build()
        .format(&Line { about, metrics }, &mut line);
    match (written, std::str::from_utf8(&line)) {
        (Ok(()), Ok(text)) => log.write(text.trim_end()),
        (Err(error), _) => error!(%error, "metrics not written"),
        (Ok(()), Err(error)) => error!(%error, "metrics not written"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::memory::MemoryMetricLog;

    #[derive(Debug, Default, Entry)]
    #[entry(rename_all = "PascalCase")]
    struct Metrics {
        claimed: Count,
        claimed_bytes: Bytes,
        deliver_time: LongestTime,
        fill_ratio: LowestPercent,
        batches_overdue: Level,
        oldest_overdue_age: OldestAge,
    }

    fn line(metrics: &Metrics, function: &str) -> Json {
        let log = MemoryMetricLog::default();
        let about = About {
            function,
            source: "queue",
            at: Timestamp::from_ms(7),
        };
        write_line(&log, about, metrics);
        let [line] = &log.take()[..] else {
            panic!("one line");
        };
        assert!(!line.contains('\n'), "{line}");
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn a_line_has_every_metric_with_its_unit() {
        let mut metrics = Metrics::default();
        metrics.claimed.add(3);
        metrics.claimed.add(4);
        metrics.claimed_bytes.add(900);
        for ms in [12, 30, 20] {
            metrics.deliver_time.measured(Duration::from_millis(ms));
        }
        metrics.fill_ratio.measured(9, 10);
        metrics.fill_ratio.measured(1, 8);
        metrics.batches_overdue = Level(2);
        metrics.oldest_overdue_age = OldestAge(30);
        let expected = json!({
            "_aws": {
                "Timestamp": 7,
                "CloudWatchMetrics": [{
                    "Namespace": NAMESPACE,
                    "Dimensions": [["function", "source"]],
                    "Metrics": [
                        { "Name": "Claimed", "Unit": "Count" },
                        { "Name": "ClaimedBytes", "Unit": "Bytes" },
                        { "Name": "DeliverTime", "Unit": "Milliseconds" },
                        { "Name": "FillRatio", "Unit": "Percent" },
                        { "Name": "BatchesOverdue", "Unit": "Count" },
                        { "Name": "OldestOverdueAge", "Unit": "Milliseconds" },
                    ],
                }],
            },
            "function": "aggregator",
            "source": "queue",
            "Claimed": 7,
            "ClaimedBytes": 900,
            "DeliverTime": 30,
            "FillRatio": 12.5,
            "BatchesOverdue": 2,
            "OldestOverdueAge": 30,
        });
        assert_eq!(line(&metrics, "aggregator"), expected);
    }

    #[test]
    fn only_levels_and_oldest_ages_are_written_when_they_are_zero() {
        let line = line(&Metrics::default(), "a \"quoted\" name\n");
        assert_eq!(line["function"], "a \"quoted\" name\n");
        let definitions = &line["_aws"]["CloudWatchMetrics"][0]["Metrics"];
        let names: Vec<&str> = definitions
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["Name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["BatchesOverdue", "OldestOverdueAge"]);
    }
}
