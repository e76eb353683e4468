//! Write units per second: one token bucket for each key, one for each whole table and one for its whole index. A full
//! bucket holds the units of one second.
//!
//! A write is throttled if any bucket it needs is empty: an index without units also throttles writes to its table.
//! Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/gsi-throttling.html> (2026-08).

use std::collections::BTreeMap;
use std::time::Duration;

/// Number of buckets above which full ones are deleted. A missing bucket counts as full.
const BUCKETS_MAX: usize = 20_000;

/// What a bucket limits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BucketKey {
    /// One item of the watched table.
    Item(String),
    /// One partition key of its index.
    Index(String),
    /// One partition key of an index of the other table.
    OtherIndex(String),
    /// All items of the other table together.
    OtherTable,
    /// All keys of its indexes together.
    OtherTableIndex,
    /// All items of the watched table together.
    Table,
    /// All keys of its index together.
    TableIndex,
}

/// Write units per second; `None` is no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    /// For each item and each index key.
    pub(super) key: Option<u32>,
    /// For a whole table, and as many for its whole index.
    pub(super) table: Option<u32>,
}

impl Rates {
    fn of(self, key: &BucketKey) -> Option<f64> {
        match key {
            BucketKey::Item(_) | BucketKey::Index(_) | BucketKey::OtherIndex(_) => self.key,
            BucketKey::Table
            | BucketKey::TableIndex
            | BucketKey::OtherTable
            | BucketKey::OtherTableIndex => self.table,
        }
        .map(f64::from)
    }
}

/// The units that a write takes from one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Charge {
    pub(super) key: BucketKey,
    pub(super) units: u32,
}

impl Charge {
    pub(super) fn new(key: BucketKey, units: u32) -> Charge {
        Charge { key, units }
    }
}

/// All buckets.
#[derive(Debug)]
pub(super) struct TokenBuckets {
    rates: Rates,
    buckets: BTreeMap<BucketKey, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Units left at `at`; negative after a write that was larger than estimated.
    units: f64,
    at: Duration,
}

impl TokenBuckets {
    /// Makes full buckets.
    pub(super) fn new(rates: Rates) -> TokenBuckets {
        TokenBuckets {
            rates,
            buckets: BTreeMap::new(),
        }
    }

    /// Removes every limit.
    pub(super) fn unlimit(&mut self) {
        *self = TokenBuckets::new(Rates::default());
    }

    /// Takes the units of a write from all its buckets, or from none. A write larger than a full bucket needs a full bucket,
    /// and leaves it in debt.
    ///
    /// # Errors
    /// The first charge whose bucket has too few units left.
    pub(super) fn take<'a>(
        &mut self,
        charges: &'a [Charge],
        now: Duration,
    ) -> Result<(), &'a Charge> {
        if let Some(short) = charges.iter().find(|charge| self.is_short(charge, now)) {
            return Err(short);
        }
        for charge in charges {
            self.add(&charge.key, -f64::from(charge.units), now);
        }
        self.delete_full(now);
        Ok(())
    }

    /// Returns units to their buckets, of a write that was not applied.
    pub(super) fn give_back(&mut self, charges: &[Charge], now: Duration) {
        for charge in charges {
            self.add(&charge.key, f64::from(charge.units), now);
        }
    }

    /// Adds units to a bucket until it is full. Negative units may leave it in debt.
    pub(super) fn add(&mut self, key: &BucketKey, units: f64, now: Duration) {
        let Some(rate) = self.rates.of(key) else {
            return;
        };
        let units = (self.left(key, rate, now) + units).min(rate);
        self.buckets.insert(key.clone(), Bucket { units, at: now });
    }

    fn is_short(&self, charge: &Charge, now: Duration) -> bool {
        let units = f64::from(charge.units);
        let rate = self.rates.of(&charge.key);
        rate.is_some_and(|rate| self.left(&charge.key, rate, now) < units.min(rate))
    }

    fn left(&self, key: &BucketKey, rate: f64, now: Duration) -> f64 {
        self.buckets.get(key).map_or(rate, |bucket| {
            let since = now.saturating_sub(bucket.at).as_secs_f64();
            (bucket.units + since * rate).min(rate)
        })
    }

    fn delete_full(&mut self, now: Duration) {
        if self.buckets.len() <= BUCKETS_MAX {
            return;
        }
        let second = Duration::from_secs(1);
        let is_not_full = |bucket: &Bucket| bucket.units < 0.0 || bucket.at + second > now;
        self.buckets.retain(|_, bucket| is_not_full(bucket));
    }
}

/// Returns the write units of `bytes`: one per KiB begun, and at least one.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html> (2026-08).
pub(super) fn units(bytes: usize) -> u32 {
    let units = u32::try_from(bytes.div_ceil(1_024));
    units.unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(key: &str, units: u32) -> Charge {
        Charge::new(BucketKey::Index(key.to_owned()), units)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn buckets(key: Option<u32>, table: Option<u32>) -> TokenBuckets {
        TokenBuckets::new(Rates { key, table })
    }

    fn per_key(key: u32) -> TokenBuckets {
        buckets(Some(key), None)
    }

    #[test]
    fn a_bucket_holds_one_second_and_refills_evenly() {
        let mut limits = per_key(10);
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
    fn a_write_takes_units_of_all_its_keys_or_of_none() {
        let mut limits = per_key(2);
        assert_eq!(limits.take(&[charge("b", 2)], ms(0)), Ok(()));
        let both = [charge("a", 2), charge("b", 1)];
        assert_eq!(limits.take(&both, ms(0)), Err(&both[1]));
        assert_eq!(limits.take(&[charge("a", 2)], ms(0)), Ok(()));
    }

    #[test]
    fn units_of_a_write_that_was_not_applied_are_returned() {
        let mut limits = per_key(2);
        let two = [charge("a", 2)];
        assert_eq!(limits.take(&two, ms(0)), Ok(()));
        limits.give_back(&two, ms(0));
        assert_eq!(limits.take(&two, ms(0)), Ok(()));
    }

    #[test]
    fn a_write_larger_than_a_bucket_goes_through_and_is_paid_off() {
        let mut limits = per_key(10);
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

    #[test]
    fn a_whole_table_has_a_bucket_beside_those_of_its_keys() {
        let mut limits = buckets(Some(2), Some(3));
        let write = |item: &str| {
            let keys = [BucketKey::Item(item.to_owned()), BucketKey::Table];
            keys.map(|key| Charge::new(key, 1))
        };
        for item in ["a", "a", "b"] {
            assert_eq!(limits.take(&write(item), ms(0)), Ok(()));
        }
        let charges = write("c");
        assert_eq!(limits.take(&charges, ms(0)), Err(&charges[1]));
    }

    #[test]
    fn without_a_limit_no_write_is_throttled() {
        let mut limits = buckets(None, None);
        let large = [charge("a", u32::MAX)];
        for _ in 0..3 {
            assert_eq!(limits.take(&large, ms(0)), Ok(()));
        }
    }

    #[test]
    fn a_debt_is_paid_off_before_anything_is_written() {
        let mut limits = buckets(None, Some(10));
        let one = [Charge::new(BucketKey::Table, 1)];
        limits.add(&BucketKey::Table, -20.0, ms(0));
        assert_eq!(limits.take(&one, ms(1_050)), Err(&one[0]));
        assert_eq!(limits.take(&one, ms(1_150)), Ok(()));
    }
}
