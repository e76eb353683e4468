//! How many messages of a burst repeat an earlier one, by kind.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The shares of repeats among the messages of a burst, in percent.
///
/// As text, `5` means `any=5`; shares of several kinds are `immediate=2,delayed=2,changed=1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Duplicates {
    /// Repeats with the same body: half of them at most 1,000 messages after their original, half of them later.
    pub any: f64,
    /// Repeats with the same body, at most ten messages after their original.
    pub immediate: f64,
    /// Repeats with the same body, about 1,000 messages or more after their original.
    pub delayed: f64,
    /// Repeats with the same event id and another body, at the distances of `any`.
    pub changed: f64,
}

/// A text that names no shares of repeats.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the share of duplicates: not understood: got `{0}`, expected a percentage such as `5`, or percentages by kind such as \
     `immediate=2,delayed=2,changed=1,any=5`"
)]
pub struct DuplicatesError(String);

/// The number of repeats of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub any: u64,
    pub immediate: u64,
    pub delayed: u64,
    pub changed: u64,
}

/// The kind of a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Any,
    Immediate,
    Delayed,
    Changed,
}

impl Duplicates {
    /// Returns this share of repeats of the kind `any`.
    pub fn any(percent: f64) -> Self {
        Self {
            any: percent,
            ..Self::default()
        }
    }

    /// Returns the share of all repeats, in percent.
    pub fn percent(&self) -> f64 {
        self.by_name().iter().map(|(_, percent)| percent).sum()
    }

    /// Returns the share of each kind.
    pub(super) fn by_name(&self) -> [(&'static str, f64); 4] {
        let Self {
            any,
            immediate,
            delayed,
            changed,
        } = *self;
        [
            ("any", any),
            ("immediate", immediate),
            ("delayed", delayed),
            ("changed", changed),
        ]
    }

    pub(super) fn counts(&self, messages: u64) -> Counts {
        let of = |percent: f64| (messages as f64 * percent / 100.0).round() as u64;
        Counts {
            any: of(self.any),
            immediate: of(self.immediate),
            delayed: of(self.delayed),
            changed: of(self.changed),
        }
    }
}

impl Counts {
    pub fn total(&self) -> u64 {
        self.any + self.immediate + self.delayed + self.changed
    }

    /// Returns the kind of the repeat with this rank, from 0 to below the total. The kinds are spread evenly, and the
    /// number of repeats of each kind is exact.
    pub fn kind(&self, rank: u64) -> Kind {
        let (mut rank, mut total) = (rank, self.total());
        let kinds = [
            (Kind::Changed, self.changed),
            (Kind::Immediate, self.immediate),
            (Kind::Delayed, self.delayed),
        ];
        for (kind, count) in kinds {
            let before = rank * count / total;
            if (rank + 1) * count / total > before {
                return kind;
            }
            rank -= before;
            total -= count;
        }
        Kind::Any
    }
}

impl FromStr for Duplicates {
    type Err = DuplicatesError;

    fn from_str(text: &str) -> Result<Self, DuplicatesError> {
        let error = || DuplicatesError(text.to_owned());
        if let Ok(percent) = text.parse() {
            return Ok(Self::any(percent));
        }
        let mut shares = Self::default();
        let mut seen = Vec::new();
        for field in text.split(',') {
            let (kind, percent) = field.split_once('=').ok_or_else(error)?;
            let share = match kind {
                "any" => &mut shares.any,
                "immediate" => &mut shares.immediate,
                "delayed" => &mut shares.delayed,
                "changed" => &mut shares.changed,
                _ => return Err(error()),
            };
            *share = percent.parse().map_err(|_| error())?;
            if seen.contains(&kind) {
                return Err(error());
            }
            seen.push(kind);
        }
        Ok(shares)
    }
}

/// The text that [`FromStr`] reads.
impl fmt::Display for Duplicates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.by_name().into_iter();
        let shares = shares.filter(|(_, percent)| *percent != 0.0);
        match shares.collect::<Vec<_>>().as_slice() {
            [] => f.write_str("0"),
            [("any", percent)] => write!(f, "{percent}"),
            shares => {
                let shares = shares.iter();
                let texts = shares.map(|(kind, percent)| format!("{kind}={percent}"));
                f.write_str(&Vec::from_iter(texts).join(","))
            }
        }
    }
}

impl TryFrom<String> for Duplicates {
    type Error = DuplicatesError;

    fn try_from(text: String) -> Result<Self, DuplicatesError> {
        text.parse()
    }
}

impl From<Duplicates> for String {
    fn from(duplicates: Duplicates) -> String {
        duplicates.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_written_back() {
        let kinds = Duplicates {
            immediate: 2.0,
            delayed: 0.5,
            changed: 1.0,
            any: 0.0,
        };
        for (text, shares) in [
            ("0", Duplicates::default()),
            ("5", Duplicates::any(5.0)),
            ("99.9", Duplicates::any(99.9)),
            ("immediate=2,delayed=0.5,changed=1", kinds),
            (
                "any=1,changed=2",
                Duplicates {
                    any: 1.0,
                    changed: 2.0,
                    ..Duplicates::default()
                },
            ),
        ] {
            assert_eq!(text.parse(), Ok(shares));
            assert_eq!(shares.to_string(), text);
        }
        assert_eq!("any=5".parse(), Ok(Duplicates::any(5.0)));
        for text in [
            "",
            "x",
            "5,",
            "immediate",
            "late=5",
            "changed=1,changed=2",
            "any=x",
        ] {
            let error = text.parse::<Duplicates>().unwrap_err();
            assert_eq!(error, DuplicatesError(text.to_owned()));
        }
    }

    #[test]
    fn every_kind_has_exactly_its_count_and_is_spread_evenly() {
        let counts = |[any, immediate, delayed, changed]: [u64; 4]| Counts {
            any,
            immediate,
            delayed,
            changed,
        };
        for expected in [
            [0, 2, 2, 1],
            [100, 0, 7, 13],
            [1, 1_000, 1, 0],
            [5, 0, 0, 0],
            [0, 0, 0, 5],
        ] {
            let counts = counts(expected);
            let kinds: Vec<Kind> = (0..counts.total()).map(|rank| counts.kind(rank)).collect();
            let count = |kind| kinds.iter().filter(|each| **each == kind).count() as u64;
            let all = [Kind::Any, Kind::Immediate, Kind::Delayed, Kind::Changed];
            assert_eq!(all.map(count), expected);
        }
        let counts = counts([80, 0, 0, 20]);
        let kinds =
            |from: u64| (from..from + 10).filter(|rank| counts.kind(*rank) == Kind::Changed);
        assert!((0..90).all(|from| kinds(from).count() == 2));
    }
}
