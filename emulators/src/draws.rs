//! Randomness: one stream for each kind of fault, all from one seed, so that one kind more or less leaves the draws of
//! the others as they were.

use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A share in percent, 0 to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Percent(f64);

impl Percent {
    /// Always.
    pub const ALL: Percent = Percent(100.0);

    /// Whether it is never.
    pub fn is_zero(self) -> bool {
        self.0 == 0.0
    }
}

/// Why a text is no share.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a percentage from 0 to 100")]
pub struct NoPercent(String);

impl FromStr for Percent {
    type Err = NoPercent;

    fn from_str(text: &str) -> Result<Percent, NoPercent> {
        text.parse()
            .ok()
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(Percent)
            .ok_or_else(|| NoPercent(text.to_owned()))
    }
}

/// A stream of draws.
#[derive(Debug)]
pub struct Draws(Mutex<fastrand::Rng>);

impl Draws {
    /// The stream with this name.
    pub fn new(seed: u64, stream: &str) -> Draws {
        // FNV-1a: streams with different names must not run in step, more is not asked.
        let name = stream
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Draws(Mutex::new(fastrand::Rng::with_seed(seed ^ name)))
    }

    /// Whether the fault strikes this time.
    pub fn strikes(&self, percent: Percent) -> bool {
        self.rng().f64() * 100.0 < percent.0
    }

    /// A duration, uniformly from nothing to `most`.
    pub fn within(&self, most: Duration) -> Duration {
        most.mul_f64(self.rng().f64())
    }

    /// A number below `end`, uniformly.
    pub fn below(&self, end: u32) -> u32 {
        self.rng().u32(..end)
    }

    fn rng(&self) -> MutexGuard<'_, fastrand::Rng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_name_make_the_same_draws_and_other_names_make_others() {
        let drawn = |seed, name| {
            let draws = Draws::new(seed, name);
            (0..16).map(|_| draws.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1, "lag"), drawn(1, "lag"));
        assert_ne!(drawn(1, "lag"), drawn(1, "kills"));
        assert_ne!(drawn(1, "lag"), drawn(2, "lag"));
    }

    #[test]
    fn a_share_is_struck_about_as_often_as_it_says() {
        let draws = Draws::new(7, "share");
        let percent = "5".parse().unwrap();
        let struck = (0..10_000).filter(|_| draws.strikes(percent)).count();
        assert!((400..600).contains(&struck), "{struck}");
        assert!((0..1_000).all(|_| !draws.strikes(Percent::default())));
        assert!((0..1_000).all(|_| draws.strikes(Percent::ALL)));
    }

    #[test]
    fn percentages_are_from_0_to_100() {
        assert_eq!("0.5".parse(), Ok(Percent(0.5)));
        for text in ["-1", "101", "NaN", "much"] {
            assert_eq!(text.parse::<Percent>(), Err(NoPercent(text.to_owned())));
        }
    }
}
