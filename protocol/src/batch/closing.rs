//! When a batch's window ends, and its ticket's delay.

use std::time::Duration;

use crate::limits::{CLOCK_SKEW_MAX, SQS_DELAY_MAX};
use crate::planted::{Bug, planted};
use crate::time::Timestamp;

/// When a batch closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// End of the window.
    pub closes_at: Timestamp,
}

/// No batch can be opened: the function's timeout leaves no room for a window within SQS's longest delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the invocation ends `{remaining_secs}` s from now, which leaves no batching window: \
     function timeout + window + clock skew must stay within {max_secs} s, the longest delay of an SQS message"
)]
pub struct NoWindow {
    /// Time left of the invocation.
    pub remaining_secs: u64,
    /// What SQS can delay.
    pub max_secs: u64,
}

impl Closing {
    /// The window of a batch opened at `now` by an invocation that ends at `deadline`.
    ///
    /// # Errors
    /// [`NoWindow`] when the ticket could not be delayed past the deadline; the same configuration fails every time.
    pub fn plan(
        now: Timestamp,
        deadline: Timestamp,
        window: Duration,
    ) -> Result<Closing, NoWindow> {
        // One second less than SQS allows: the delay is rounded up.
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

    /// The delay of a ticket sent at `now`: whole seconds, never early, skew included.
    pub fn ticket_delay(self, now: Timestamp) -> Duration {
        let skew = match planted(Bug::TicketWithoutSkew) {
            true => Duration::ZERO,
            false => CLOCK_SKEW_MAX,
        };
        let millis = (now.until(self.closes_at) + skew).as_millis();
        Duration::from_secs((millis as u64).div_ceil(1_000)).min(SQS_DELAY_MAX)
    }
}
