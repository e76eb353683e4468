//! The time from the send of each event to its delivery.

use std::collections::HashMap;
use std::time::Duration;

use planner::{LatencySummary, PartTime};

use crate::audit::DuplicateRule;
use crate::latency::LatencyHistogram;

/// Collects latencies while the delivered files are audited.
#[derive(Debug)]
pub struct DeliveryTimes {
    /// When each part was delivered, by its batch and its number.
    parts: HashMap<String, HashMap<u64, f64>>,
    /// When each event was sent.
    sent: Vec<Duration>,
    latencies: LatencyHistogram,
}

impl DeliveryTimes {
    /// `sent` says when each event was sent, by its number: see [`SentTimes::of_events`](crate::SentTimes::of_events).
    pub fn new(parts: impl IntoIterator<Item = PartTime>, sent: Vec<Duration>) -> DeliveryTimes {
        let mut by_batch: HashMap<String, HashMap<u64, f64>> = HashMap::new();
        for part in parts {
            let of_batch = by_batch.entry(part.batch_id).or_default();
            of_batch.insert(part.part, part.at_secs);
        }
        DeliveryTimes {
            parts: by_batch,
            sent,
            latencies: LatencyHistogram::default(),
        }
    }

    /// Records the delivery of an event in a part.
    pub fn delivered(&mut self, batch_id: &str, part: u64, number: u64) {
        let batch = self.parts.get(batch_id);
        let at_secs = batch.and_then(|parts| parts.get(&part));
        let sent = usize::try_from(number).ok();
        let sent = sent.and_then(|number| self.sent.get(number));
        if let (Some(at_secs), Some(sent)) = (at_secs, sent) {
            // The clock of the record counts whole milliseconds, so a difference may be negative.
            let latency = Duration::from_secs_f64(at_secs.max(0.0)).saturating_sub(*sent);
            self.latencies.record(latency, 1);
        }
    }

    /// Returns the percentiles, or a note that says why there are none. `paced`: whether messages had times.
    pub fn latency(
        &self,
        rule: DuplicateRule,
        paced: bool,
    ) -> Result<LatencySummary, &'static str> {
        let name = match paced {
            true => "scheduled send to delivery",
            false => "acknowledged send to delivery",
        };
        match rule {
            DuplicateRule::Requeue => Err(
                "Events are delivered several times with ON_DUPLICATE=requeue: there is no latency from send to delivery.",
            ),
            DuplicateRule::Drop => self.latencies.summary(name).ok_or(
                "The time of no delivered part is known: there is no latency from send to delivery.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    fn part((part, at_secs): (u64, f64)) -> PartTime {
        PartTime {
            batch_id: BATCH.to_owned(),
            part,
            at_secs,
        }
    }

    #[test]
    fn an_event_is_delivered_with_its_part() {
        let sent = [1, 2, 4].map(Duration::from_secs).to_vec();
        let mut deliveries = DeliveryTimes::new([(0, 3.0), (1, 5.0)].map(part), sent);
        deliveries.delivered(BATCH, 0, 0);
        deliveries.delivered(BATCH, 0, 1);
        deliveries.delivered(BATCH, 1, 2);
        let summary = deliveries.latency(DuplicateRule::Drop, true).unwrap();
        assert_eq!(summary.count, 3);
        let close = |secs: f64, expected: f64| assert!((secs - expected).abs() < 0.01, "{secs}");
        close(summary.min_secs, 1.0);
        close(summary.max_secs, 2.0);
    }

    #[test]
    fn without_times_or_with_several_deliveries_of_an_event_there_is_a_note() {
        let mut deliveries = DeliveryTimes::new([(1, 5.0)].map(part), vec![Duration::ZERO]);
        deliveries.delivered(BATCH, 0, 0);
        deliveries.delivered("stray", 1, 0);
        let note = deliveries.latency(DuplicateRule::Drop, true).unwrap_err();
        assert!(note.starts_with("The time of no delivered part is known"));
        deliveries.delivered(BATCH, 1, 0);
        assert!(deliveries.latency(DuplicateRule::Drop, false).is_ok());
        let note = deliveries.latency(DuplicateRule::Requeue, false);
        assert!(note.unwrap_err().contains("ON_DUPLICATE=requeue"));
    }
}
