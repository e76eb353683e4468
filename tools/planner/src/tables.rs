//! Write limits: a bucket of units for each table, each index and the index keys of each batch.

use protocol::limits::aws::{TABLE_GROWTH, TABLE_GROWTH_SECONDS};

/// A rate of units, of which up to one second's may be saved. A writer may take units that are not there yet, and waits
/// until they would be; so units are given out in the order in which they were asked for.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    /// Units a second; `None` for no limit.
    limit: Option<f64>,
    /// Share of the limit that is used while it throttles.
    paced_share: f64,
    level: f64,
    at: f64,
    /// Units that were taken.
    pub taken: f64,
    /// Units that were taken while there were none.
    pub waited_for: f64,
}

impl Bucket {
    /// Makes a full bucket.
    pub fn new(limit: Option<f64>, paced_share: f64) -> Bucket {
        Bucket {
            limit,
            paced_share,
            level: limit.unwrap_or(0.0),
            ..Bucket::default()
        }
    }

    /// Returns when `units` would be there, without taking them.
    pub fn when(&self, now: f64, units: f64) -> f64 {
        let Some(limit) = self.limit else {
            return now;
        };
        let short = units - self.level_at(now);
        if short <= 0.0 {
            return now;
        }
        // What is short comes at the rate that paced writers reach.
        now.max(self.at) + short / (limit * self.paced_share)
    }

    /// Takes `units`, and returns when they are there.
    pub fn take(&mut self, now: f64, units: f64) -> f64 {
        let when = self.when(now, units);
        self.level = self.level_at(now) - units;
        self.at = self.at.max(now);
        self.taken += units;
        if when > now {
            self.waited_for += units;
        }
        when
    }

    /// Changes the limit from now on.
    pub fn set_limit(&mut self, now: f64, limit: f64) {
        self.level = self.level_at(now).min(limit);
        self.at = self.at.max(now);
        self.limit = Some(limit);
    }

    fn level_at(&self, now: f64) -> f64 {
        let Some(limit) = self.limit else {
            return f64::INFINITY;
        };
        let passed = (now - self.at).max(0.0);
        // A bucket in debt is one that throttles, so it fills at the rate that paced writers reach.
        let in_debt = (-self.level).max(0.0);
        let paying = in_debt / (limit * self.paced_share);
        if passed <= paying {
            return self.level + passed * limit * self.paced_share;
        }
        (self.level.max(0.0) + (passed - paying) * limit).min(limit)
    }
}

/// An on-demand table or index, whose limit follows its previous peak.
#[derive(Clone, Debug)]
pub struct Table {
    pub bucket: Bucket,
    limit: f64,
    quota: f64,
    /// Units of each second so far, for the peak.
    taken_before: f64,
    peaks: Vec<(f64, f64)>,
}

impl Table {
    pub fn new(limit: f64, quota: f64, paced_share: f64) -> Table {
        Table {
            bucket: Bucket::new(Some(limit), paced_share),
            limit,
            quota,
            taken_before: 0.0,
            peaks: Vec::new(),
        }
    }

    /// Notes how much was taken in the last `secs`, and raises the limit to twice the peak of half an hour ago.
    pub fn grow(&mut self, now: f64, secs: f64) {
        let rate = (self.bucket.taken - self.taken_before) / secs;
        self.taken_before = self.bucket.taken;
        if self.peaks.last().is_none_or(|(_, peak)| rate > *peak) {
            self.peaks.push((now, rate));
        }
        let peaks = self.peaks.iter();
        let old = peaks.take_while(|(at, _)| at + TABLE_GROWTH_SECONDS <= now);
        if let Some((_, peak)) = old.last() {
            let limit = (peak * TABLE_GROWTH).min(self.quota);
            if limit > self.limit {
                self.limit = limit;
                self.bucket.set_limit(now, limit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_one_second_and_gives_the_rest_at_its_paced_rate() {
        let mut bucket = Bucket::new(Some(100.0), 0.92);
        assert_eq!(bucket.take(0.0, 100.0), 0.0);
        let when = bucket.take(0.0, 92.0);
        assert!((when - 1.0).abs() < 1e-9, "{when}");
        // Those who come later wait for those before.
        let when = bucket.take(0.5, 92.0);
        assert!((when - 2.0).abs() < 1e-9, "{when}");
        assert_eq!(bucket.when(10.0, 100.0), 10.0);
        assert!(bucket.when(10.0, 101.0) > 10.0);
    }

    #[test]
    fn a_bucket_without_a_limit_never_waits() {
        let mut bucket = Bucket::new(None, 1.0);
        assert_eq!(bucket.take(3.0, 1e12), 3.0);
    }

    #[test]
    fn a_table_takes_twice_its_peak_only_half_an_hour_later() {
        let mut table = Table::new(4_000.0, 40_000.0, 1.0);
        for second in 0..10 {
            table.bucket.take(f64::from(second), 3_500.0);
            table.grow(f64::from(second), 1.0);
        }
        table.grow(1_700.0, 1_690.0);
        assert_eq!(table.limit, 4_000.0);
        table.grow(1_900.0, 200.0);
        assert_eq!(table.limit, 7_000.0);
    }
}
