//! Seeded random choices. Each kind of fault has its own stream, so that turning one kind on or off does not change the
//! choices of the others.

use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use crate::locked::locked;

/// A percentage from 0 to 100, fractions included. Parses from text such as `0.5`, without a percent sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Percent(f64);

impl Percent {
    /// 100 percent.
    pub const ALL: Percent = Percent(100.0);

    /// Returns whether the percentage is 0.
    pub fn is_zero(self) -> bool {
        self.0 == 0.0
    }
}

/// The error for a text that is not a percentage.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("percentage: got `{0}`, expected a number from 0 to 100")]
pub struct InvalidPercent(String);

impl FromStr for Percent {
    type Err = InvalidPercent;

    fn from_str(text: &str) -> Result<Percent, InvalidPercent> {
        let number: Option<f64> = text.parse().ok();
        let percent = number.filter(|percent| (0.0..=100.0).contains(percent));
        let invalid = || InvalidPercent(text.to_owned());
        percent.map(Percent).ok_or_else(invalid)
    }
}

/// A stream of random choices that a seed and a name determine.
#[derive(Debug)]
pub struct RandomStream(Mutex<fastrand::Rng>);

impl RandomStream {
    /// Makes a stream. Streams of one seed with different names are independent.
    pub fn new(seed: u64, stream: &str) -> RandomStream {
        // FNV-1a is enough: different names must only give different streams.
        let name = stream
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        RandomStream(Mutex::new(fastrand::Rng::with_seed(seed ^ name)))
    }

    /// Returns `true` with this probability.
    pub fn happens(&self, percent: Percent) -> bool {
        locked(&self.0).f64() * 100.0 < percent.0
    }

    /// Returns a duration from zero to `most`, uniformly distributed.
    pub fn duration_up_to(&self, most: Duration) -> Duration {
        most.mul_f64(locked(&self.0).f64())
    }

    /// Returns a number from 0 to `end - 1`, uniformly distributed.
    ///
    /// # Panics
    /// `end` is 0.
    pub fn below(&self, end: u32) -> u32 {
        locked(&self.0).u32(..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_and_names_give_equal_streams_and_others_differ() {
        let drawn = |seed, name| {
            let draws = RandomStream::new(seed, name);
            (0..16).map(|_| draws.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1, "lag"), drawn(1, "lag"));
        assert_ne!(drawn(1, "lag"), drawn(1, "kills"));
        assert_ne!(drawn(1, "lag"), drawn(2, "lag"));
    }

    #[test]
    fn an_event_happens_about_as_often_as_its_percentage() {
        let draws = RandomStream::new(7, "share");
        let percent = "5".parse().unwrap();
        let happened = (0..10_000).filter(|_| draws.happens(percent)).count();
        assert!((400..600).contains(&happened), "{happened}");
        assert!((0..1_000).all(|_| !draws.happens(Percent::default())));
        assert!((0..1_000).all(|_| draws.happens(Percent::ALL)));
    }

    #[test]
    fn percentages_are_from_0_to_100() {
        assert_eq!("0.5".parse(), Ok(Percent(0.5)));
        for text in ["-1", "101", "NaN", "much"] {
            let invalid = InvalidPercent(text.to_owned());
            assert_eq!(text.parse::<Percent>(), Err(invalid));
        }
    }
}
