//! Hours against a reckoning minute by minute that knows only what the clock of a zone is ahead of UTC by.

use std::ops::RangeInclusive;

use jiff::Timestamp as Instant;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

const ZONES: [&str; 6] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Nuuk",
    "Asia/Kolkata",
    "UTC",
];
const MINUTE_MS: u64 = 60_000;
const DAY: i64 = 24 * 60;
/// 25 November 2026, a Wednesday, in minutes since 1970.
const FROM: i64 = 29_926_080;
/// A batch lives for ten days, so no hours may be closed for longer.
const CLOSED_MAX: Duration = Duration::from_secs(8 * 24 * 3_600);

/// The zone by which a test reckons.
struct Clock(TimeZone);

impl Clock {
    fn of(zone: &str) -> Clock {
        Clock(TimeZone::get(zone).unwrap())
    }

    /// Returns by how many minutes the clock is ahead of UTC at a minute.
    fn ahead(&self, minute: i64) -> i64 {
        let instant = Instant::from_second(minute * 60).unwrap();
        i64::from(self.0.to_offset(instant).seconds() / 60)
    }

    /// Returns the first minute at which the clock shows `shown`, in minutes since its midnight of 1970. If it never does, returns
    /// the minute at which it would, had it not been changed.
    fn first(&self, shown: i64) -> i64 {
        let around = [-2 * DAY, 2 * DAY].map(|away| self.ahead(shown + away));
        let minutes = around.map(|ahead| shown - ahead);
        let right = minutes
            .into_iter()
            .filter(|minute| minute + self.ahead(*minute) == shown);
        right.min().unwrap_or(minutes[0])
    }

    /// Returns the minutes of 400 days at which the clock is changed.
    fn changes(&self) -> Vec<i64> {
        let minutes = FROM..FROM + 400 * DAY;
        let is_changed = |minute: &i64| self.ahead(*minute) != self.ahead(minute - 1);
        let hours = minutes.step_by(30);
        hours.filter(is_changed).collect()
    }
}

/// Spans of the week, each with its first and last day from Monday on, its opening in minutes, and its length in minutes.
type Spans = Vec<(i64, i64, i64, i64)>;

fn text(spans: &Spans, zone: &str) -> String {
    let clock = |minutes: i64| format!("{:02}:{:02}", minutes / 60, minutes % 60);
    let span = |(first, last, opens, length): &(i64, i64, i64, i64)| {
        let [first, last] = [*first, *last].map(|day| DAYS[day as usize]);
        let closes = match opens + length {
            DAY => DAY,
            closes => closes % DAY,
        };
        format!("{first}-{last} {}-{}", clock(*opens), clock(closes))
    };
    let spans: Vec<String> = spans.iter().map(span).collect();
    format!("{} {zone}", spans.join(", "))
}

/// Returns for each minute of `minutes` whether deliveries may begin.
fn open(spans: &Spans, clock: &Clock, minutes: &RangeInclusive<i64>) -> Vec<bool> {
    let mut open = vec![false; (minutes.end() - minutes.start() + 1) as usize];
    for day in minutes.start() / DAY - 3..=minutes.end() / DAY + 3 {
        // 1 January 1970 was a Thursday.
        let weekday = (day + 3) % 7;
        for (first, last, opens, length) in spans {
            if (weekday - first).rem_euclid(7) > (last - first).rem_euclid(7) {
                continue;
            }
            let from = clock.first(day * DAY + opens);
            let mut until = clock.first(day * DAY + opens + length);
            if until <= from {
                until = from + length;
            }
            for minute in from.max(*minutes.start())..until.min(minutes.end() + 1) {
                open[(minute - minutes.start()) as usize] = true;
            }
        }
    }
    open
}

/// Draws spans, often about the time at which clocks are changed.
fn spans() -> impl Strategy<Value = Spans> {
    let opens = prop_oneof![3 => 60..240_i64, 1 => 0..DAY, 2 => DAY - 90..DAY, 1 => Just(120)];
    let length = prop_oneof![3 => 1..150_i64, 1 => 1..DAY, 1 => Just(60), 1 => Just(DAY)];
    let span = (0..7_i64, 0..7_i64, opens, length).prop_map(|(first, last, opens, length)| {
        // Only midnight is a whole day long.
        let opens = if length == DAY { 0 } else { opens };
        (first, last, opens, length)
    });
    prop::collection::vec(span, 1..4)
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_ms(minute as u64 * MINUTE_MS)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn hours_are_as_reckoned_minute_by_minute(
        spans in spans(), zone in 0..ZONES.len(), change in any::<prop::sample::Index>(), first in 0..13_i64,
    ) {
        let clock = Clock::of(ZONES[zone]);
        let changes = clock.changes();
        let about = if changes.is_empty() { FROM } else { *change.get(&changes) };
        let written = text(&spans, ZONES[zone]);
        let hours: DeliveryHours = written.parse().map_err(TestCaseError::fail)?;
        let minutes = about - 12 * DAY..=about + 12 * DAY;
        let open = open(&spans, &clock, &minutes);
        let is_open = |minute: i64| open[(minute - minutes.start()) as usize];
        let changes = (about - 3 * DAY..about + 3 * DAY).filter(|minute| is_open(*minute) != is_open(minute - 1));
        let others = (about - 3 * DAY + first..about + 3 * DAY).step_by(97);
        for now in changes.flat_map(|minute| [minute - 1, minute]).chain(others) {
            let next = (now..=*minutes.end()).find(|minute| is_open(*minute));
            let expected = next.filter(|next| *next > now).map(at);
            prop_assert!(next.is_some(), "{written}: nothing opens after {now}");
            prop_assert_eq!(hours.closed_until(at(now)), expected, "{} at {}", written, now);
            let (since, until) = (hours.open_since(at(now)), hours.open_until(at(now)));
            prop_assert_eq!(since.is_some(), is_open(now), "{} at {}", written, now);
            prop_assert_eq!(until.is_some(), is_open(now), "{} at {}", written, now);
            let (Some(since), Some(until)) = (since, until) else { continue };
            let begin = (*minutes.start()..=now).rev().find(|minute| !is_open(*minute)).map(|minute| at(minute + 1));
            let end = (now..=*minutes.end()).find(|minute| !is_open(*minute)).map(at);
            // Not more than some spans are taken together.
            if let (Some(begin), Some(end)) = (begin, end) && end - begin < Duration::from_secs(24 * 3_600) {
                prop_assert_eq!((since, until), (begin, end), "{} at {}", written, now);
            }
        }
    }

    #[test]
    fn no_hours_stay_closed_for_8_days(spans in spans(), zone in 0..ZONES.len()) {
        let hours: DeliveryHours = text(&spans, ZONES[zone]).parse().map_err(TestCaseError::fail)?;
        let mut now = at(FROM);
        while now < at(FROM + 400 * DAY) {
            match hours.closed_until(now) {
                Some(opening) => {
                    prop_assert!(opening - now < CLOSED_MAX, "{} from {now} to {opening}", text(&spans, ZONES[zone]));
                    now = opening;
                }
                None => now = hours.open_until(now).unwrap_or(now),
            }
        }
    }
}
