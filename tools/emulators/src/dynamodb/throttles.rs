//! Decides which writes are throttled, and makes the errors: a request for one item fails as a whole, a PartiQL batch
//! statement by statement, as in DynamoDB.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use super::capacity::TableUnits;
use super::dry_run::WriteUnits;
use super::options::TableFaultOptions;
use super::reports::{KeyLimitReport, TableLimitUsage};
use super::table_usage::{TableUsage, Totals};
use super::token_buckets::{BucketKey, Charge, Rates, TokenBuckets};
use super::watched_requests::Write;
use crate::counter::Counter;
use crate::locked::locked;
use crate::proxy::Reply;
use crate::random::RandomStream;

const THROTTLED: &str = "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically \
                         scaling your table or index so please try again shortly.";

/// The limits, and counts of the writes they throttled.
#[derive(Debug)]
pub(super) struct Throttles {
    table: String,
    draws: RandomStream,
    limits: Mutex<TokenBuckets>,
    has_key_limit: bool,
    usage: Option<Mutex<TableUsage>>,
    by_key: Mutex<KeyLimitReport>,
    by_other_table: Counter,
}

/// The writes of one request to the watched table, added up by result.
#[derive(Debug, Default)]
pub(super) struct RequestOutcome {
    totals: Totals,
    adds_items: bool,
}

impl Throttles {
    /// Makes the limits that are on; `None` if none is.
    pub(super) fn new(options: &TableFaultOptions) -> Option<Throttles> {
        let rates = Rates {
            key: options.key_limit,
            table: options.table_limit,
        };
        (rates.key.is_some() || rates.table.is_some()).then(|| Throttles {
            table: options.watched.table.clone(),
            draws: RandomStream::new(options.seed, "partition limit"),
            limits: Mutex::new(TokenBuckets::new(rates)),
            has_key_limit: rates.key.is_some(),
            usage: rates.table.map(|units| Mutex::new(TableUsage::new(units))),
            by_key: Mutex::default(),
            by_other_table: Counter::default(),
        })
    }

    /// Ends the limits. The counts stay.
    pub(super) fn end(&self) {
        locked(&self.limits).unlimit();
    }

    /// Returns the writes throttled by single keys so far; `None` if keys have no limit.
    pub(super) fn key_report(&self) -> Option<KeyLimitReport> {
        self.has_key_limit.then(|| *locked(&self.by_key))
    }

    /// Returns how much of the limit of the table was used so far; `None` if it has no limit.
    pub(super) fn table_report(&self) -> Option<TableLimitUsage> {
        self.usage.as_ref().map(|usage| TableLimitUsage {
            throttled_of_other_table: self.by_other_table.get(),
            ..locked(usage).report()
        })
    }

    /// Takes the units of a write to the watched table from all its buckets; returns what it took.
    ///
    /// # Errors
    /// The bucket that had too few units. The write is throttled, and nothing was taken.
    pub(super) fn admit(&self, write: &Write, now: Duration) -> Result<Vec<Charge>, BucketKey> {
        let mut charges = write.charges();
        let of_index = |charge: &&Charge| matches!(charge.key, BucketKey::Index(_));
        let of_index = charges.iter().filter(of_index);
        let index: u32 = of_index.map(|charge| charge.units).sum();
        let items = charges.iter().map(|charge| charge.units).sum::<u32>() - index;
        for (key, units) in [(BucketKey::Table, items), (BucketKey::TableIndex, index)] {
            if units > 0 {
                charges.push(Charge::new(key, units));
            }
        }
        self.take(&charges, now)?;
        Ok(charges)
    }

    /// Takes the units of a write to the other table from all its buckets; returns what it took from index keys and indexes.
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    pub(super) fn admit_other(
        &self,
        write: &WriteUnits,
        now: Duration,
    ) -> Result<Vec<Charge>, BucketKey> {
        let index = write.index_keys.iter().map(|charge| charge.units).sum();
        let mut charges = write.index_keys.clone();
        if index > 0 {
            charges.push(Charge::new(BucketKey::OtherTableIndex, index));
        }
        charges.push(Charge::new(BucketKey::OtherTable, write.item));
        self.take(&charges, now)?;
        charges.pop();
        Ok(charges)
    }

    /// Takes the units of a write from all its buckets, or from none.
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    fn take(&self, charges: &[Charge], now: Duration) -> Result<(), BucketKey> {
        let Err(short) = locked(&self.limits).take(charges, now) else {
            return Ok(());
        };
        match &short.key {
            BucketKey::Item(_) => locked(&self.by_key).by_item += 1,
            BucketKey::Index(_) => locked(&self.by_key).by_index_key += 1,
            BucketKey::OtherIndex(_) => locked(&self.by_key).by_other_index_key += 1,
            BucketKey::OtherTable | BucketKey::OtherTableIndex => self.by_other_table.add(1),
            // `record` counts these, by request.
            BucketKey::Table | BucketKey::TableIndex => {}
        }
        Err(short.key.clone())
    }

    /// Returns the units of a write that was not applied.
    pub(super) fn give_back(&self, charges: &[Charge], now: Duration) {
        locked(&self.limits).give_back(charges, now);
    }

    /// Records the writes of one request. If the reply reported the consumed units, they replace the units taken beforehand,
    /// which were an estimate: an update does not tell the size of the item that it changes.
    pub(super) fn record(
        &self,
        outcome: &RequestOutcome,
        consumed: Option<TableUnits>,
        now: Duration,
    ) {
        let Some(usage) = &self.usage else {
            return;
        };
        let mut totals = outcome.totals;
        if let Some(consumed) = consumed {
            let mut limits = locked(&self.limits);
            limits.add(&BucketKey::Table, totals.items - consumed.items, now);
            limits.add(&BucketKey::TableIndex, totals.index - consumed.index, now);
            (totals.items, totals.index) = (consumed.items, consumed.index);
        }
        locked(usage).add(totals, outcome.adds_items, now);
    }

    /// Returns whether [`record`](Self::record) uses the units that a reply reports.
    pub(super) fn wants_consumed(&self) -> bool {
        self.usage.is_some()
    }

    /// Makes the error of a throttled request: at random one of the two exceptions that DynamoDB uses for it.
    pub(super) fn error(&self) -> Reply {
        let name = match self.draws.below(2) {
            0 => "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
            _ => "com.amazon.coral.availability#ThrottlingException",
        };
        Reply::error(400, name, THROTTLED)
    }

    /// Makes the error of a throttled statement of a PartiQL batch.
    pub(super) fn statement_error(&self) -> Value {
        let code = match self.draws.below(2) {
            0 => "ProvisionedThroughputExceeded",
            _ => "ThrottlingError",
        };
        json!({ "TableName": self.table, "Error": { "Code": code, "Message": THROTTLED } })
    }
}

impl RequestOutcome {
    /// Counts a write that this bucket throttled.
    pub(super) fn throttled(&mut self, by: &BucketKey) {
        match by {
            BucketKey::Table => self.totals.throttled_by_items += 1,
            BucketKey::TableIndex => self.totals.throttled_by_index += 1,
            BucketKey::Item(_)
            | BucketKey::Index(_)
            | BucketKey::OtherIndex(_)
            | BucketKey::OtherTable
            | BucketKey::OtherTableIndex => {}
        }
    }

    /// Counts a write that was not throttled; returns the charges to return to their buckets. A write whose condition did not
    /// hold has used the units of its item, but not those of index keys.
    pub(super) fn written(
        &mut self,
        write: &Write,
        charges: &[Charge],
        applied: bool,
    ) -> Vec<Charge> {
        self.totals.written += 1;
        self.adds_items |= applied && write.puts();
        let mut unused = Vec::new();
        for charge in charges {
            let units = f64::from(charge.units);
            match charge.key {
                BucketKey::Table => self.totals.items += units,
                BucketKey::TableIndex if applied => self.totals.index += units,
                BucketKey::Index(_) | BucketKey::TableIndex if !applied => {
                    unused.push(charge.clone())
                }
                BucketKey::Item(_)
                | BucketKey::Index(_)
                | BucketKey::OtherIndex(_)
                | BucketKey::OtherTable
                | BucketKey::OtherTableIndex
                | BucketKey::TableIndex => {}
            }
        }
        unused
    }
}

#[cfg(test)]
mod tests {
    use super::super::index_history::Entry;
    use super::super::options::WatchedTable;
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn throttles(key_limit: Option<u32>, table_limit: Option<u32>) -> Throttles {
        let options = TableFaultOptions {
            seed: 0,
            watched: WatchedTable::locks(),
            index_lag: None,
            key_limit,
            table_limit,
            other_table: None,
        };
        Throttles::new(&options).unwrap()
    }

    fn put(key: &str) -> Write {
        Write {
            key: key.to_owned(),
            bytes: 300,
            adds: Some(Entry {
                hash: format!("b#{key}"),
                range: 1,
                key: key.to_owned(),
            }),
            removes: None,
        }
    }

    #[test]
    fn the_limit_of_a_table_throttles_writes_that_no_key_limit_would() {
        let throttles = throttles(None, Some(3));
        let mut outcome = RequestOutcome::default();
        for number in 0..5 {
            let write = put(&number.to_string());
            match throttles.admit(&write, NOW) {
                Ok(charges) => assert!(outcome.written(&write, &charges, true).is_empty()),
                Err(by) => outcome.throttled(&by),
            }
        }
        throttles.record(&outcome, None, NOW);
        let report = throttles.table_report().unwrap();
        assert_eq!((report.throttled_by_items, report.writes), (2, 5));
        assert!(throttles.key_report().is_none());
    }

    #[test]
    fn limits_that_were_ended_throttle_nothing() {
        let throttles = throttles(None, Some(1));
        assert!(throttles.admit(&put("a"), NOW).is_ok());
        assert!(throttles.admit(&put("b"), NOW).is_err());
        throttles.end();
        assert!((0..9).all(|number| throttles.admit(&put(&number.to_string()), NOW).is_ok()));
    }

    #[test]
    fn the_other_table_has_its_own_units_and_its_index_too() {
        let throttles = throttles(None, Some(3));
        let charge = |units| Charge::new(BucketKey::OtherIndex("open".to_owned()), units);
        let write = |item, units: Option<u32>| WriteUnits {
            item,
            index_keys: Vec::from_iter(units.map(charge)),
        };
        let taken = throttles.admit_other(&write(1, Some(3)), NOW).unwrap();
        assert_eq!(taken.len(), 2);
        assert!(throttles.admit_other(&write(1, Some(1)), NOW).is_err());
        throttles.give_back(&taken, NOW);
        assert!(throttles.admit_other(&write(2, Some(1)), NOW).is_ok());
        assert!(throttles.admit_other(&write(1, None), NOW).is_err());
        assert!(throttles.admit(&put("e"), NOW).is_ok());
        let report = throttles.table_report().unwrap();
        assert_eq!(report.throttled_of_other_table, 2);
    }

    #[test]
    fn a_write_with_a_failed_condition_returns_index_units_and_keeps_item_units() {
        let throttles = throttles(Some(1), Some(1));
        let write = put("e");
        let charges = throttles.admit(&write, NOW).unwrap();
        let unused = RequestOutcome::default().written(&write, &charges, false);
        let keys = Vec::from_iter(unused.iter().map(|charge| &charge.key));
        let of_entry = BucketKey::Index("b#e".to_owned());
        assert_eq!(keys, [&of_entry, &BucketKey::TableIndex]);
        throttles.give_back(&unused, NOW);
        let by = throttles.admit(&put("e"), NOW).unwrap_err();
        assert_eq!(by, BucketKey::Item("e".to_owned()));
    }

    #[test]
    fn the_reported_units_replace_the_estimate() {
        let throttles = throttles(None, Some(10));
        let write = put("e");
        let charges = throttles.admit(&write, NOW).unwrap();
        let mut outcome = RequestOutcome::default();
        outcome.written(&write, &charges, true);
        let consumed = TableUnits {
            items: 30.0,
            index: 1.0,
        };
        throttles.record(&outcome, Some(consumed), NOW);
        // 20 units of debt, and one that the write needs.
        let after = |ms| throttles.admit(&put("f"), Duration::from_millis(ms));
        assert!(after(2_000).is_err());
        assert!(after(2_150).is_ok());
    }
}
