//! Time zones: what the clock of a place shows, and when.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp as Instant};
use protocol::time::Timestamp;

pub(crate) const MINUTES_OF_DAY: u16 = 24 * 60;

/// Returns a time as RFC 3339 writes it in UTC; in epoch milliseconds if it is after the year 9999.
pub fn rfc3339(at: Timestamp) -> String {
    let ms = i64::try_from(at.as_ms()).unwrap_or(i64::MAX);
    Instant::from_millisecond(ms).map_or_else(|_| at.to_string(), |instant| instant.to_string())
}

/// A time zone of the IANA database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Zone(TimeZone);

impl Zone {
    /// Splits a text into what comes before its last space, and the time zone after it.
    pub(crate) fn split(text: &str) -> Result<(&str, Zone), String> {
        let (before, name) = text.trim().rsplit_once(' ').ok_or_else(|| {
            "no time zone: expected one at the end, such as `Europe/Berlin` or `UTC`".to_owned()
        })?;
        let zone = TimeZone::get(name).map_err(|_| {
            format!("time zone: got `{name}`, expected a name of the IANA database, such as `Europe/Berlin` or `UTC`")
        })?;
        Ok((before, Zone(zone)))
    }

    /// Returns the date that the clock shows.
    pub(crate) fn date(&self, now: Timestamp) -> Option<Date> {
        let instant = Instant::from_millisecond(i64::try_from(now.as_ms()).ok()?).ok()?;
        Some(instant.to_zoned(self.0.clone()).date())
    }

    /// Returns the date `days` days after another.
    pub(crate) fn days_after(&self, date: Date, days: i64) -> Option<Date> {
        date.checked_add(Span::new().days(days)).ok()
    }

    /// Returns when the clock shows this many minutes since the midnight before `date`.
    ///
    /// A time that the clock skips counts as the same time after the gap, and one that it shows twice as the first of them: 02:30 is
    /// 03:30 on the day on which summer begins.
    pub(crate) fn instant(&self, date: Date, minutes: u16) -> Option<Timestamp> {
        let date = self.days_after(date, i64::from(minutes / MINUTES_OF_DAY))?;
        let of_day = minutes % MINUTES_OF_DAY;
        let (hour, minute) = (
            i8::try_from(of_day / 60).ok()?,
            i8::try_from(of_day % 60).ok()?,
        );
        let shown = date.at(hour, minute, 0, 0);
        let zoned = self.0.to_ambiguous_zoned(shown).compatible().ok()?;
        let ms = u64::try_from(zoned.timestamp().as_millisecond()).ok()?;
        Some(Timestamp::from_ms(ms))
    }
}

/// Parses `HH:MM`, up to `24:00`. Returns the minutes since midnight.
pub(crate) fn minutes(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let two = |text: &str| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u16>().ok()).flatten()
    };
    let (hour, minute) = (two(hour)?, two(minute)?);
    let minutes = hour * 60 + minute;
    (minute < 60 && minutes <= MINUTES_OF_DAY).then_some(minutes)
}

/// Returns the time that a text names as RFC 3339 does.
#[cfg(test)]
pub(crate) fn at(text: &str) -> Timestamp {
    let instant: Instant = text.parse().unwrap();
    Timestamp::from_ms(instant.as_millisecond().try_into().unwrap())
}
