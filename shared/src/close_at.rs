//! `CLOSE_AT`: the hours of the day at which periods end, by the clock of a time zone.

use std::str::FromStr;

use protocol::period::Period;
use protocol::time::Timestamp;

use crate::zone::{MINUTES_OF_DAY, Zone, minutes};

/// The days around a time in which the closing hours before and after it are looked for. A day has a closing hour, if not by its own
/// date then by the one before or after it.
const DAYS_AROUND: i64 = 2;

/// Times of the day at which one period ends and the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseAt {
    /// In minutes since midnight.
    times: Vec<u16>,
    zone: Zone,
}

impl CloseAt {
    /// Returns the period that `at` is in; `None` for a time that no calendar has.
    ///
    /// The instants of all closing hours cut time into periods, so every time is in exactly one, also on the days on which the clock
    /// changes. A time that the clock skips counts as the same time after the gap, and one that it shows twice as the first of them.
    pub fn period_of(&self, at: Timestamp) -> Option<Period> {
        let today = self.zone.date(at)?;
        let (mut begins, mut ends) = (None, None);
        for day in -DAYS_AROUND..=DAYS_AROUND {
            let date = self.zone.days_after(today, day)?;
            for minutes in &self.times {
                // Before 1970 there are no timestamps.
                let Some(instant) = self.zone.instant(date, *minutes) else {
                    continue;
                };
                if instant <= at {
                    begins = begins.max(Some(instant));
                } else {
                    ends = Some(ends.map_or(instant, |ends: Timestamp| ends.min(instant)));
                }
            }
        }
        Some(Period {
            begins: begins?,
            ends: ends?,
        })
    }
}

impl FromStr for CloseAt {
    type Err = String;

    /// Parses times, separated by commas, and a time zone: `00:00, 12:00 Europe/Berlin`.
    fn from_str(text: &str) -> Result<CloseAt, String> {
        let (times, zone) = Zone::split(text)?;
        let time = |time: &str| {
            minutes(time.trim())
                .filter(|minutes| *minutes < MINUTES_OF_DAY)
                .ok_or_else(|| {
                    format!("time: got `{time}`, expected one such as `00:00` or `23:30`")
                })
        };
        Ok(CloseAt {
            times: times.split(',').map(time).collect::<Result<_, _>>()?,
            zone,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::zone::at;

    fn close_at(text: &str) -> CloseAt {
        text.parse().unwrap()
    }

    /// Checks the period of each time of `times`, given as its first moment and the first moment after it.
    fn period(close_at: &CloseAt, begins: &str, ends: &str) {
        let expected = Period {
            begins: at(begins),
            ends: at(ends),
        };
        let last = Timestamp::from_ms(expected.ends.as_ms() - 1);
        for time in [expected.begins, last] {
            assert_eq!(close_at.period_of(time), Some(expected), "{time}");
        }
    }

    #[test]
    fn a_day_of_a_zone_has_23_or_25_hours_when_the_clock_changes() {
        let nightly = close_at("00:00 Europe/Berlin");
        period(&nightly, "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z");
        period(&nightly, "2026-10-25T23:00:00Z", "2026-10-26T23:00:00Z");
        period(&nightly, "2027-03-27T23:00:00Z", "2027-03-28T22:00:00Z");
    }

    #[test]
    fn a_time_that_is_shown_twice_closes_once_and_one_that_is_skipped_closes_later() {
        let early = close_at("02:30 Europe/Berlin");
        // 02:30 is at 00:30 UTC and again at 01:30 UTC.
        period(&early, "2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z");
        period(&early, "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z");
        // 02:30 is not shown; 03:30 is at 01:30 UTC.
        period(&early, "2027-03-27T01:30:00Z", "2027-03-28T01:30:00Z");
        period(&early, "2027-03-28T01:30:00Z", "2027-03-29T00:30:00Z");
    }

    #[test]
    fn times_of_a_day_may_come_in_any_order_and_coincide() {
        let thrice = close_at("12:00, 00:00,18:00 UTC");
        period(&thrice, "2026-11-25T00:00:00Z", "2026-11-25T12:00:00Z");
        period(&thrice, "2026-11-25T12:00:00Z", "2026-11-25T18:00:00Z");
        period(&thrice, "2026-11-25T18:00:00Z", "2026-11-26T00:00:00Z");
        // When summer begins, both are at 01:30 UTC.
        let same = close_at("02:30, 03:30 Europe/Berlin");
        period(&same, "2027-03-27T02:30:00Z", "2027-03-28T01:30:00Z");
        period(&same, "2027-03-28T01:30:00Z", "2027-03-29T00:30:00Z");
    }

    #[test]
    fn a_place_that_skipped_a_whole_day_has_periods_too() {
        // Samoa went from the 29th to the 31st of December 2011.
        let samoa = close_at("12:00 Pacific/Apia");
        period(&samoa, "2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z");
    }

    #[test]
    fn what_cannot_be_read_is_named_with_what_is_allowed() {
        for row in [
            "00:00 => no time zone: expected one at the end",
            "00:00 Mars/Olympus => time zone: got `Mars/Olympus`, expected a name",
            "24:00 UTC => time: got `24:00`, expected one such as `00:00`",
            "00:00, UTC => time: got ``, expected one such as `00:00`",
        ] {
            let (text, words) = row.split_once(" => ").unwrap();
            let error = text.parse::<CloseAt>().unwrap_err();
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn periods_follow_one_another_without_gap_or_overlap(
            times in prop::collection::vec((0..24u16, 0..60u16), 1..5),
            zone in prop::sample::select(&["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu"][..]),
            ms in 0..4_000_000_000_000u64,
        ) {
            let times: Vec<_> = times.iter().map(|(hour, minute)| format!("{hour:02}:{minute:02}")).collect();
            let close_at = close_at(&format!("{} {zone}", times.join(",")));
            let period = close_at.period_of(Timestamp::from_ms(ms)).unwrap();
            prop_assert!(period.contains(Timestamp::from_ms(ms)));
            let next = close_at.period_of(period.ends).unwrap();
            prop_assert_eq!(next.begins, period.ends);
            for inside in [period.begins, Timestamp::from_ms(period.ends.as_ms() - 1)] {
                prop_assert_eq!(close_at.period_of(inside), Some(period));
            }
        }
    }
}
