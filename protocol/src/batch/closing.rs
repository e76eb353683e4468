//! When a batch's window ends, and how long its ticket is delayed.

use std::time::Duration;

use crate::limits::{CLOCK_SKEW_MAX, SQS_DELAY_MAX};
use crate::period::Period;
use crate::time::Timestamp;

/// The window of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    pub closes_at: Timestamp,
}

/// No batch can be opened: function timeout and window together exceed the longest delay of an SQS message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "batching window: no room for one: got an invocation that ends in {remaining_secs} s, \
     expected function timeout + window + clock skew within {max_secs} s, the longest delay of an SQS message"
)]
pub struct NoWindow {
    pub remaining_secs: u64,
    pub max_secs: u64,
}

impl Closing {
    /// Returns the window of a batch that an invocation with this deadline opens at `now`.
    ///
    /// A batch of a period is open until the period has ended and `window` has passed since, in which late events come. After that,
    /// a batch for events that come even later has a window as any other.
    ///
    /// # Errors
    /// [`NoWindow`] when SQS cannot delay the ticket past the deadline. A retry with the same configuration fails again.
    pub fn plan(
        now: Timestamp,
        deadline: Timestamp,
        window: Duration,
        period: Option<Period>,
    ) -> Result<Closing, NoWindow> {
        let closes_with_period = period.map(|period| period.ends + window);
        if let Some(closes_at) = closes_with_period.filter(|closes_at| deadline < *closes_at) {
            return Ok(Closing { closes_at });
        }
        // One second less than SQS allows, because the delay is rounded up.
        let latest = now + (SQS_DELAY_MAX - CLOCK_SKEW_MAX - Duration::from_secs(1));
        let closes_at = (deadline + window).min(latest);
        if closes_at <= deadline {
            return Err(NoWindow {
                remaining_secs: (deadline - now).as_secs(),
                max_secs: SQS_DELAY_MAX.as_secs(),
            });
        }
        Ok(Closing { closes_at })
    }

    /// Returns whether the window ends later than SQS can delay a ticket that is sent at `now`. The sweep then sends the ticket.
    pub fn is_beyond_delays(self, now: Timestamp) -> bool {
        now.until(self.closes_at) + CLOCK_SKEW_MAX + Duration::from_secs(1) > SQS_DELAY_MAX
    }

    /// Returns the delay of a ticket sent at `now`: whole seconds, rounded up, with the clock skew added.
    pub fn ticket_delay(self, now: Timestamp) -> Duration {
        let millis = (now.until(self.closes_at) + CLOCK_SKEW_MAX).as_millis();
        Duration::from_secs((millis as u64).div_ceil(1_000)).min(SQS_DELAY_MAX)
    }
}
