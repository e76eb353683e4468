//! Retry schedules: exponential backoff with full jitter.
//!
//! The SDK's own retries are switched off. The SDK has one token bucket for the whole process, which is empty after
//! about a hundred concurrent retries, and it does not see a throttled item in a batch reply with HTTP 200.
//! Source: <https://github.com/smithy-lang/smithy-rs/pull/3964> (2026-08).

use std::time::Duration;

use crate::limits::TICKET_BACKOFF_MAX;

/// How one kind of call is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Upper bound of the first pause.
    pub base: Duration,
    /// Upper bound of any pause.
    pub cap: Duration,
}

impl RetryPolicy {
    /// Claims and releases. A partition stops throttling within a second, and every pause delays a whole burst.
    pub const ITEMS: RetryPolicy = RetryPolicy {
        base: Duration::from_millis(25),
        cap: Duration::from_millis(1_000),
    };
    /// Batch records, tickets, quarantine: few and important.
    pub const CONTROL: RetryPolicy = RetryPolicy {
        base: Duration::from_millis(50),
        cap: Duration::from_millis(1_000),
    };
    /// Queries of an index that lags, and looks at a manifest while it is the turn of another batch. Both end within a second as a rule,
    /// and each costs read units.
    pub const INDEX: RetryPolicy = RetryPolicy {
        base: Duration::from_millis(200),
        cap: Duration::from_millis(5_000),
    };

    /// Deliveries to a sink, within one invocation. A sink may be a single server, which is back within seconds or only
    /// after an hour.
    pub const SINK: RetryPolicy = RetryPolicy {
        base: Duration::from_millis(500),
        cap: Duration::from_secs(15),
    };
    /// Delays of a given-back ticket, by how often it was received. They start at 5 s because the obstacle already
    /// lasted a whole invocation.
    pub const TICKET: RetryPolicy = RetryPolicy {
        base: Duration::from_secs(5),
        cap: TICKET_BACKOFF_MAX,
    };

    /// Returns the pause before retry `attempt` (1 is the first retry); `jitter` is uniform in `0.0..1.0`.
    ///
    /// The pause is at least a tenth of its upper bound, so that several small draws in a row do not overload a
    /// throttled partition.
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
