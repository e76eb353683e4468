//! What was seen within the last hour, for charts.

use std::collections::VecDeque;
use std::time::Duration;

use protocol::time::Timestamp;
use serde::Serialize;

use super::counts::Counts;
use super::flow::Rates;
use super::queues::{QueueDepth, Role};

/// How far back the history goes.
const LENGTH: Duration = Duration::from_secs(3_600);
/// The time between two samples, at least, so that an hour of them is not too many.
const EVERY: Duration = Duration::from_secs(5);
/// The most samples that it has.
const SAMPLES_MAX: usize = 720;

/// A point of the charts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    pub at: Timestamp,
    /// Messages of the input queue, visible or in flight; `None` if it was not read.
    pub input: Option<u64>,
    /// `None` at the first look.
    pub rates: Option<Rates>,
    /// Batches that are not complete.
    pub incomplete: usize,
}

/// The samples of the last hour, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct History {
    samples: VecDeque<Sample>,
}

impl Sample {
    pub(super) fn of(
        at: Timestamp,
        counts: &Counts,
        queues: &[QueueDepth],
        rates: Option<Rates>,
    ) -> Sample {
        let input = queues.iter().find(|queue| queue.role == Role::Input);
        Sample {
            at,
            input: input.map(|queue| queue.visible + queue.in_flight),
            rates,
            incomplete: counts.incomplete(),
        }
    }
}

impl History {
    /// Adds a sample, and drops those that are too old or too many.
    pub(crate) fn push(&mut self, sample: Sample) {
        let last = self.samples.back();
        if last.is_some_and(|last| last.at.until(sample.at) < EVERY) {
            return;
        }
        let since = sample.at.saturating_sub(LENGTH);
        self.samples.push_back(sample);
        let over = self.samples.len().saturating_sub(SAMPLES_MAX);
        self.samples.drain(..over);
        self.samples.retain(|sample| sample.at >= since);
    }

    /// Returns the samples, the oldest first.
    pub fn samples(&self) -> impl DoubleEndedIterator<Item = &Sample> + ExactSizeIterator {
        self.samples.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_has_the_samples_of_an_hour_and_not_too_many() {
        let mut history = History::default();
        let mut push = |secs: u64| {
            history.push(Sample {
                at: Timestamp::from_ms(secs * 1_000),
                input: None,
                rates: None,
                incomplete: 0,
            });
            let first = history.samples().next().unwrap().at.as_ms() / 1_000;
            (history.samples().len(), first)
        };
        assert_eq!(push(0), (1, 0));
        assert_eq!(push(1_800), (2, 0));
        assert_eq!(push(3_600), (3, 0));
        assert_eq!(push(3_602), (3, 0), "too soon");
        assert_eq!(push(3_606), (3, 1_800));
        let last = (3_611..8_000).step_by(5).map(push).last();
        assert_eq!(
            last,
            Some((SAMPLES_MAX, 7_996 - 5 * (SAMPLES_MAX as u64 - 1)))
        );
    }
}
