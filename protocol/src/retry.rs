//! Retry schedules: exponential backoff with full jitter.
//!
//! The SDK's own retries are switched off. Its token bucket is shared by the whole process and ends after about a
//! hundred concurrent retries, and it cannot see a throttled member of a batch that came back with HTTP 200.
//! Source: <https://github.com/smithy-lang/smithy-rs/pull/3964> (2026-08).

use std::time::Duration;

use crate::limits::TICKET_BACKOFF_MAX;

/// How one kind of call is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Upper bound of the first pause.
    pub base: Duration,
    /// Upper bound of any pause.
    pub cap: Duration,
}

impl RetryPolicy {
    /// Claims and releases: throttles of a partition pass within a second, and every pause delays a whole burst.
    pub const ITEMS: RetryPolicy = RetryPolicy {
        base: Duration::from_millis(25),
        cap: Duration::from_millis(1_000),
    };
    /// Batch records, tickets, quarantine: few and important.
    pub const CONTROL: RetryPolicy = RetryPolicy {
        base: Duration::from_millis(50),
        cap: Duration::from_millis(1_000),
    };
    /// Asking the index again: it lags by a fraction of a second as a rule, and each question costs read units.
    pub const INDEX: RetryPolicy = RetryPolicy {
        base: Duration::from_millis(200),
        cap: Duration::from_millis(5_000),
    };

    /// A sink, within one invocation: it may be somebody's only server, and is back within seconds or after an hour.
    pub const SINK: RetryPolicy = RetryPolicy {
        base: Duration::from_millis(500),
        cap: Duration::from_secs(15),
    };
    /// A ticket that is given back, by how often it was received: whatever stands in its way was there for a whole
    /// invocation.
    pub const TICKET: RetryPolicy = RetryPolicy {
        base: Duration::from_secs(5),
        cap: TICKET_BACKOFF_MAX,
    };

    /// The pause before attempt `attempt` (1 is the first repetition); `jitter` is uniform in `0.0..1.0`.
    ///
    /// At least a tenth of the bound, so that a run of small draws does not hammer a throttled partition.
    pub fn pause(&self, attempt: u32, jitter: f64) -> Duration {
        let bound = self
            .base
            .saturating_mul(1 << attempt.saturating_sub(1).min(16))
            .min(self.cap);
        bound.mul_f64(0.1 + 0.9 * jitter.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_cap_and_stay_there() {
        let policy = RetryPolicy::ITEMS;
        assert_eq!(policy.pause(1, 1.0), Duration::from_millis(25));
        assert_eq!(policy.pause(3, 1.0), Duration::from_millis(100));
        assert_eq!(policy.pause(60, 1.0), Duration::from_millis(1_000));
        assert_eq!(policy.pause(u32::MAX, 0.0), Duration::from_millis(100));
        assert_eq!(policy.pause(3, 0.5), Duration::from_millis(55));
    }
}
