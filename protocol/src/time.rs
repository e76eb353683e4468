//! Points in time, as epoch milliseconds, so that no bare integer travels through the protocol.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    pub const EPOCH: Timestamp = Timestamp(0);

    /// Later than anything this program writes.
    pub const FAR_FUTURE: Timestamp = Timestamp(u32::MAX as u64 * 1_000);

    /// Makes a timestamp from milliseconds since the epoch.
    pub const fn from_ms(ms: u64) -> Timestamp {
        Timestamp(ms)
    }

    /// Returns milliseconds since the epoch.
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// Returns whole seconds since the epoch, the unit of DynamoDB's TTL, rounded up: never earlier than `self`.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Returns the time until `later` in whole seconds, the unit of SQS's delays, rounded up: never too early.
    pub fn whole_secs_until(self, later: Timestamp) -> Duration {
        Duration::from_secs((self.until(later).as_millis() as u64).div_ceil(1_000))
    }

    /// Returns year, month and day, in UTC.
    pub const fn date(self) -> (u64, u64, u64) {
        // Counts years from March, so that the leap day is the last day of a year. Source: Howard Hinnant, `civil_from_days`,
        // <https://howardhinnant.github.io/date_algorithms.html>.
        let days = self.0 / 86_400_000 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        let year = era * 400 + year_of_era + (month <= 2) as u64;
        (year, month, day)
    }

    /// Returns the time from `self` to `later`; zero when `later` is not later.
    pub const fn until(self, later: Timestamp) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }

    /// Returns the time `duration` before `self`, but not before the epoch.
    #[must_use]
    pub const fn saturating_sub(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(millis(duration)))
    }
}

const fn millis(duration: Duration) -> u64 {
    let millis = duration.as_millis();
    // Our own durations are at most days, but a sink may name a longer one.
    if millis > u64::MAX as u128 {
        u64::MAX
    } else {
        millis as u64
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(millis(duration)))
    }
}

impl Sub<Timestamp> for Timestamp {
    type Output = Duration;

    /// Returns the time from `earlier` to `self`; zero when `earlier` is not earlier.
    fn sub(self, earlier: Timestamp) -> Duration {
        earlier.until(self)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        Timestamp(time.duration_since(UNIX_EPOCH).map_or(0, millis))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_seconds_are_never_earlier_than_the_timestamp() {
        assert_eq!(Timestamp::from_ms(1_001).as_secs_ceil(), 2);
        assert_eq!(Timestamp::from_ms(1_000).as_secs_ceil(), 1);
    }

    #[test]
    fn the_time_until_a_past_timestamp_is_zero() {
        let (early, late) = (Timestamp::from_ms(3), Timestamp::from_ms(5));
        assert_eq!(late.until(early), Duration::ZERO);
        assert_eq!(late - early, Duration::from_millis(2));
    }
}
