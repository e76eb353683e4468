//! Metrics in the CloudWatch embedded metric format: a log line instead of a request.
//! Source: <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use protocol::time::Timestamp;

/// The CloudWatch namespace of every metric.
pub const NAMESPACE: &str = "UniqueEventBatchAggregator";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Milliseconds,
}

impl Unit {
    const fn as_str(self) -> &'static str {
        match self {
            Unit::Count => "Count",
            Unit::Milliseconds => "Milliseconds",
        }
    }
}

/// The metrics of one invocation and one event source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    values: BTreeMap<&'static str, (Unit, f64)>,
}

impl Metrics {
    pub fn new() -> Metrics {
        Metrics::default()
    }

    pub fn count(&mut self, name: &'static str, by: u64) {
        self.values.entry(name).or_insert((Unit::Count, 0.0)).1 += by as f64;
    }

    /// Sets a duration in milliseconds.
    pub fn milliseconds(&mut self, name: &'static str, value: u128) {
        self.values.insert(name, (Unit::Milliseconds, value as f64));
    }

    /// Returns the value of a metric, 0 when it was never set.
    pub fn get(&self, name: &str) -> f64 {
        self.values.get(name).map_or(0.0, |(_, value)| *value)
    }

    /// Returns whether all values are zero.
    pub fn is_empty(&self) -> bool {
        self.values.values().all(|(_, value)| *value == 0.0)
    }

    /// Returns the log line, with the dimensions `function` and `source`.
    pub fn line(&self, function: &str, source: &str, now: Timestamp) -> String {
        let definitions: Vec<Value> = self
            .values
            .iter()
            .map(|(name, (unit, _))| json!({ "Name": name, "Unit": unit.as_str() }))
            .collect();
        let mut line = Map::new();
        line.insert(
            "_aws".to_owned(),
            json!({
                "Timestamp": now.as_ms(),
                "CloudWatchMetrics": [{
                    "Namespace": NAMESPACE,
                    "Dimensions": [["function", "source"]],
                    "Metrics": definitions,
                }],
            }),
        );
        line.insert("function".to_owned(), json!(function));
        line.insert("source".to_owned(), json!(source));
        for (name, (_, value)) in &self.values {
            line.insert((*name).to_owned(), json!(value));
        }
        Value::Object(line).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_every_metric_it_carries() {
        let mut metrics = Metrics::new();
        metrics.count("Claimed", 3);
        metrics.count("Claimed", 4);
        metrics.milliseconds("DeliverTime", 12);
        let line: Value =
            serde_json::from_str(&metrics.line("aggregator", "queue", Timestamp::from_ms(7)))
                .unwrap();
        assert_eq!(line["Claimed"], 7.0);
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(
            directive["Metrics"][1],
            json!({ "Name": "DeliverTime", "Unit": "Milliseconds" })
        );
        assert_eq!(directive["Dimensions"][0], json!(["function", "source"]));
        assert_eq!(line["function"], "aggregator");
    }
}
