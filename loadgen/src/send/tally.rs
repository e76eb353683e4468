//! Counts what the tasks of a burst do.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use planner::LatencySummary;

use super::feed::TakenMessage;
use super::rate::SendTimes;
use crate::latency::LatencyHistogram;

/// From when a message was due to its acknowledgement.
pub(super) const CORRECTED: &str = "scheduled send to acknowledgement";
/// From the beginning of a message's first request to its acknowledgement.
pub(super) const RAW: &str = "request to acknowledgement";

/// The counts of one run. Times are from its start.
#[derive(Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Clone, Default)]
pub(super) struct Counts {
    pub acknowledged: u64,
    pub bytes: u64,
    pub requests: u64,
    pub retries: u64,
    pub resent_unsure: u64,
    pub times: SendTimes,
    corrected: LatencyHistogram,
    raw: LatencyHistogram,
}

impl Tally {
    /// Counts the first request of some messages, when it begins.
    pub fn begun(&self, messages: &[TakenMessage], at: Duration) {
        let mut counts = self.lock();
        counts.requests += 1;
        for message in messages {
            counts.resent_unsure += u64::from(message.unsure);
            if let Some(due) = message.due {
                counts.times.add(due, at);
            }
        }
    }

    /// Counts a retry. The replies to earlier requests of `unsure` of its messages were lost.
    pub fn retried(&self, unsure: u64) {
        let mut counts = self.lock();
        counts.requests += 1;
        counts.retries += 1;
        counts.resent_unsure += unsure;
    }

    /// Counts messages that were acknowledged at `at`, and whose first request began at `begun`.
    pub fn acknowledged(&self, messages: &[TakenMessage], begun: Duration, at: Duration) {
        let mut counts = self.lock();
        counts.acknowledged += messages.len() as u64;
        counts
            .raw
            .record(at.saturating_sub(begun), messages.len() as u64);
        for message in messages {
            counts.bytes += message.bytes as u64;
            if let Some(due) = message.due {
                counts.corrected.record(at.saturating_sub(due), 1);
            }
        }
    }

    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    /// Returns the numbers of acknowledged messages and of retries so far, and of messages sent again after a lost reply.
    pub fn progress(&self) -> (u64, u64, u64) {
        let counts = self.lock();
        (counts.acknowledged, counts.retries, counts.resent_unsure)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Returns the latencies that were measured.
    pub fn latencies(&self) -> Vec<LatencySummary> {
        let summaries = [self.corrected.summary(CORRECTED), self.raw.summary(RAW)];
        summaries.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_request_that_begins_late_makes_only_the_corrected_latency_longer() {
        let tally = Tally::default();
        let message = |due| TakenMessage {
            message: 0,
            due,
            unsure: false,
            bytes: 300,
        };
        let messages = [
            message(Some(10 * MS)),
            message(Some(20 * MS)),
            message(None),
        ];
        tally.begun(&messages, 500 * MS);
        tally.acknowledged(&messages, 500 * MS, 530 * MS);
        let counts = tally.counts();
        assert_eq!(
            (counts.acknowledged, counts.bytes, counts.requests),
            (3, 900, 1)
        );
        let [corrected, raw] = counts.latencies().try_into().unwrap();
        assert_eq!((corrected.name.as_str(), corrected.count), (CORRECTED, 2));
        assert!((0.51..0.511).contains(&corrected.min_secs), "{corrected:?}");
        assert!((0.52..0.521).contains(&corrected.max_secs), "{corrected:?}");
        assert_eq!((raw.name.as_str(), raw.count), (RAW, 3));
        assert!((0.03..0.0301).contains(&raw.max_secs), "{raw:?}");
    }
}
