//! When a batch's window ends, and how long its ticket is delayed.

use std::time::Duration;

use crate::limits::{CLOCK_SKEW_MAX, SQS_DELAY_MAX};
use crate::time::Timestamp;

/// The window of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    pub closes_at: Timestamp,
}

impl Closing {
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
