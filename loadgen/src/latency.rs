//! Collects latencies, and summarises them as percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;
use planner::LatencySummary;

/// The range of a latency in microseconds: up to a day. Longer ones count as a day.
const MICROS_MAX: u64 = 24 * 3600 * 1_000_000;
/// Figures are at most 0.1 % above a value that occurred.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Latencies of one kind, in bounded memory.
#[derive(Clone, Debug)]
pub struct LatencyHistogram(Histogram<u64>);

/// Without latencies.
impl Default for LatencyHistogram {
    fn default() -> Self {
        let micros = Histogram::new_with_bounds(1, MICROS_MAX, SIGNIFICANT_DIGITS);
        Self(micros.expect("the bounds are valid"))
    }
}

impl LatencyHistogram {
    /// Adds a latency that `count` messages had.
    pub fn record(&mut self, latency: Duration, count: u64) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record_n(micros, count);
    }

    /// Returns the percentiles; `None` if there is no latency.
    pub fn summary(&self, name: &str) -> Option<LatencySummary> {
        let secs = |micros: u64| micros as f64 / 1e6;
        let quantile = |quantile| secs(self.0.value_at_quantile(quantile));
        (!self.0.is_empty()).then(|| LatencySummary {
            name: name.to_owned(),
            count: self.0.len(),
            min_secs: secs(self.0.highest_equivalent(self.0.min())),
            p50_secs: quantile(0.5),
            p90_secs: quantile(0.9),
            p99_secs: quantile(0.99),
            p999_secs: quantile(0.999),
            max_secs: secs(self.0.max()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_latency_that_occurred_or_a_little_more() {
        let mut latencies = LatencyHistogram::default();
        assert_eq!(latencies.summary("empty"), None);
        for millis in 1..=1_000 {
            latencies.record(Duration::from_millis(millis), 2);
        }
        let summary = latencies.summary("send").unwrap();
        assert_eq!((summary.name.as_str(), summary.count), ("send", 2_000));
        for (figure, expected) in [
            (summary.min_secs, 0.001),
            (summary.p50_secs, 0.5),
            (summary.p90_secs, 0.9),
            (summary.p99_secs, 0.99),
            (summary.p999_secs, 0.999),
            (summary.max_secs, 1.0),
        ] {
            assert!(
                (expected..expected * 1.001).contains(&figure),
                "{figure} for {expected}"
            );
        }
    }

    #[test]
    fn latencies_out_of_range_are_kept_at_its_end() {
        let mut latencies = LatencyHistogram::default();
        latencies.record(Duration::ZERO, 1);
        latencies.record(Duration::MAX, 1);
        let summary = latencies.summary("send").unwrap();
        assert_eq!(summary.count, 2);
        assert!(summary.max_secs >= 86_400.0);
    }
}
