//! How fast each key of the index is written: as fast as it goes until it throttles, from then on at a rate of its own.
//!
//! A key of the index takes [`INDEX_KEY_UNITS_PER_SECOND`], and a key that has none left throttles the write to the
//! table. What is refused costs a request and brings nothing, so a key that throttles gets a rate, which falls with each
//! further throttle and rises with each write, and so stays near what the key takes. The other keys are left alone.

use std::collections::BTreeMap;

use crate::ids::BatchShard;
use crate::limits::{
    INDEX_KEY_UNITS_PER_SECOND, PACE_CUT_EVERY, PACE_FORGOTTEN_AFTER, PACE_UNITS_PER_SECOND_MIN,
};
use crate::time::Timestamp;

/// What is left of a rate after a reply that throttled some of it, and after one that throttled more than half.
const CUT: f64 = 0.85;
const DEEP_CUT: f64 = 0.5;
/// Units a second that each write adds: a fifth of the rate within a second.
const RISE: f64 = 0.2;

/// The keys that have throttled.
#[derive(Debug, Default)]
pub struct Paces(BTreeMap<BatchShard, Pace>);

#[derive(Debug)]
struct Pace {
    units_per_second: f64,
    /// When the next write may start, in epoch milliseconds: a unit takes less than one.
    free_at_ms: f64,
    cut_at: Timestamp,
}

impl Paces {
    /// When the next write to a key may start; `None` when it has not throttled.
    pub fn free_at(&self, key: BatchShard) -> Option<Timestamp> {
        let pace = self.0.get(&key)?;
        Some(Timestamp::from_ms(pace.free_at_ms.ceil() as u64))
    }

    /// Takes the time of so many writes of one unit, which start as [`free_at`](Self::free_at) said.
    pub fn take(&mut self, key: BatchShard, units: usize, now: Timestamp) {
        if let Some(pace) = self.0.get_mut(&key) {
            let start = pace.free_at_ms.max(now.as_ms() as f64);
            pace.free_at_ms = start + units as f64 / pace.units_per_second * 1_000.0;
        }
    }

    /// Takes in a reply: how many of a key's writes it let through, or refused for another reason, and how many it
    /// throttled.
    pub fn replied(&mut self, key: BatchShard, passed: u32, throttled: u32, now: Timestamp) {
        if throttled == 0 {
            if let Some(pace) = self.0.get_mut(&key) {
                pace.units_per_second += RISE * f64::from(passed);
                if pace.units_per_second > 2.0 * INDEX_KEY_UNITS_PER_SECOND {
                    self.0.remove(&key);
                }
            }
            return;
        }
        let pace = self.0.entry(key).or_insert(Pace {
            units_per_second: INDEX_KEY_UNITS_PER_SECOND,
            free_at_ms: 0.0,
            cut_at: now,
        });
        // What was under way at the same time is one reason to slow down, not several.
        if pace.cut_at + PACE_CUT_EVERY <= now {
            pace.cut_at = now;
            let cut = if throttled > passed { DEEP_CUT } else { CUT };
            pace.units_per_second = (pace.units_per_second * cut).max(PACE_UNITS_PER_SECOND_MIN);
        }
    }

    /// Forgets the keys that have not been written for long; their batches are done.
    pub fn forget_old(&mut self, now: Timestamp) {
        self.0.retain(|_, pace| {
            let last = Timestamp::from_ms(pace.free_at_ms as u64).max(pace.cut_at);
            last + PACE_FORGOTTEN_AFTER > now
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(shard: u16) -> BatchShard {
        let batch = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        BatchShard { batch, shard }
    }

    /// A key that takes so many units a second and saves up one second of them.
    struct Key {
        limit: f64,
        left: f64,
        at_ms: u64,
    }

    impl Key {
        fn write(&mut self, now_ms: u64) -> bool {
            let since = (now_ms - self.at_ms) as f64 / 1_000.0;
            self.at_ms = now_ms;
            self.left = (self.left + since * self.limit).min(self.limit);
            let takes = self.left >= 1.0;
            self.left -= f64::from(takes);
            takes
        }
    }

    /// Writes 25 at a time for 30 s as the pace allows; answers the share of the limit that was reached, and the share
    /// of the writes that was refused.
    fn run(limit: f64) -> (f64, f64) {
        let mut paces = Paces::default();
        let mut at = Key {
            limit,
            left: 0.0,
            at_ms: 0,
        };
        paces.replied(key(0), 0, 1, Timestamp::EPOCH);
        let (mut written, mut refused) = (0, 0);
        for ms in 0..30_000 {
            let now = Timestamp::from_ms(ms);
            if paces.free_at(key(0)).is_none_or(|free| free > now) {
                continue;
            }
            paces.take(key(0), 25, now);
            let passed = (0..25).filter(|_| at.write(ms)).count() as u32;
            paces.replied(key(0), passed, 25 - passed, now);
            written += passed;
            refused += 25 - passed;
        }
        let (written, refused) = (f64::from(written), f64::from(refused));
        (written / (limit * 30.0), refused / (written + refused))
    }

    #[test]
    fn the_rate_stays_near_what_the_key_takes() {
        for limit in [100.0, 250.0, 1_000.0] {
            let (reached, refused) = run(limit);
            assert!(
                reached >= 0.8,
                "{limit} units a second: {reached} of it reached"
            );
            assert!(
                refused <= 0.25,
                "{limit} units a second: {refused} of all writes refused"
            );
        }
    }

    #[test]
    fn only_keys_that_throttled_wait_and_only_until_long_after() {
        let mut paces = Paces::default();
        let now = Timestamp::from_ms(1_000);
        paces.replied(key(1), 20, 5, now);
        paces.take(key(1), 25, now);
        assert_eq!(paces.free_at(key(1)), Some(Timestamp::from_ms(1_025)));
        assert_eq!(paces.free_at(key(2)), None);
        paces.forget_old(now);
        assert!(paces.free_at(key(1)).is_some());
        paces.forget_old(now + PACE_FORGOTTEN_AFTER * 2);
        assert_eq!(paces.free_at(key(1)), None);
    }

    #[test]
    fn a_key_that_takes_everything_is_let_go() {
        let mut paces = Paces::default();
        paces.replied(key(1), 20, 5, Timestamp::EPOCH);
        assert!(paces.free_at(key(1)).is_some());
        for _ in 0..300 {
            paces.replied(key(1), 25, 0, Timestamp::EPOCH);
        }
        assert_eq!(paces.free_at(key(1)), None);
    }
}
