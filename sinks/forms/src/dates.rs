//! Dates in templates, in the time zone of `SINK_TIME_ZONE`.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use protocol::time::Timestamp;

/// A built-in time zone. The zones of the machine are not read, so that each build writes the same dates everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Zone {
        Zone(TimeZone::UTC)
    }
}

impl FromStr for Zone {
    type Err = String;

    fn from_str(name: &str) -> Result<Zone, String> {
        if name == "UTC" {
            return Ok(Zone::default());
        }
        jiff::tz::TimeZoneDatabase::bundled()
            .get(name)
            .map(Zone)
            .map_err(|_| {
                "expected `UTC` or the name of a time zone, such as `Europe/Zurich`".to_owned()
            })
    }
}

/// The letters allowed after a percent sign, and the number of characters that each writes.
const LETTERS: [(char, usize); 11] = [
    ('Y', 4),
    ('y', 2),
    ('m', 2),
    ('d', 2),
    ('j', 3),
    ('H', 2),
    ('M', 2),
    ('S', 2),
    ('G', 4),
    ('V', 2),
    ('u', 1),
];

/// The format of a date, such as `%Y-%m-%d`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateFormat(String);

impl FromStr for DateFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<DateFormat, String> {
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                continue;
            }
            let letter = letters.next();
            let is_known = |letter: &char| LETTERS.iter().any(|(known, _)| known == letter);
            if !letter.as_ref().is_some_and(is_known) {
                let got: String = std::iter::once('%').chain(letter).collect();
                let known = LETTERS.map(|(letter, _)| format!("`%{letter}`")).join(", ");
                return Err(format!("date format: got `{got}`, expected one of {known}"));
            }
        }
        match text.contains('%') {
            true => Ok(DateFormat(text.to_owned())),
            false => Err(format!(
                "date format: got `{text}`, expected one such as `%Y%m%d`"
            )),
        }
    }
}

impl DateFormat {
    /// Returns how many characters a date has, which is the same for every date.
    pub(crate) fn length(&self) -> usize {
        let of_letters = self.0.split('%').skip(1).map(|piece| {
            let letter = piece.chars().next();
            let known = LETTERS.iter().find(|(known, _)| Some(*known) == letter);
            known.map_or(0, |(_, length)| *length)
        });
        // Each percent sign and its letter are two characters of the format.
        self.0.chars().count() - 2 * self.0.matches('%').count() + of_letters.sum::<usize>()
    }

    /// Returns the characters that every date has.
    pub(crate) fn literals(&self) -> String {
        let mut pieces = self.0.split('%');
        let first = pieces.next().unwrap_or_default();
        let others = pieces.flat_map(|piece| piece.chars().skip(1));
        first.chars().chain(others).collect()
    }

    /// Returns the date and time of `at` in `zone`.
    pub(crate) fn text(&self, at: Timestamp, zone: &Zone) -> String {
        let ms = i64::try_from(at.as_ms()).unwrap_or(i64::MAX);
        let at = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
        self.of_moment(at, zone)
    }

    /// Returns the date and time of a moment in `zone`.
    pub(crate) fn of_moment(&self, at: jiff::Timestamp, zone: &Zone) -> String {
        let at = at.to_zoned(zone.0.clone());
        strtime::format(&self.0, &at).expect("the letters of the format were checked")
    }

    /// Returns a day, of which the format [has no time](Self::has_time).
    pub(crate) fn of_day(&self, day: Date) -> String {
        strtime::format(&self.0, day).expect("the letters of the format were checked")
    }

    /// Returns whether the format has a time of day.
    pub(crate) fn has_time(&self) -> bool {
        let letters = self.0.split('%').skip(1);
        let mut letters = letters.filter_map(|piece| piece.chars().next());
        letters.any(|letter| matches!(letter, 'H' | 'M' | 'S'))
    }
}

impl fmt::Display for DateFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-25, 23:30 UTC.
    const EVENING: Timestamp = Timestamp::from_ms(1_795_649_400_000);

    #[test]
    fn every_letter_writes_as_many_characters_as_it_says() {
        for at in [EVENING, Timestamp::EPOCH] {
            for (letter, length) in LETTERS {
                let format: DateFormat = format!("%{letter}").parse().unwrap();
                let text = format.text(at, &Zone::default());
                assert_eq!((text.len(), format.length()), (length, length), "%{letter}");
            }
        }
        let format: DateFormat = "%Y-%m-%dT%H:%M:%S %j %G-W%V-%u %y".parse().unwrap();
        let text = format.text(EVENING, &Zone::default());
        assert_eq!(text, "2026-11-25T23:30:00 329 2026-W48-3 26");
        assert_eq!(format.length(), text.len());
        assert_eq!(format.literals(), "--T::  -W- ");
    }

    #[test]
    fn other_formats_are_refused_with_the_letters_that_are_allowed() {
        let error = |text: &str| text.parse::<DateFormat>().unwrap_err();
        assert_eq!(
            error("%Y%b"),
            "date format: got `%b`, expected one of `%Y`, `%y`, `%m`, `%d`, `%j`, `%H`, `%M`, `%S`, `%G`, `%V`, `%u`"
        );
        assert!(error("%").starts_with("date format: got `%`, "));
        assert!(error("today").contains("expected one such as `%Y%m%d`"));
    }

    #[test]
    fn a_date_is_that_of_the_time_zone() {
        let text = |zone: &str| {
            let format: DateFormat = "%Y%m%d%H%M".parse().unwrap();
            format.text(EVENING, &zone.parse().unwrap())
        };
        assert_eq!(text("UTC"), "202611252330");
        assert_eq!(text("Europe/Zurich"), "202611260030");
        assert_eq!(text("America/New_York"), "202611251830");
        let error = "Europe/Zuerich".parse::<Zone>().unwrap_err();
        assert!(error.contains("`Europe/Zurich`"), "{error}");
    }
}
