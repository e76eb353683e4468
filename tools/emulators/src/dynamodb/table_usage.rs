//! How much of the limit of a whole table is used while items are put, and how many writes it throttles.

use std::time::Duration;

use super::reports::TableLimitUsage;

/// Totals of a table, with their values at two moments: the first throttled write, and the last put item.
#[derive(Debug)]
pub(super) struct TableUsage {
    units_per_second: u32,
    totals: Totals,
    first_throttle: Option<(Duration, Totals)>,
    last_put: Option<(Duration, Totals)>,
}

/// Totals of units and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Totals {
    /// Units of the items, including those of failed conditions.
    pub(super) items: f64,
    /// Units of the index.
    pub(super) index: f64,
    /// Writes that were not throttled.
    pub(super) written: u64,
    /// Writes throttled because the items had no units left.
    pub(super) throttled_by_items: u64,
    /// Writes throttled because the index had no units left.
    pub(super) throttled_by_index: u64,
}

impl TableUsage {
    /// Makes empty totals of a table with this limit.
    pub(super) fn new(units_per_second: u32) -> TableUsage {
        TableUsage {
            units_per_second,
            totals: Totals::default(),
            first_throttle: None,
            last_put: None,
        }
    }

    /// Adds the totals of one request. `adds_items` tells whether the request put an item.
    pub(super) fn add(&mut self, more: Totals, adds_items: bool, now: Duration) {
        // Marked before this request is added: up to the first throttled write, units may have come from a full bucket.
        if more.throttled() > 0 {
            self.first_throttle.get_or_insert((now, self.totals));
        }
        self.totals.items += more.items;
        self.totals.index += more.index;
        self.totals.written += more.written;
        self.totals.throttled_by_items += more.throttled_by_items;
        self.totals.throttled_by_index += more.throttled_by_index;
        if adds_items {
            self.last_put = Some((now, self.totals));
        }
    }

    /// Returns the report so far.
    pub(super) fn report(&self) -> TableLimitUsage {
        let mut report = TableLimitUsage {
            units_per_second: self.units_per_second,
            throttled_by_items: self.totals.throttled_by_items,
            throttled_by_index: self.totals.throttled_by_index,
            writes: self.totals.writes(),
            ..TableLimitUsage::default()
        };
        let Some(((began, from), (ended, to))) = self.first_throttle.zip(self.last_put) else {
            return report;
        };
        // The last put may have been before the first throttled write.
        if ended <= began || to.writes() == from.writes() {
            return report;
        }
        let secs = (ended - began).as_secs_f64();
        let (items, index) = (to.items - from.items, to.index - from.index);
        let throttled = (to.throttled() - from.throttled()) as f64;
        let of_limit = |units: f64| 100.0 * units / (f64::from(self.units_per_second) * secs);
        report.adding_secs = Some(secs);
        report.items_used_percent = Some(of_limit(items));
        report.index_used_percent = Some(of_limit(index));
        report.used_percent = Some(of_limit(items.max(index)));
        report.refused_percent = Some(100.0 * throttled / (to.writes() - from.writes()) as f64);
        report
    }
}

impl Totals {
    fn throttled(self) -> u64 {
        self.throttled_by_items + self.throttled_by_index
    }

    fn writes(self) -> u64 {
        self.written + self.throttled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(units: f64, count: u64) -> Totals {
        Totals {
            items: units,
            index: units / 2.0,
            written: count,
            ..Totals::default()
        }
    }

    fn throttled(count: u64) -> Totals {
        Totals {
            throttled_by_items: count,
            ..Totals::default()
        }
    }

    #[test]
    fn the_share_counts_from_the_first_throttle_to_the_last_put() {
        let mut usage = TableUsage::new(100);
        let secs = Duration::from_secs;
        usage.add(written(100.0, 100), true, secs(1));
        usage.add(throttled(10), false, secs(2));
        usage.add(written(150.0, 90), true, secs(4));
        // What follows the last put counts in the totals, but not in the shares.
        usage.add(written(1_000.0, 1_000), false, secs(5));
        usage.add(throttled(5), false, secs(6));
        let report = usage.report();
        assert_eq!(report.adding_secs, Some(2.0));
        assert_eq!(report.items_used_percent, Some(75.0));
        assert_eq!(report.index_used_percent, Some(37.5));
        assert_eq!(report.used_percent, Some(75.0));
        assert_eq!(report.refused_percent, Some(10.0));
        assert_eq!((report.writes, report.throttled_by_items), (1_205, 15));
    }

    #[test]
    fn a_limit_that_was_never_reached_has_no_share() {
        let mut usage = TableUsage::new(100);
        usage.add(written(50.0, 50), true, Duration::from_secs(1));
        let report = usage.report();
        assert_eq!((report.used_percent, report.refused_percent), (None, None));
        assert_eq!(report.writes, 50);
    }

    #[test]
    fn a_put_before_the_first_throttled_write_has_no_share() {
        let secs = Duration::from_secs;
        for throttled_at in [1, 2] {
            let mut usage = TableUsage::new(100);
            usage.add(written(50.0, 50), true, secs(1));
            usage.add(written(10.0, 10), false, secs(1));
            usage.add(throttled(5), false, secs(throttled_at));
            let report = usage.report();
            assert_eq!(report.adding_secs, None);
            assert_eq!((report.used_percent, report.refused_percent), (None, None));
            assert_eq!((report.writes, report.throttled_by_items), (65, 5));
        }
    }
}
