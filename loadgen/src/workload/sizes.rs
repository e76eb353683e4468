//! How long the bodies of a burst are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::mix::{below, mix};
use crate::whole::whole;

/// The lengths of bodies, in bytes. Each event has one length, which follows from the seed and its number.
///
/// As text: `300`, `300..2000` or `300:90,4000:9,200000:1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Sizes {
    /// Every body has this length.
    Fixed(usize),
    /// Every length from `min` to `max` is as likely.
    Uniform { min: usize, max: usize },
    /// Some lengths, each with its weight.
    Weighted(Vec<(usize, u32)>),
}

/// A text that names no lengths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the body size: not understood: got `{0}`, expected a number of bytes such as `300`, a range such as `300..2000`, or \
     sizes with weights such as `300:90,4000:9,200000:1`"
)]
pub struct SizesError(String);

impl Sizes {
    /// Returns the shortest and the longest length.
    pub fn range(&self) -> (usize, usize) {
        match self {
            Self::Fixed(size) => (*size, *size),
            Self::Uniform { min, max } => (*min, *max),
            Self::Weighted(sizes) => {
                let drawn = sizes.iter().filter(|(_, weight)| *weight > 0);
                let drawn = drawn.map(|(size, _)| *size);
                (drawn.clone().min().unwrap_or(0), drawn.max().unwrap_or(0))
            }
        }
    }

    /// Returns the length of the body of an event.
    pub(crate) fn of(&self, key: u64, number: u64) -> usize {
        let draw = |end| below(mix(key.wrapping_add(number)), end);
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform { min, max } => min + draw((max - min) as u64 + 1) as usize,
            Self::Weighted(sizes) => {
                let mut left = draw(total(sizes));
                let drawn = sizes.iter().find(|(_, weight)| {
                    let found = left < u64::from(*weight);
                    left = left.saturating_sub(u64::from(*weight));
                    found
                });
                drawn.map_or(0, |(size, _)| *size)
            }
        }
    }

    fn read(text: &str) -> Option<Self> {
        if let Some(size) = whole(text) {
            return Some(Self::Fixed(size));
        }
        if let Some((min, max)) = text.split_once("..") {
            let (min, max) = (whole::<usize>(min)?, whole::<usize>(max)?);
            return (min <= max).then_some(Self::Uniform { min, max });
        }
        let each = text.split(',').map(|field| {
            let (size, weight) = field.split_once(':')?;
            Some((whole::<usize>(size)?, whole::<u32>(weight)?))
        });
        let sizes: Vec<(usize, u32)> = each.collect::<Option<_>>()?;
        (total(&sizes) > 0).then_some(Self::Weighted(sizes))
    }
}

fn total(sizes: &[(usize, u32)]) -> u64 {
    sizes.iter().map(|(_, weight)| u64::from(*weight)).sum()
}

impl FromStr for Sizes {
    type Err = SizesError;

    fn from_str(text: &str) -> Result<Self, SizesError> {
        Self::read(text).ok_or_else(|| SizesError(text.to_owned()))
    }
}

/// The text that [`FromStr`] reads.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Uniform { min, max } => write!(f, "{min}..{max}"),
            Self::Weighted(sizes) => {
                let sizes = sizes.iter();
                let texts = sizes.map(|(size, weight)| format!("{size}:{weight}"));
                f.write_str(&Vec::from_iter(texts).join(","))
            }
        }
    }
}

impl TryFrom<String> for Sizes {
    type Error = SizesError;

    fn try_from(text: String) -> Result<Self, SizesError> {
        text.parse()
    }
}

impl From<Sizes> for String {
    fn from(sizes: Sizes) -> String {
        sizes.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_written_back() {
        for (text, sizes, range) in [
            ("300", Sizes::Fixed(300), (300, 300)),
            (
                "300..2000",
                Sizes::Uniform {
                    min: 300,
                    max: 2_000,
                },
                (300, 2_000),
            ),
            (
                "300:3,700:1,9:0",
                Sizes::Weighted(vec![(300, 3), (700, 1), (9, 0)]),
                (300, 700),
            ),
        ] {
            assert_eq!(text.parse(), Ok(sizes.clone()));
            assert_eq!(sizes.to_string(), text);
            assert_eq!(sizes.range(), range);
        }
        for text in [
            "", "x", "-3", "+3", "3..2", "..3", "3..", "3:0", "3:1,", "3:x", "3,4:1",
        ] {
            assert_eq!(text.parse::<Sizes>(), Err(SizesError(text.to_owned())));
        }
    }

    #[test]
    fn lengths_are_drawn_as_often_as_their_weights_say() {
        let drawn = |text: &str| {
            let sizes: Sizes = text.parse().unwrap();
            (0..10_000)
                .map(|number| sizes.of(7, number))
                .collect::<Vec<_>>()
        };
        let weighted = drawn("300:90,4000:9,9:0,200000:1");
        let count = |size| weighted.iter().filter(|each| **each == size).count();
        assert!((8_900..9_100).contains(&count(300)), "{}", count(300));
        assert!((800..1_000).contains(&count(4_000)), "{}", count(4_000));
        assert!((70..130).contains(&count(200_000)), "{}", count(200_000));
        let uniform = drawn("300..309");
        assert!((300..=309).all(|size| uniform.iter().filter(|each| **each == size).count() > 850));
        assert!(uniform.iter().all(|size| (300..=309).contains(size)));
    }
}
