//! Durations as the queues count them.

use std::time::Duration;

/// A duration in whole milliseconds.
pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
