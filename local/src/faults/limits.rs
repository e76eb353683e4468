//! Write units a second: a token bucket for each key, one second deep.
//!
//! An index key without units left throttles the write to the table that would have touched it.
//! Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/gsi-throttling.html> (2026-08).

use std::collections::BTreeMap;
use std::time::Duration;

/// Buckets kept before the full ones are thrown away: a bucket that is not there is full.
const BUCKETS_MAX: usize = 20_000;

/// What has units of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// An item of the table.
    Item(String),
    /// A key of its index.
    Index(String),
}

/// Units a write takes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Charge {
    pub(super) key: Key,
    pub(super) units: u32,
}

/// The buckets of all keys.
#[derive(Debug)]
pub(super) struct Limits {
    units_per_second: f64,
    buckets: BTreeMap<Key, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    units: f64,
    at: Duration,
}

impl Limits {
    /// Buckets of one second of so many units, all full.
    pub(super) fn new(units_per_second: u32) -> Limits {
        Limits {
            units_per_second: f64::from(units_per_second),
            buckets: BTreeMap::new(),
        }
    }

    /// Takes all that a write takes, or nothing.
    ///
    /// # Errors
    /// The first key that has too few units left. A write larger than a full bucket needs a full bucket.
    pub(super) fn take<'a>(
        &mut self,
        charges: &'a [Charge],
        now: Duration,
    ) -> Result<(), &'a Charge> {
        let short = charges
            .iter()
            .find(|charge| self.left(&charge.key, now) < self.needed(charge));
        if let Some(short) = short {
            return Err(short);
        }
        for charge in charges {
            let left = self.left(&charge.key, now) - f64::from(charge.units);
            let bucket = Bucket {
                units: left,
                at: now,
            };
            self.buckets.insert(charge.key.clone(), bucket);
        }
        self.forget_the_full(now);
        Ok(())
    }

    /// Gives back what a write took that did not come to pass.
    pub(super) fn give_back(&mut self, charges: &[Charge]) {
        for charge in charges {
            if let Some(bucket) = self.buckets.get_mut(&charge.key) {
                bucket.units = (bucket.units + f64::from(charge.units)).min(self.units_per_second);
            }
        }
    }

    fn needed(&self, charge: &Charge) -> f64 {
        f64::from(charge.units).min(self.units_per_second)
    }

    fn left(&self, key: &Key, now: Duration) -> f64 {
        self.buckets
            .get(key)
            .map_or(self.units_per_second, |bucket| self.refilled(*bucket, now))
    }

    fn refilled(&self, bucket: Bucket, now: Duration) -> f64 {
        let since = now.saturating_sub(bucket.at).as_secs_f64();
        (bucket.units + since * self.units_per_second).min(self.units_per_second)
    }

    fn forget_the_full(&mut self, now: Duration) {
        if self.buckets.len() <= BUCKETS_MAX {
            return;
        }
        let second = Duration::from_secs(1);
        self.buckets
            .retain(|_, bucket| bucket.units < 0.0 || bucket.at + second > now);
    }
}

/// Write units of so many bytes.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html> (2026-08).
pub(super) fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1_024))
        .unwrap_or(u32::MAX)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(key: &str, units: u32) -> Charge {
        Charge {
            key: Key::Index(key.to_owned()),
            units,
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_bucket_holds_one_second_and_refills_evenly() {
        let mut limits = Limits::new(10);
        let one = [charge("a", 1)];
        for _ in 0..10 {
            assert_eq!(limits.take(&one, ms(0)), Ok(()));
        }
        assert_eq!(limits.take(&one, ms(0)), Err(&one[0]));
        assert_eq!(limits.take(&one, ms(99)), Err(&one[0]));
        assert_eq!(limits.take(&one, ms(100)), Ok(()));
        assert_eq!(limits.take(&[charge("b", 10)], ms(100)), Ok(()));
    }

    #[test]
    fn a_write_takes_of_all_its_keys_or_of_none() {
        let mut limits = Limits::new(2);
        assert_eq!(limits.take(&[charge("b", 2)], ms(0)), Ok(()));
        let both = [charge("a", 2), charge("b", 1)];
        assert_eq!(limits.take(&both, ms(0)), Err(&both[1]));
        assert_eq!(limits.take(&[charge("a", 2)], ms(0)), Ok(()));
    }

    #[test]
    fn what_was_not_written_is_given_back() {
        let mut limits = Limits::new(2);
        let two = [charge("a", 2)];
        assert_eq!(limits.take(&two, ms(0)), Ok(()));
        limits.give_back(&two);
        assert_eq!(limits.take(&two, ms(0)), Ok(()));
    }

    #[test]
    fn a_write_larger_than_a_bucket_goes_through_and_is_paid_off() {
        let mut limits = Limits::new(10);
        let large = [charge("a", 25)];
        assert_eq!(limits.take(&large, ms(0)), Ok(()));
        let small = [charge("a", 1)];
        assert_eq!(limits.take(&small, ms(1_500)), Err(&small[0]));
        assert_eq!(limits.take(&small, ms(1_700)), Ok(()));
    }

    #[test]
    fn units_are_whole_and_at_least_one() {
        assert_eq!([0, 1, 1_024, 1_025].map(units), [1, 1, 1, 2]);
    }
}
