//! Measures how fast deliveries resume after an outage of the sink.

use std::fmt;
use std::time::SystemTime;

use protocol::text::counted;
use serde::Serialize;

use crate::faults::Outage;

/// The times of a batch.
#[derive(Clone, Debug)]
pub struct DueBatch {
    /// When its first ticket became visible: when it was sealed, or when its window closed.
    pub due_at: SystemTime,
    /// When each of its files was complete at the sink, sorted.
    pub delivered_at: Vec<SystemTime>,
}

/// An outage of the sink, and the deliveries after it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutageReport {
    /// When the outage began, in seconds from the start of the burst.
    pub at_secs: f64,
    pub for_secs: f64,
    /// Requests that the sink refused; 0 for the file sink, where attempts cannot be counted.
    pub requests_refused: u64,
    /// Batches that were due before the outage ended, and were not delivered by then.
    pub batches_due: usize,
    /// From the end of the outage to the first delivery of one of these batches, in seconds.
    pub first_delivery_secs: Option<f64>,
    /// From the end of the outage until all these batches were delivered, in seconds; `None` if some were not.
    pub all_delivered_secs: Option<f64>,
}

impl OutageReport {
    /// Returns the report of an outage that ended at `ended_at`.
    pub fn new(
        outage: Outage,
        requests_refused: u64,
        ended_at: SystemTime,
        batches: &[DueBatch],
    ) -> OutageReport {
        let due = batches.iter().filter(|batch| {
            let delivered = batch.delivered_at.last();
            batch.due_at <= ended_at && delivered.is_none_or(|at| *at > ended_at)
        });
        // The clock with which the kernel stamps files may be a tick behind, so a difference may be negative.
        let since = |at: SystemTime| at.duration_since(ended_at).unwrap_or_default();
        let deliveries = due.clone().flat_map(|batch| &batch.delivered_at);
        let first = deliveries.filter(|at| **at > ended_at).min();
        let ends = due.clone().map(|batch| batch.delivered_at.last());
        let ends: Option<Vec<&SystemTime>> = ends.collect();
        let last = ends.and_then(|ends| ends.into_iter().max());
        OutageReport {
            at_secs: outage.at.as_secs_f64(),
            for_secs: outage.duration.as_secs_f64(),
            requests_refused,
            batches_due: due.count(),
            first_delivery_secs: first.map(|at| since(*at).as_secs_f64()),
            all_delivered_secs: last.map(|at| since(*at).as_secs_f64()),
        }
    }
}

/// One line for people, with its line break.
impl fmt::Display for OutageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "outage      of the sink at {} s for {} s: {} refused, {} due at its end",
            self.at_secs,
            self.for_secs,
            counted(self.requests_refused, "request"),
            counted(self.batches_due, "batch")
        )?;
        match (self.first_delivery_secs, self.all_delivered_secs) {
            (Some(first), all) => {
                write!(f, ", the first delivered {first:.1} s later")?;
                match all {
                    Some(all) => writeln!(f, ", all {all:.1} s later"),
                    None => writeln!(f, ", some not at all"),
                }
            }
            (None, _) if self.batches_due > 0 => writeln!(f, ", none delivered"),
            (None, _) => writeln!(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn at(secs: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(secs)
    }

    fn batch(due: u64, delivered: &[u64]) -> DueBatch {
        DueBatch {
            due_at: at(due),
            delivered_at: delivered.iter().map(|secs| at(*secs)).collect(),
        }
    }

    fn report(batches: &[DueBatch]) -> (usize, Option<f64>, Option<f64>) {
        let outage = "10:90".parse().unwrap();
        let report = OutageReport::new(outage, 0, at(100), batches);
        (
            report.batches_due,
            report.first_delivery_secs,
            report.all_delivered_secs,
        )
    }

    #[test]
    fn only_batches_that_were_due_and_not_delivered_count() {
        let batches = [
            batch(5, &[9]),
            batch(20, &[130]),
            // One part had come before the outage.
            batch(8, &[9, 117]),
            // Due after its end, and delivered at once.
            batch(101, &[102]),
        ];
        assert_eq!(report(&batches), (2, Some(17.0), Some(30.0)));
    }

    #[test]
    fn what_is_never_delivered_leaves_no_end() {
        let batches = [batch(20, &[130]), batch(30, &[])];
        assert_eq!(report(&batches), (2, Some(30.0), None));
        assert_eq!(report(&batches[1..]), (1, None, None));
        assert_eq!(report(&[]), (0, None, None));
    }
}
