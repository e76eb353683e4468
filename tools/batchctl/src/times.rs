//! Times and durations for people.

use std::time::Duration;

use protocol::time::Timestamp;

/// Returns a time in UTC: `2026-11-25 09:30:00Z`.
pub fn utc(time: Timestamp) -> String {
    let (year, month, day) = time.date();
    let secs = time.as_ms() / 1_000 % 86_400;
    let (hour, minute, second) = (secs / 3_600, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// Returns a duration in its two largest units: `2 d 3 h`, `4 min 5 s`, `6 s`.
pub fn short(duration: Duration) -> String {
    let secs = duration.as_secs();
    let (days, hours, minutes) = (secs / 86_400, secs / 3_600 % 24, secs / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{secs} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", secs % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// Returns a duration in its largest unit: `2 d`, `3 h`, `4 min`, `6 s`.
pub fn brief(duration: Duration) -> String {
    let secs = duration.as_secs();
    match (secs / 86_400, secs / 3_600, secs / 60) {
        (0, 0, 0) => format!("{secs} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, _) => format!("{hours} h"),
        (days, _, _) => format!("{days} d"),
    }
}

/// Returns a time with its distance from `now`: `2026-11-25 09:30:00Z (5 min 0 s ago)`.
pub fn with_distance(time: Timestamp, now: Timestamp) -> String {
    let at = utc(time);
    match time <= now {
        true => format!("{at} ({} ago)", short(time.until(now))),
        false => format!("{at} (in {})", short(now.until(time))),
    }
}

/// Reads a duration: a whole number and `s`, `m`, `h` or `d`.
///
/// # Errors
/// What is allowed.
pub fn duration(text: &str) -> Result<Duration, String> {
    let expected = "expected a whole number and a unit, such as `90s`, `15m`, `2h` or `3d`";
    let (number, unit) = text.split_at(text.trim_end_matches(char::is_alphabetic).len());
    let secs = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(expected.to_owned()),
    };
    let number: Option<u64> = number.parse().ok();
    let secs = number.and_then(|number| number.checked_mul(secs));
    secs.map(Duration::from_secs)
        .ok_or_else(|| expected.to_owned())
}

/// Reads a time with its offset from UTC, such as `2026-12-01T08:00:00Z`.
///
/// # Errors
/// What is allowed.
pub fn instant(text: &str) -> Result<Timestamp, String> {
    let read: Option<jiff::Timestamp> = text.parse().ok();
    let ms = read.and_then(|time| u64::try_from(time.as_millisecond()).ok());
    ms.map(Timestamp::from_ms).ok_or_else(|| {
        "expected a time with its offset from UTC, such as `2026-12-01T08:00:00Z`".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_utc() {
        let time = Timestamp::from_ms(1_700_000_000_999);
        assert_eq!(utc(time), "2023-11-14 22:13:20Z");
    }

    #[test]
    fn a_duration_has_its_two_largest_units_and_a_brief_one_the_largest() {
        for (secs, in_short, in_brief) in [
            (6, "6 s", "6 s"),
            (245, "4 min 5 s", "4 min"),
            (3_599, "59 min 59 s", "59 min"),
            (7_265, "2 h 1 min", "2 h"),
            (183_600, "2 d 3 h", "2 d"),
        ] {
            let duration = Duration::from_secs(secs);
            assert_eq!((&*short(duration), &*brief(duration)), (in_short, in_brief));
        }
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("15m"), Ok(Duration::from_secs(900)));
        assert_eq!(duration("3d"), Ok(Duration::from_secs(259_200)));
        for wrong in ["", "5", "m", "-1h", "1w", "1.5h", "99999999999999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
