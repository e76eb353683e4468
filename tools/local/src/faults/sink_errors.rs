//! Deliveries that the sink makes fail: some before they are stored, some after.

use std::sync::Arc;

use emulators::{Counter, Percent, RandomStream, StoreOutcome};

use super::options::FaultOptions;
use super::outages::{Outages, Timeline};
use super::report::SinkErrorsReport;
use super::sink_cuts::SinkCuts;

/// Decides which deliveries fail, and counts them.
#[derive(Debug)]
pub struct SinkErrors {
    percent: Percent,
    draws: RandomStream,
    before: Counter,
    after: Counter,
    pub(super) outages: Outages,
    /// The cuts of connections to the sink.
    pub(crate) cuts: SinkCuts,
}

impl SinkErrors {
    /// Returns the failures of these options, with a timeline that has not begun.
    pub fn new(options: &FaultOptions) -> SinkErrors {
        SinkErrors::with_timeline(options, Arc::default())
    }

    /// Returns the failures of these options. Outages count from the beginning of `timeline`.
    pub(super) fn with_timeline(options: &FaultOptions, timeline: Arc<Timeline>) -> SinkErrors {
        SinkErrors {
            percent: options.sink_error_rate,
            draws: RandomStream::new(options.seed, "deliveries to the sink"),
            before: Counter::default(),
            after: Counter::default(),
            outages: Outages::new(&options.sink_outages, timeline),
            cuts: SinkCuts::new(options),
        }
    }

    /// Returns whether the sink is down, and counts the request that asks as refused.
    pub(crate) fn refuses_request(&self) -> bool {
        self.outages.refuses()
    }

    /// Returns what to do with the next delivery.
    pub(crate) fn next(&self) -> StoreOutcome {
        if self.refuses_request() {
            return StoreOutcome::FailsBeforeStoring;
        }
        if !self.draws.happens(self.percent) {
            return StoreOutcome::Normal;
        }
        let (outcome, counter) = match self.draws.below(2) {
            0 => (StoreOutcome::FailsBeforeStoring, &self.before),
            _ => (StoreOutcome::FailsAfterStoring, &self.after),
        };
        counter.add(1);
        outcome
    }

    /// Returns the counts of failed deliveries, without those refused in outages.
    pub(super) fn report(&self) -> SinkErrorsReport {
        SinkErrorsReport {
            before: self.before.get(),
            after: self.after.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_fail_both_ways_and_as_often_as_asked_for() {
        let errors = SinkErrors::new(&FaultOptions {
            sink_error_rate: "10".parse().unwrap(),
            ..FaultOptions::default()
        });
        let failed = (0..1_000).filter(|_| errors.next() != StoreOutcome::Normal);
        let failed = failed.count() as u64;
        let report = errors.report();
        assert!((60..140).contains(&failed), "{failed}");
        assert_eq!(report.before + report.after, failed);
        assert!(report.before > 20 && report.after > 20, "{report:?}");
    }

    #[test]
    fn while_the_sink_is_down_nothing_is_stored() {
        let errors = SinkErrors::new(&FaultOptions {
            sink_outages: vec!["0:3600".parse().unwrap()],
            ..FaultOptions::default()
        });
        assert!((0..100).all(|_| errors.next() == StoreOutcome::FailsBeforeStoring));
        assert_eq!(errors.outages.refused(), [100]);
        assert_eq!(errors.report().before, 0, "those are not drawn");
    }
}
