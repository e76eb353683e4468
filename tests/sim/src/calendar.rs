//! The hours of delivery, reckoned without the code under test and without a time zone database.
//!
//! The functions ask `jiff`. This computes from the rule of each zone, so that neither can hide a mistake of the other.

use std::time::Duration;

use protocol::time::Timestamp;

const MINUTE_MS: u64 = 60_000;
const DAY: i64 = 24 * 60;
/// How far ahead an opening is looked for, in minutes.
const AHEAD: i64 = 3 * DAY;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    Utc,
    Berlin,
    NewYork,
    /// Its clock changes by half an hour, and its summer is in January.
    LordHowe,
}

/// The zones whose clock changes.
pub const CHANGING: [Zone; 3] = [Zone::Berlin, Zone::NewYork, Zone::LordHowe];

/// When a clock changes: a month, a Sunday of it from 1 on, 0 for the last one, and minutes after the UTC midnight before that Sunday.
type Change = (i64, i64, i64);

/// The rule of a zone: minutes ahead of UTC in winter and in summer, and when summer begins and ends.
struct Rule {
    winter: i64,
    summer: i64,
    changes: [Change; 2],
}

/// Whether deliveries have their hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hours {
    Open,
    Closed,
    /// In hours whose beginning or end the clock skips.
    Unclear,
}

/// `DELIVERY_HOURS` of a history: the same span again and again, from the midnight of each day on. Times are in minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// From the beginning of one span to that of the next.
    pub every: u32,
    /// The beginning of the first span of a day.
    pub first: u32,
    /// How long a span lasts.
    pub length: u32,
    pub zone: Zone,
}

impl Zone {
    /// Returns the name in the IANA database.
    pub fn name(self) -> &'static str {
        match self {
            Zone::Utc => "UTC",
            Zone::Berlin => "Europe/Berlin",
            Zone::NewYork => "America/New_York",
            Zone::LordHowe => "Australia/Lord_Howe",
        }
    }

    fn rule(self) -> Option<Rule> {
        let rule = |winter, summer, changes| Rule {
            winter,
            summer,
            changes,
        };
        Some(match self {
            Zone::Utc => return None,
            Zone::Berlin => rule(60, 120, [(3, 0, 60), (10, 0, 60)]),
            Zone::NewYork => rule(-300, -240, [(3, 2, 420), (11, 1, 360)]),
            Zone::LordHowe => rule(630, 660, [(10, 1, -510), (4, 1, -540)]),
        })
    }

    /// Returns when the clock changes in a year: to summer, and to winter.
    pub fn changes_in(self, year: i64) -> Option<[Timestamp; 2]> {
        let rule = self.rule()?;
        let changes = rule.changes.map(|change| minute_of(change, year));
        Some(changes.map(timestamp))
    }

    /// Returns by how many minutes the clock is ahead of UTC, so many minutes after 1970 began.
    fn offset(self, utc: i64) -> i64 {
        let Some(rule) = self.rule() else {
            return 0;
        };
        let year = year_of(utc.div_euclid(DAY));
        let [begins, ends] = rule.changes.map(|change| minute_of(change, year));
        let is_summer = match begins < ends {
            true => begins <= utc && utc < ends,
            false => !(ends <= utc && utc < begins),
        };
        if is_summer { rule.summer } else { rule.winter }
    }

    /// Returns when the clock shows so many local minutes, for the first time, and whether it does at all. A time that it skips
    /// counts as the same time after the gap.
    fn instant(self, local: i64) -> (i64, bool) {
        let Some(rule) = self.rule() else {
            return (local, true);
        };
        for offset in [rule.summer, rule.winter] {
            if self.offset(local - offset) == offset {
                return (local - offset, true);
            }
        }
        (local - rule.winter, false)
    }
}

impl Calendar {
    /// Returns whether deliveries have their hours at a time.
    pub fn at(&self, time: Timestamp) -> Hours {
        self.at_minute((time.as_ms() / MINUTE_MS) as i64)
    }

    fn at_minute(&self, now: i64) -> Hours {
        let today = (now + self.zone.offset(now)).div_euclid(DAY);
        let mut hours = Hours::Closed;
        for day in [today - 1, today, today + 1] {
            for opens in (i64::from(self.first)..DAY).step_by(self.every as usize) {
                let (begins, shown) = self.zone.instant(day * DAY + opens);
                let length = i64::from(self.length);
                let (ends, end_shown) = self.zone.instant(day * DAY + opens + length);
                if shown && end_shown {
                    if begins <= now && now < ends {
                        return Hours::Open;
                    }
                } else if begins <= now && now < ends.max(begins + length) {
                    hours = Hours::Unclear;
                }
            }
        }
        hours
    }

    /// Returns when the hours begin next; `None` if they may have begun.
    pub fn opening(&self, time: Timestamp) -> Option<Timestamp> {
        let now = (time.as_ms() / MINUTE_MS) as i64;
        if self.at_minute(now) != Hours::Closed {
            return None;
        }
        let opens = (now + 1..now + AHEAD).find(|minute| self.at_minute(*minute) != Hours::Closed);
        opens.map(timestamp)
    }

    /// Returns whether some clock that is wrong by at most `error` may show a time in the hours.
    pub fn may_be_open(&self, time: Timestamp, error: Duration) -> bool {
        let (from, to) = (time.saturating_sub(error), time + error);
        let mut minutes = from.as_ms() / MINUTE_MS..=to.as_ms() / MINUTE_MS;
        minutes.any(|minute| self.at_minute(minute as i64) != Hours::Closed)
    }
}

/// Returns the time so many minutes after 1970 began.
fn timestamp(minute: i64) -> Timestamp {
    Timestamp::from_ms(minute.unsigned_abs() * MINUTE_MS)
}

fn minute_of((month, sunday, minutes): Change, year: i64) -> i64 {
    let sunday = match sunday {
        0 => last_sunday(days_of(year, month + 1, 1) - 1),
        count => last_sunday(days_of(year, month, 7)) + 7 * (count - 1),
    };
    sunday * DAY + minutes
}

/// Returns the last Sunday up to a day. 1970 began on a Thursday.
fn last_sunday(day: i64) -> i64 {
    day - (day + 4).rem_euclid(7)
}

/// Returns the days from 1970 to a date. Years begin in March here, so that the day which is not in every year comes last.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// Returns the year of a number of days since 1970.
fn year_of(days: i64) -> i64 {
    let mut year = 1970 + days.div_euclid(366);
    while days_of(year + 1, 1, 1) <= days {
        year += 1;
    }
    year
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The changes of the clocks in 2026, as the authorities publish them, in UTC.
    #[test]
    fn the_clocks_change_on_the_published_days() {
        let at = |month, day, hour: i64, minute: i64| {
            timestamp(days_of(2026, month, day) * DAY + hour * 60 + minute)
        };
        let changes = |zone: Zone| zone.changes_in(2026).unwrap();
        assert_eq!(changes(Zone::Berlin), [at(3, 29, 1, 0), at(10, 25, 1, 0)]);
        assert_eq!(changes(Zone::NewYork), [at(3, 8, 7, 0), at(11, 1, 6, 0)]);
        let lord_howe = [at(10, 3, 15, 30), at(4, 4, 15, 0)];
        assert_eq!(changes(Zone::LordHowe), lord_howe);
        for (month, day) in [(1, 1), (2, 29), (12, 31)] {
            assert_eq!(year_of(days_of(2028, month, day)), 2028);
        }
    }

    #[test]
    fn hours_move_with_the_clock() {
        let calendar = |zone| Calendar {
            every: 1_440,
            first: 600,
            length: 60,
            zone,
        };
        let open = |zone, minutes: i64| calendar(zone).at_minute(minutes) == Hours::Open;
        let (winter, summer) = (days_of(2026, 3, 28) * DAY, days_of(2026, 3, 30) * DAY);
        assert!(open(Zone::Berlin, winter + 540) && !open(Zone::Berlin, winter + 480));
        assert!(open(Zone::Berlin, summer + 480) && !open(Zone::Berlin, summer + 540));
        assert!(open(Zone::Utc, summer + 600) && !open(Zone::Utc, summer + 660));
    }
}
