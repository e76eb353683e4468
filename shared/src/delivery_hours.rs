//! `DELIVERY_HOURS`: the hours of the week in which parts go to the sink, by the clock of a time zone.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::{Date, Weekday};
use protocol::time::Timestamp;

use crate::zone::{MINUTES_OF_DAY, Zone, minutes};

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// How many days ago a span may have begun that is not over: it lasts less than a day and the time that the clock skips.
const DAYS_BACK: i64 = 2;
/// How far ahead the next opening is looked for: every span opens once a week.
const DAYS_AHEAD: i64 = 7;
/// Maximum adjacent spans merged; one already outlasts any invocation.
const SPANS_JOINED_MAX: usize = 7;
/// The resolution of the times.
const MOMENT: Duration = Duration::from_millis(1);

/// Hours of the week.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryHours {
    spans: Vec<Hours>,
    zone: Zone,
}

/// A span on some days of the week. In minutes since the midnight before; it ends after the next midnight if `closes` is more
/// than a day.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hours {
    /// From Monday on.
    days: [bool; 7],
    opens: u16,
    closes: u16,
}

impl DeliveryHours {
    /// Returns when the hours next begin; `None` if `now` is in them.
    ///
    /// A time that the clock of the zone skips counts as the same time after the gap, and one that it shows twice as the first of
    /// them: 02:30 is 03:30 on the day on which summer begins. A span that would vanish lasts as long as on any other day:
    /// 02:00-03:00 is 03:00-04:00 then.
    pub fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        let today = self.zone.date(now)?;
        let mut next: Option<Timestamp> = None;
        for day in -DAYS_BACK..=DAYS_AHEAD {
            // A span of tomorrow may begin before one of today that the clock skips. Those of later days do not.
            if next.is_some() && day > 1 {
                break;
            }
            for span in self.spans_of(today, day)? {
                if span.contains(&now) {
                    return None;
                }
                if span.start > now {
                    next = Some(next.map_or(span.start, |next| next.min(span.start)));
                }
            }
        }
        next
    }

    /// Returns when the hours that `now` is in began; `None` if it is in none. Spans that meet are taken together, eight at most.
    pub fn open_since(&self, now: Timestamp) -> Option<Timestamp> {
        let begin = |at: Timestamp| self.open_spans(at)?.map(|span| span.start).min();
        last_of(begin(now), |since| begin(since.saturating_sub(MOMENT)))
    }

    /// Returns when the hours that `now` is in end; `None` if it is in none. Spans that meet are taken together, eight at most.
    pub fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        let end = |at: Timestamp| self.open_spans(at)?.map(|span| span.end).max();
        last_of(end(now), end)
    }

    /// Returns the spans that `now` is in.
    fn open_spans(&self, now: Timestamp) -> Option<impl Iterator<Item = Range<Timestamp>>> {
        let today = self.zone.date(now)?;
        let spans = (-DAYS_BACK..=0).map(|day| self.spans_of(today, day));
        let spans: Vec<_> = spans.collect::<Option<_>>()?;
        let spans = spans.into_iter().flatten();
        Some(spans.filter(move |span| span.contains(&now)))
    }

    /// Returns the spans that begin `days` days after a date.
    fn spans_of(&self, date: Date, days: i64) -> Option<Vec<Range<Timestamp>>> {
        let date = self.zone.days_after(date, days)?;
        let hours = self.spans.iter().filter(|hours| hours.on(date.weekday()));
        let instant = |minutes| self.zone.instant(date, minutes);
        let span = |hours: &Hours| {
            let (opens, closes) = (instant(hours.opens)?, instant(hours.closes)?);
            let closes = match opens < closes {
                true => closes,
                false => opens + hours.length(),
            };
            Some(opens..closes)
        };
        hours.map(span).collect()
    }
}

/// Follows spans that meet from one to the next, and returns the last time.
fn last_of(
    first: Option<Timestamp>,
    next: impl Fn(Timestamp) -> Option<Timestamp>,
) -> Option<Timestamp> {
    let ends = std::iter::successors(first, |at| next(*at));
    ends.take(1 + SPANS_JOINED_MAX).last()
}

impl Hours {
    fn length(&self) -> Duration {
        Duration::from_secs(60 * u64::from(self.closes - self.opens))
    }

    fn on(&self, day: Weekday) -> bool {
        self.days[day.to_monday_zero_offset().unsigned_abs() as usize]
    }
}

impl FromStr for DeliveryHours {
    type Err = String;

    /// Parses spans, separated by commas, and a time zone: `Mon-Fri 20:00-05:00, Sat 10:00-12:00 Europe/Berlin`.
    fn from_str(text: &str) -> Result<DeliveryHours, String> {
        let (spans, zone) = Zone::split(text)?;
        let spans = spans.split(',').map(|span| span.trim().parse());
        Ok(DeliveryHours {
            spans: spans.collect::<Result<_, String>>()?,
            zone,
        })
    }
}

impl FromStr for Hours {
    type Err = String;

    fn from_str(text: &str) -> Result<Hours, String> {
        let (days, times) = match text.split_once(' ') {
            Some((days, times)) => (parse_days(days)?, times.trim()),
            None => ([true; 7], text),
        };
        let wrong = || format!("hours: got `{times}`, expected two times such as `20:00-05:00`");
        let (opens, closes) = times.split_once('-').ok_or_else(wrong)?;
        let opens = minutes(opens).filter(|opens| *opens < MINUTES_OF_DAY);
        let (opens, closes) = (opens.ok_or_else(wrong)?, minutes(closes).ok_or_else(wrong)?);
        if opens == closes {
            return Err(format!(
                "hours: got `{times}`, expected two different times; the whole day is `00:00-24:00`"
            ));
        }
        let next_day = if closes < opens { MINUTES_OF_DAY } else { 0 };
        Ok(Hours {
            days,
            opens,
            closes: closes + next_day,
        })
    }
}

/// Parses a day or the days from one to another: `Sat`, `Mon-Fri`, `Sat-Mon`.
fn parse_days(text: &str) -> Result<[bool; 7], String> {
    let number = |day: &str| DAYS.iter().position(|name| *name == day);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (Some(first), Some(last)) = (number(first), number(last)) else {
        return Err(format!(
            "days: got `{text}`, expected one or two of {}, such as `Sat` or `Mon-Fri`",
            DAYS.join(", ")
        ));
    };
    let count = (last + 7 - first) % 7;
    let mut days = [false; 7];
    for day in 0..=count {
        days[(first + day) % 7] = true;
    }
    Ok(days)
}

#[cfg(test)]
mod props;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::at;

    fn hours(text: &str) -> DeliveryHours {
        text.parse().unwrap()
    }

    /// Checks when the hours next begin; the empty text is "now".
    fn opens(hours: &DeliveryHours, now: &str, expected: &str) {
        let expected = (!expected.is_empty()).then(|| at(expected));
        assert_eq!(hours.closed_until(at(now)), expected, "{now}");
    }

    #[test]
    fn a_span_over_midnight_belongs_to_the_day_on_which_it_begins() {
        let nightly = hours("Mon-Fri 20:00-05:00 Europe/Berlin");
        // 25 November 2026 is a Wednesday; Berlin is one hour ahead.
        opens(&nightly, "2026-11-25T18:59:59Z", "2026-11-25T19:00:00Z");
        opens(&nightly, "2026-11-25T19:00:00Z", "");
        let end = Some(at("2026-11-26T04:00:00Z"));
        assert_eq!(nightly.open_until(at("2026-11-25T19:00:00Z")), end);
        assert_eq!(nightly.open_until(at("2026-11-26T03:59:59Z")), end);
        assert_eq!(nightly.open_until(at("2026-11-26T04:00:00Z")), None);
        let begin = Some(at("2026-11-25T19:00:00Z"));
        assert_eq!(nightly.open_since(at("2026-11-25T19:00:00Z")), begin);
        assert_eq!(nightly.open_since(at("2026-11-26T03:59:59Z")), begin);
        assert_eq!(nightly.open_since(at("2026-11-26T04:00:00Z")), None);
        opens(&nightly, "2026-11-26T03:59:59Z", "");
        opens(&nightly, "2026-11-26T04:00:00Z", "2026-11-26T19:00:00Z");
        // Friday's span ends on Saturday morning, and the next begins on Monday.
        opens(&nightly, "2026-11-28T03:59:59Z", "");
        opens(&nightly, "2026-11-28T04:00:00Z", "2026-11-30T19:00:00Z");
    }

    #[test]
    fn spans_are_taken_together_and_a_day_ends_at_24() {
        let two = hours("Sat-Sun 00:00-24:00, 12:00-13:00 UTC");
        opens(&two, "2026-11-28T23:59:59Z", "");
        opens(&two, "2026-11-29T00:00:00Z", "");
        opens(&two, "2026-11-30T00:00:00Z", "2026-11-30T12:00:00Z");
        opens(&two, "2026-11-30T12:30:00Z", "");
        opens(&two, "2026-12-04T13:00:00Z", "2026-12-05T00:00:00Z");
        // Saturday goes on into Sunday without an end at midnight.
        let weekend = hours("Sat-Sun 00:00-24:00 UTC");
        let (begin, end) = (at("2026-11-28T00:00:00Z"), at("2026-11-30T00:00:00Z"));
        for now in ["2026-11-28T23:59:59Z", "2026-11-29T00:00:00Z"] {
            assert_eq!(weekend.open_since(at(now)), Some(begin), "{now}");
            assert_eq!(weekend.open_until(at(now)), Some(end), "{now}");
        }
    }

    #[test]
    fn hours_follow_the_clock_when_it_changes() {
        let nightly = hours("20:00-05:00 Europe/Berlin");
        // Summer time ends on 25 October 2026 at 01:00 UTC, and begins on 28 March 2027 at 01:00 UTC.
        opens(&nightly, "2026-10-25T03:59:59Z", "");
        opens(&nightly, "2026-10-25T04:00:00Z", "2026-10-25T19:00:00Z");
        opens(&nightly, "2027-03-28T02:59:59Z", "");
        opens(&nightly, "2027-03-28T03:00:00Z", "2027-03-28T18:00:00Z");
        // 02:30 is shown twice in autumn: from the first time on, until the last minute before 03:00.
        let short = hours("02:30-03:00 Europe/Berlin");
        opens(&short, "2026-10-25T00:29:59Z", "2026-10-25T00:30:00Z");
        opens(&short, "2026-10-25T01:59:59Z", "");
    }

    #[test]
    fn repro_a_span_in_the_hour_that_the_clock_skips_was_left_out() {
        // On the day on which summer begins, 02:00 is followed by 03:00 (in Lord Howe by 02:30, in Nuuk 23:00 by 00:00).
        // The span, a time before it, and when it opens and closes, in 2027 by UTC.
        for row in [
            "Sun 02:00-03:00 Europe/Berlin; 03-21T02:00; 03-28T01:00; 03-28T02:00",
            "Sun 02:30-03:00 Europe/Berlin; 03-27T02:00; 03-28T01:30; 03-28T02:00",
            "Sun 02:30-03:30 Europe/Berlin; 03-27T02:00; 03-28T01:30; 03-28T02:30",
            // Times that are not skipped are as written.
            "Sun 01:00-03:00 Europe/Berlin; 03-27T02:00; 03-28T00:00; 03-28T01:00",
            "Sun 02:30-05:00 Europe/Berlin; 03-27T02:00; 03-28T01:30; 03-28T03:00",
            "Sun 02:00-03:00 America/New_York; 03-07T08:00; 03-14T07:00; 03-14T08:00",
            "Sun 02:00-02:30 Australia/Lord_Howe; 09-25T16:00; 10-02T15:30; 10-02T16:00",
            "Sat 23:00-24:00 America/Nuuk; 03-27T12:00; 03-28T01:00; 03-28T02:00",
        ] {
            let mut cells = row.split("; ");
            let hours = hours(cells.next().unwrap());
            let mut time = || at(&format!("2027-{}:00Z", cells.next().unwrap()));
            let (before, opening, closing) = (time(), time(), time());
            assert_eq!(hours.closed_until(before), Some(opening), "{row}");
            assert_eq!(hours.closed_until(opening), None, "{row}");
            assert_eq!(hours.open_until(opening), Some(closing), "{row}");
            assert_eq!(hours.open_since(opening), Some(opening), "{row}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_what_is_allowed() {
        for row in [
            "20:00-05:00 => no time zone: expected one at the end",
            "20:00-05:00 Europe/Atlantis => time zone: got `Europe/Atlantis`, expected a name",
            "Mon-Fry 20:00-05:00 UTC => days: got `Mon-Fry`, expected one or two of Mon, Tue",
            "Mon 20-05:00 UTC => hours: got `20-05:00`, expected two times",
            "Mon 24:00-05:00 UTC => hours: got `24:00-05:00`, expected two times",
            "Mon 05:60-06:00 UTC => hours: got `05:60-06:00`, expected two times",
            "Mon 05:00-05:00 UTC => hours: got `05:00-05:00`, expected two different times",
            "Mon 05:00-06:00, UTC => hours: got ``, expected two times",
        ] {
            let (text, words) = row.split_once(" => ").unwrap();
            let error = text.parse::<DeliveryHours>().unwrap_err();
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }
}
