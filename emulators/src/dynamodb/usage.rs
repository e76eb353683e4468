//! How much of the whole table's limit is used while index entries are added, and how many writes it refuses.

use std::time::Duration;

use super::reports::TableLimitUsage;

/// What has been written and refused, with two marks: the first throttle, and the last added entry.
#[derive(Debug)]
pub(super) struct Usage {
    units_per_second: u32,
    sums: Sums,
    first_throttle: Option<Mark>,
    last_entry: Option<Mark>,
}

/// Everything so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    /// Units of the table's items, those of failed conditions included.
    pub(super) items: f64,
    /// Units of its index.
    pub(super) index: f64,
    /// Writes that were let through.
    pub(super) written: u64,
    /// Writes that the table's items had no units for.
    pub(super) refused_by_items: u64,
    /// Writes that its index had no units for.
    pub(super) refused_by_index: u64,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Duration,
    sums: Sums,
}

impl Usage {
    /// Nothing yet, of a table that takes so much.
    pub(super) fn new(units_per_second: u32) -> Usage {
        Usage {
            units_per_second,
            sums: Sums::default(),
            first_throttle: None,
            last_entry: None,
        }
    }

    /// Adds up what became of a request; `adds_entries` tells whether it added any to the index.
    pub(super) fn add(&mut self, more: Sums, adds_entries: bool, now: Duration) {
        // Before the sums: what was used up to the first throttle may have come out of a full bucket.
        if more.refused() > 0 {
            self.first_throttle.get_or_insert(Mark {
                at: now,
                sums: self.sums,
            });
        }
        self.sums = self.sums.plus(more);
        if adds_entries {
            self.last_entry = Some(Mark {
                at: now,
                sums: self.sums,
            });
        }
    }

    /// What it comes to.
    pub(super) fn report(&self) -> TableLimitUsage {
        let mut report = TableLimitUsage {
            units_per_second: self.units_per_second,
            throttled_by_items: self.sums.refused_by_items,
            throttled_by_index: self.sums.refused_by_index,
            writes: self.sums.written + self.sums.refused(),
            ..TableLimitUsage::default()
        };
        let (Some(from), Some(to)) = (self.first_throttle, self.last_entry) else {
            return report;
        };
        let (secs, sums) = (
            to.at.saturating_sub(from.at).as_secs_f64(),
            to.sums.minus(from.sums),
        );
        let writes = sums.written + sums.refused();
        if secs == 0.0 || writes == 0 {
            return report;
        }
        let of_limit = |units: f64| 100.0 * units / (f64::from(self.units_per_second) * secs);
        report.adding_secs = Some(secs);
        report.items_used_percent = Some(of_limit(sums.items));
        report.index_used_percent = Some(of_limit(sums.index));
        report.used_percent = Some(of_limit(sums.items.max(sums.index)));
        report.refused_percent = Some(100.0 * sums.refused() as f64 / writes as f64);
        report
    }
}

impl Sums {
    fn refused(self) -> u64 {
        self.refused_by_items + self.refused_by_index
    }

    fn plus(self, other: Sums) -> Sums {
        Sums {
            items: self.items + other.items,
            index: self.index + other.index,
            written: self.written + other.written,
            refused_by_items: self.refused_by_items + other.refused_by_items,
            refused_by_index: self.refused_by_index + other.refused_by_index,
        }
    }

    /// What has come since `earlier`.
    fn minus(self, earlier: Sums) -> Sums {
        Sums {
            items: self.items - earlier.items,
            index: self.index - earlier.index,
            written: self.written - earlier.written,
            refused_by_items: self.refused_by_items - earlier.refused_by_items,
            refused_by_index: self.refused_by_index - earlier.refused_by_index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(units: f64, count: u64) -> Sums {
        Sums {
            items: units,
            index: units / 2.0,
            written: count,
            ..Sums::default()
        }
    }

    fn refused(count: u64) -> Sums {
        Sums {
            refused_by_items: count,
            ..Sums::default()
        }
    }

    #[test]
    fn the_share_counts_from_the_first_throttle_to_the_last_added_entry() {
        let mut usage = Usage::new(100);
        let secs = Duration::from_secs;
        usage.add(written(100.0, 100), true, secs(1));
        usage.add(refused(10), false, secs(2));
        usage.add(written(150.0, 90), true, secs(4));
        // What follows the last added entry counts for the sums alone.
        usage.add(written(1_000.0, 1_000), false, secs(5));
        usage.add(refused(5), false, secs(6));
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
        let mut usage = Usage::new(100);
        usage.add(written(50.0, 50), true, Duration::from_secs(1));
        let report = usage.report();
        assert_eq!((report.used_percent, report.refused_percent), (None, None));
        assert_eq!(report.writes, 50);
    }
}
