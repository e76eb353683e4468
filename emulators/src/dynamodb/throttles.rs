//! Writes that a table, its index, or a key of either has no units for: they are refused as DynamoDB does, a request
//! whole and a PartiQL batch member by member.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::capacity::TableUnits;
use super::limits::{Charge, Key, Limits, Rates};
use super::options::TableFaultOptions;
use super::reports::{KeyLimitReport, TableLimitUsage};
use super::requests::Write;
use super::usage::{Sums, Usage};
use crate::counter::Counter;
use crate::draws::Draws;
use crate::proxy::Reply;

const THROTTLED: &str = "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically \
                         scaling your table or index so please try again shortly.";

/// The limits, and what they have refused.
#[derive(Debug)]
pub(super) struct Throttles {
    table: String,
    draws: Draws,
    limits: Mutex<Limits>,
    has_key_limit: bool,
    usage: Option<Mutex<Usage>>,
    by_item: Counter,
    by_index_key: Counter,
    by_other_index_key: Counter,
}

/// What became of the writes of one request to the watched table.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    sums: Sums,
    adds_entries: bool,
}

/// A write that is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    by: Key,
}

impl Throttles {
    /// What the options ask for; `None` if that is nothing.
    pub(super) fn new(options: &TableFaultOptions) -> Option<Throttles> {
        let rates = Rates {
            key: options.key_limit,
            table: options.table_limit,
        };
        (rates.key.is_some() || rates.table.is_some()).then(|| Throttles {
            table: options.watched.table.clone(),
            draws: Draws::new(options.seed, "partition limit"),
            limits: Mutex::new(Limits::new(rates)),
            has_key_limit: rates.key.is_some(),
            usage: rates.table.map(|units| Mutex::new(Usage::new(units))),
            by_item: Counter::default(),
            by_index_key: Counter::default(),
            by_other_index_key: Counter::default(),
        })
    }

    pub(super) fn key_report(&self) -> Option<KeyLimitReport> {
        self.has_key_limit.then(|| KeyLimitReport {
            by_item: self.by_item.get(),
            by_index_key: self.by_index_key.get(),
            by_other_index_key: self.by_other_index_key.get(),
        })
    }

    pub(super) fn table_report(&self) -> Option<TableLimitUsage> {
        self.usage.as_ref().map(|usage| lock(usage).report())
    }

    /// Takes the units of a write to the watched table, if there are enough; returns what it took.
    pub(super) fn admit(&self, write: &Write, now: Duration) -> Result<Vec<Charge>, Refusal> {
        let mut charges = write.charges();
        let of_index = |charge: &&Charge| matches!(charge.key, Key::Index(_));
        let index: u32 = charges
            .iter()
            .filter(of_index)
            .map(|charge| charge.units)
            .sum();
        let items: u32 = charges.iter().map(|charge| charge.units).sum::<u32>() - index;
        for (key, units) in [(Key::Table, items), (Key::TableIndex, index)] {
            if units > 0 {
                charges.push(Charge { key, units });
            }
        }
        self.take(&charges, now)?;
        Ok(charges)
    }

    /// Takes what a write takes, if there is enough of all of it.
    pub(super) fn take(&self, charges: &[Charge], now: Duration) -> Result<(), Refusal> {
        let short = match lock(&self.limits).take(charges, now) {
            Ok(()) => return Ok(()),
            Err(short) => short.key.clone(),
        };
        match &short {
            Key::Item(_) => self.by_item.add(1),
            Key::Index(_) => self.by_index_key.add(1),
            Key::OtherIndex(_) => self.by_other_index_key.add(1),
            // Counted with the rest of their request.
            Key::Table | Key::TableIndex => {}
        }
        Err(Refusal { by: short })
    }

    /// Gives back what a write took that was not applied.
    pub(super) fn give_back(&self, charges: &[Charge], now: Duration) {
        lock(&self.limits).give_back(charges, now);
    }

    /// Takes in what the table says that a request consumed, where it says so: what was taken beforehand was an estimate,
    /// since an update does not tell how large the item is that it changes.
    pub(super) fn settle(&self, outcome: &Outcome, consumed: Option<TableUnits>, now: Duration) {
        let Some(usage) = &self.usage else {
            return;
        };
        let mut sums = outcome.sums;
        if let Some(consumed) = consumed {
            let mut limits = lock(&self.limits);
            limits.add(&Key::Table, sums.items - consumed.items, now);
            limits.add(&Key::TableIndex, sums.index - consumed.index, now);
            (sums.items, sums.index) = (consumed.items, consumed.index);
        }
        lock(usage).add(sums, outcome.adds_entries, now);
    }

    /// Whether [`settle`](Self::settle) wants to know what the table says.
    pub(super) fn wants_consumed(&self) -> bool {
        self.usage.is_some()
    }

    /// A request that is refused. Both exceptions say it, and clients must know both.
    pub(super) fn refusal(&self) -> Reply {
        let name = match self.draws.below(2) {
            0 => "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
            _ => "com.amazon.coral.availability#ThrottlingException",
        };
        Reply::error(400, name, THROTTLED)
    }

    /// A member of a PartiQL batch that is refused.
    pub(super) fn member_refusal(&self) -> Value {
        let code = match self.draws.below(2) {
            0 => "ProvisionedThroughputExceeded",
            _ => "ThrottlingError",
        };
        json!({ "TableName": self.table, "Error": { "Code": code, "Message": THROTTLED } })
    }
}

impl Outcome {
    /// A write was refused.
    pub(super) fn refused(&mut self, refusal: &Refusal) {
        match refusal.by {
            Key::Table => self.sums.refused_by_items += 1,
            Key::TableIndex => self.sums.refused_by_index += 1,
            Key::Item(_) | Key::Index(_) | Key::OtherIndex(_) => {}
        }
    }

    /// A write was let through. One that failed its condition has touched no index key, but it has cost its item's units:
    /// returns the charges to give back.
    pub(super) fn written(
        &mut self,
        write: &Write,
        charges: &[Charge],
        applied: bool,
    ) -> Vec<Charge> {
        self.sums.written += 1;
        self.adds_entries |= applied && write.comes.is_some();
        let mut unused = Vec::new();
        for charge in charges {
            let units = f64::from(charge.units);
            match charge.key {
                Key::Table => self.sums.items += units,
                Key::TableIndex if applied => self.sums.index += units,
                Key::Index(_) | Key::TableIndex if !applied => unused.push(charge.clone()),
                Key::Item(_) | Key::Index(_) | Key::OtherIndex(_) | Key::TableIndex => {}
            }
        }
        unused
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::index::Entry;
    use super::super::options::WatchedTable;
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn throttles(key_limit: Option<u32>, table_limit: Option<u32>) -> Throttles {
        let options = TableFaultOptions {
            seed: 0,
            watched: WatchedTable {
                table: "t".to_owned(),
                key: "k".to_owned(),
                index: "i".to_owned(),
                index_key: "h".to_owned(),
                index_sort_key: "r".to_owned(),
            },
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
            comes: Some(Entry {
                hash: format!("b#{key}"),
                range: 1,
                key: key.to_owned(),
            }),
            goes: None,
        }
    }

    #[test]
    fn a_whole_table_refuses_what_none_of_its_keys_would() {
        let throttles = throttles(None, Some(3));
        let mut outcome = Outcome::default();
        for number in 0..5 {
            let write = put(&number.to_string());
            match throttles.admit(&write, NOW) {
                Ok(charges) => assert!(outcome.written(&write, &charges, true).is_empty()),
                Err(refusal) => outcome.refused(&refusal),
            }
        }
        throttles.settle(&outcome, None, NOW);
        let report = throttles.table_report().unwrap();
        assert_eq!((report.throttled_by_items, report.writes), (2, 5));
        assert!(throttles.key_report().is_none());
    }

    #[test]
    fn what_failed_its_condition_gives_the_index_back_and_pays_for_the_item() {
        let throttles = throttles(Some(1), Some(1));
        let write = put("e");
        let charges = throttles.admit(&write, NOW).unwrap();
        let unused = Outcome::default().written(&write, &charges, false);
        let keys = Vec::from_iter(unused.iter().map(|charge| charge.key.clone()));
        assert_eq!(keys, [Key::Index("b#e".to_owned()), Key::TableIndex]);
        throttles.give_back(&unused, NOW);
        let refusal = throttles.admit(&put("e"), NOW).unwrap_err();
        assert_eq!(refusal.by, Key::Item("e".to_owned()));
    }

    #[test]
    fn what_the_table_says_replaces_the_estimate() {
        let throttles = throttles(None, Some(10));
        let write = put("e");
        let charges = throttles.admit(&write, NOW).unwrap();
        let mut outcome = Outcome::default();
        outcome.written(&write, &charges, true);
        let consumed = TableUnits {
            items: 30.0,
            index: 1.0,
        };
        throttles.settle(&outcome, Some(consumed), NOW);
        // 20 units of debt, and one that the write needs.
        let after = |ms| throttles.admit(&put("f"), Duration::from_millis(ms));
        assert!(after(2_000).is_err());
        assert!(after(2_150).is_ok());
    }
}
