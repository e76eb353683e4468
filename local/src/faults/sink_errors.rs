//! Deliveries that fail at the sink's end: refused, or taken and then called refused.

use std::sync::Arc;

use emulators::{Counter, Draws, Percent};

use super::options::FaultOptions;
use super::outages::{Outages, Timeline};
use super::report::SinkErrorsReport;

/// Which deliveries fail, and how.
#[derive(Debug)]
pub struct SinkErrors {
    percent: Percent,
    draws: Draws,
    before: Counter,
    after: Counter,
    outages: Outages,
}

/// What becomes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// What it would be without faults.
    Answered,
    /// It fails, and nothing was stored.
    FailsBefore,
    /// It fails as seen from outside, having been stored.
    FailsAfter,
}

impl SinkErrors {
    /// The failures that the options ask for, in a burst that has not begun.
    pub fn new(options: &FaultOptions) -> SinkErrors {
        SinkErrors::on(options, Arc::default())
    }

    /// As [`new`](Self::new), in the burst of this timeline.
    pub(super) fn on(options: &FaultOptions, timeline: Arc<Timeline>) -> SinkErrors {
        SinkErrors {
            percent: options.sink_error_rate,
            draws: Draws::new(options.seed, "deliveries to the sink"),
            before: Counter::default(),
            after: Counter::default(),
            outages: Outages::new(&options.sink_outages, timeline),
        }
    }

    /// Whether the sink is down; a request that asks is counted as refused.
    pub(crate) fn is_down(&self) -> bool {
        self.outages.refuses()
    }

    /// What becomes of the next delivery.
    pub(crate) fn next(&self) -> Delivery {
        if self.is_down() {
            return Delivery::FailsBefore;
        }
        if !self.draws.strikes(self.percent) {
            return Delivery::Answered;
        }
        let (delivery, counter) = match self.draws.below(2) {
            0 => (Delivery::FailsBefore, &self.before),
            _ => (Delivery::FailsAfter, &self.after),
        };
        counter.add(1);
        delivery
    }

    /// The times at which the sink is down.
    pub(super) fn outages(&self) -> &Outages {
        &self.outages
    }

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
        let failed = (0..1_000).filter(|_| errors.next() != Delivery::Answered);
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
        assert!((0..100).all(|_| errors.next() == Delivery::FailsBefore));
        assert_eq!(errors.outages().refused(), [100]);
        assert_eq!(errors.report().before, 0, "those are not drawn");
    }
}
