//! Durations and sizes as people write them in the file.

use serde_json::Value;

/// The unit of a number that people write with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
    Bytes,
}

/// Units of durations in milliseconds, the largest first.
const DURATIONS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];
/// Units of sizes in bytes, the largest first. The first that fits is written.
const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

impl Unit {
    /// Returns the unit of a declaration; [`None`] for what is only counted.
    pub(super) fn of(unit: &str) -> Option<Unit> {
        match unit {
            "seconds" => Some(Unit::Seconds),
            "milliseconds" => Some(Unit::Milliseconds),
            "bytes" => Some(Unit::Bytes),
            _ => None,
        }
    }

    /// Returns what a text with this unit is called.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Unit::Seconds | Unit::Milliseconds => "a duration",
            Unit::Bytes => "a size",
        }
    }

    /// Returns the regular expression of texts with this unit.
    pub(super) const fn pattern(self) -> &'static str {
        match self {
            Unit::Seconds | Unit::Milliseconds => "^([0-9]+(d|h|m|s|ms))+$",
            Unit::Bytes => "^[0-9]+(GiB|GB|MiB|MB|KiB|KB|B)$",
        }
    }

    const fn units(self) -> &'static [(&'static str, u64)] {
        match self {
            Unit::Seconds | Unit::Milliseconds => &DURATIONS,
            Unit::Bytes => &SIZES,
        }
    }

    /// Returns how many of the smallest units make one of this unit.
    const fn scale(self) -> u64 {
        match self {
            Unit::Seconds => 1_000,
            Unit::Milliseconds | Unit::Bytes => 1,
        }
    }

    /// Returns the whole number of this unit in a text such as `1h30m` or `64MiB`.
    pub(super) fn number(self, text: &str) -> Option<u64> {
        let mut sum: u64 = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let (number, after) = rest.split_at(digits);
            let letters = after.find(|c: char| c.is_ascii_digit());
            let (unit, after) = after.split_at(letters.unwrap_or(after.len()));
            let (_, factor) = self.units().iter().find(|(name, _)| *name == unit)?;
            let part = number.parse::<u64>().ok()?.checked_mul(*factor)?;
            sum = sum.checked_add(part)?;
            rest = after;
            if self == Unit::Bytes && !rest.is_empty() {
                return None;
            }
        }
        (!text.is_empty() && sum.is_multiple_of(self.scale())).then_some(sum / self.scale())
    }

    /// Returns a number of this unit as a text with the largest unit that gives a whole number.
    pub(super) fn text(self, number: u64) -> String {
        let smallest = number * self.scale();
        let mut units = self.units().iter();
        let unit =
            units.find(|(_, factor)| smallest >= *factor && smallest.is_multiple_of(*factor));
        match (unit, self) {
            (Some((unit, factor)), _) => format!("{}{unit}", smallest / factor),
            (None, Unit::Bytes) => "0B".to_owned(),
            (None, Unit::Seconds | Unit::Milliseconds) => "0s".to_owned(),
        }
    }
}

/// Returns a number as JSON.
pub(super) fn json_of(number: &str) -> Value {
    number.parse().unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_as_people_write_them() {
        for (unit, text, number) in [
            (Unit::Seconds, "5m", 300),
            (Unit::Seconds, "90s", 90),
            (Unit::Seconds, "1h30m", 5_400),
            (Unit::Seconds, "13d", 1_123_200),
            (Unit::Seconds, "2000ms", 2),
            (Unit::Seconds, "0s", 0),
            (Unit::Milliseconds, "500ms", 500),
            (Unit::Milliseconds, "1s500ms", 1_500),
            (Unit::Bytes, "64MiB", 64 << 20),
            (Unit::Bytes, "64MB", 64_000_000),
            (Unit::Bytes, "1B", 1),
        ] {
            assert_eq!(unit.number(text), Some(number), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_durations_or_sizes() {
        for (unit, text) in [
            (Unit::Seconds, ""),
            (Unit::Seconds, "5"),
            (Unit::Seconds, "m"),
            (Unit::Seconds, "5 m"),
            (Unit::Seconds, "5min"),
            (Unit::Seconds, "1.5h"),
            (Unit::Seconds, "-5m"),
            (Unit::Seconds, "500ms"),
            (Unit::Seconds, "213503982334602d"),
            (Unit::Bytes, "64"),
            (Unit::Bytes, "64M"),
            (Unit::Bytes, "1MiB1KiB"),
        ] {
            assert_eq!(unit.number(text), None, "{text}");
        }
    }

    #[test]
    fn bounds_are_written_with_the_largest_unit_that_fits() {
        for (unit, number, text) in [
            (Unit::Seconds, 1_123_200, "13d"),
            (Unit::Seconds, 900, "15m"),
            (Unit::Seconds, 0, "0s"),
            (Unit::Milliseconds, 100, "100ms"),
            (Unit::Milliseconds, 60_000, "1m"),
            (Unit::Bytes, 409_600, "400KiB"),
            (Unit::Bytes, 4 << 30, "4GiB"),
            (Unit::Bytes, 1_001, "1001B"),
        ] {
            assert_eq!(unit.text(number), text);
            assert_eq!(unit.number(text), Some(number));
        }
    }
}
