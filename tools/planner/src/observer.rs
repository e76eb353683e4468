//! What is seen of a modelled burst: latencies, throttles, and how long each limit held it up.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::limit::Limit;
use crate::record::{LatencySummary, SAMPLES_MAX, Sample};

/// The first distance between two samples, in seconds. It doubles whenever there are too many.
const SAMPLE_SECS_AT_FIRST: f64 = 0.25;
/// Latencies are kept in milliseconds, with two significant digits.
const DIGITS: u8 = 2;

/// Everything that was seen so far.
#[derive(Debug)]
pub struct Observer {
    pub samples: Vec<Sample>,
    /// The seconds from one look to the next.
    pub every: f64,
    /// Seconds for which each limit held the burst up.
    pub held_up: BTreeMap<Limit, f64>,
    throttles: BTreeMap<Limit, f64>,
    deliveries: Histogram<u64>,
    full_batches: Histogram<u64>,
    other_batches: Histogram<u64>,
}

impl Default for Observer {
    fn default() -> Observer {
        Observer {
            samples: Vec::new(),
            every: SAMPLE_SECS_AT_FIRST,
            held_up: BTreeMap::new(),
            throttles: BTreeMap::new(),
            deliveries: histogram(),
            full_batches: histogram(),
            other_batches: histogram(),
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("two digits are allowed")
}

impl Observer {
    /// Adds a sample, and what held the burst up since the last one.
    pub fn look(&mut self, sample: Sample, limit: Limit) {
        *self.held_up.entry(limit).or_default() += self.every;
        self.samples.push(sample);
        if self.samples.len() > SAMPLES_MAX {
            let mut keep = false;
            self.samples.retain(|_| {
                keep = !keep;
                keep
            });
            self.every *= 2.0;
        }
    }

    /// Counts requests that were throttled.
    pub fn throttled(&mut self, limit: Limit, count: f64) {
        *self.throttles.entry(limit).or_default() += count;
    }

    /// Counts the writes that are refused while so many units were waited for.
    pub fn refused(&mut self, limit: Limit, units: f64) {
        self.throttled(limit, units * super::calibration::REFUSED_PER_WRITE);
    }

    /// Returns how many requests each limit throttled; limits that throttled none are absent.
    pub fn throttles(&self) -> impl Iterator<Item = (Limit, u64)> + '_ {
        let throttles = self.throttles.iter();
        let whole = throttles.map(|(limit, count)| (*limit, count.round() as u64));
        whole.filter(|(_, count)| *count > 0)
    }

    /// Returns how many requests were throttled.
    pub fn throttled_total(&self) -> u64 {
        self.throttles.values().sum::<f64>().round() as u64
    }

    /// Notes that events were delivered so long after they were sent.
    pub fn delivered(&mut self, secs: f64, events: u64) {
        record(&mut self.deliveries, secs, events);
    }

    /// Notes that a batch was delivered so long after its last claim.
    pub fn batch_delivered(&mut self, full: bool, secs: f64) {
        let histogram = match full {
            true => &mut self.full_batches,
            false => &mut self.other_batches,
        };
        record(histogram, secs, 1);
    }

    /// Returns the latencies that were seen, each with its name.
    pub fn latencies(&self) -> Vec<LatencySummary> {
        let named = [
            ("send to delivery", &self.deliveries),
            ("last claim to delivery, full batches", &self.full_batches),
            ("last claim to delivery, other batches", &self.other_batches),
        ];
        let seen = named.into_iter();
        let seen = seen.filter(|(_, histogram)| !histogram.is_empty());
        seen.map(|(name, histogram)| summary(name, histogram))
            .collect()
    }
}

fn record(histogram: &mut Histogram<u64>, secs: f64, count: u64) {
    let millis = (secs.max(0.0) * 1_000.0).round() as u64;
    histogram
        .record_n(millis, count)
        .expect("a histogram without a maximum takes any value");
}

fn summary(name: &str, histogram: &Histogram<u64>) -> LatencySummary {
    let secs = |millis: u64| millis as f64 / 1_000.0;
    let at = |quantile| secs(histogram.value_at_quantile(quantile));
    LatencySummary {
        name: name.to_owned(),
        count: histogram.len(),
        min_secs: secs(histogram.min()),
        p50_secs: at(0.5),
        p90_secs: at(0.9),
        p99_secs: at(0.99),
        p999_secs: at(0.999),
        max_secs: secs(histogram.max()),
    }
}
