//! The cost of a run: the billed units of all requests of the functions and their mappings, at list prices.
//!
//! | file | contents |
//! |---|---|
//! | `meter` | counts every request of the functions, in the proxies |
//! | `actions` | the IAM actions of each request |
//! | `purposes` | what tables use capacity units for |
//! | `s3` | the requests to S3, and their bytes |
//! | `claims` | the claims in a request |
//! | `attribute` | an attribute in the JSON of a request |
//! | `prices` | the list prices, with their sources |
//! | `display` | the lines for people |
//! | `costs` | the cost by purpose, for the record of a run |
//!
//! The cost does not include the requests of producers, logs and metrics, the schedule, requests to the sink (they are
//! counted, but have no price here), storage (but that of the log is included),
//! backups, alarms, data transfer, and polls of queues that stay empty. GB-seconds are measured on this machine, where the
//! stand-ins share its processors.

mod actions;
mod attribute;
mod claims;
mod costs;
mod display;
mod meter;
mod prices;
mod purposes;
mod s3;

use std::collections::BTreeSet;

use serde::Serialize;

pub use actions::Action;
pub use emulators::sqs::RequestCount;
pub use meter::{Counts, Meter, Units};
pub use purposes::UnitsPurpose;
pub use s3::{S3Key, S3Requests};

use emulators::lambda::FunctionStats;
use emulators::proxy::Service;
use planner::{MILLION, gb_months};
use prices::{PRICES, PROOF_OF_CONCEPT_WRITE_UNITS};
use protocol::limits::{LOG_RETENTION, WRITE_UNIT_BYTES};

use crate::dynamodb::BATCH_TABLE;

/// Everything a run is charged for.
#[derive(Clone, Debug, Default)]
pub struct Bill {
    /// The requests of the functions.
    pub counts: Counts,
    /// The requests of the mappings to the queues, by operation.
    pub mappings: Vec<(&'static str, RequestCount)>,
    pub functions: Vec<FunctionBill>,
    /// The buckets of loads, whose storage has a price.
    pub load_buckets: BTreeSet<String>,
}

/// Everything a function is charged for.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionBill {
    pub name: &'static str,
    pub invocations: u64,
    /// The time of invocations and cold starts, times the memory.
    pub gb_seconds: f64,
    /// The price of a GB-second in dollars, which depends on the instruction set.
    #[serde(skip)]
    pub gb_second_price: f64,
}

impl FunctionBill {
    /// Returns the bill of a function with these statistics. `architecture` is `arm64` or `x86_64`.
    pub fn new(
        name: &'static str,
        stats: &FunctionStats,
        memory_mb: u32,
        architecture: &str,
    ) -> FunctionBill {
        let time = stats.invoke_time + stats.init_time;
        FunctionBill {
            name,
            invocations: stats.invocations,
            gb_seconds: time.as_secs_f64() * f64::from(memory_mb) / 1024.0,
            gb_second_price: match architecture {
                "arm64" => PRICES.lambda_gb_second_arm64.dollars,
                _ => PRICES.lambda_gb_second_x86_64.dollars,
            },
        }
    }
}

/// The cost of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Ledger {
    /// The cost per message sent.
    pub per_message: CostShare,
    /// The cost per unique message.
    pub per_unique: CostShare,
    /// The capacity units of the whole run.
    pub units: Vec<TableUnits>,
    /// Write units of failed conditions that DynamoDB did not report, estimated as one each. `units` includes them.
    pub unreported_write_units: f64,
    /// The requests of the whole run.
    pub requests: Vec<OperationRequests>,
    /// The requests of the whole run to S3, also those to the sink.
    pub s3: Vec<S3Usage>,
    /// The functions' cost over the whole run.
    pub functions: Vec<FunctionBill>,
    /// The price of the write units of a million unique messages in the public proof of concept.
    pub proof_of_concept_dollars_per_million: f64,
}

/// The capacity units that one table used for one purpose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableUnits {
    pub table: String,
    /// The purpose: `items`, `slots`, `loads`, `runs`, `counts`, `witnesses`, the name of an index, or `failed conditions`.
    pub part: String,
    #[serde(flatten)]
    pub units: Units,
    /// One unique message's share.
    pub per_unique: Units,
}

/// The requests of one function to a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct S3Usage {
    #[serde(flatten)]
    pub key: S3Key,
    #[serde(flatten)]
    pub requests: S3Requests,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperationRequests {
    pub service: Service,
    pub operation: String,
    #[serde(flatten)]
    pub requests: RequestCount,
}

/// One message's share of the cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CostShare {
    pub write_units: f64,
    pub read_units: f64,
    /// Requests to DynamoDB. They have no price: DynamoDB bills units.
    pub dynamodb_requests: f64,
    /// Billed requests to the queues: one per 64 KB.
    pub sqs_requests: f64,
    /// GB-seconds of both functions.
    pub gb_seconds: f64,
    /// The list price of a million messages.
    pub dollars_per_million: Dollars,
}

/// A list price in dollars, and its parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Dollars {
    /// Write units of DynamoDB.
    pub write_units: f64,
    /// Read units of DynamoDB.
    pub read_units: f64,
    /// Requests to the queues.
    pub sqs_requests: f64,
    /// Requests to S3 for bodies.
    pub s3_requests: f64,
    /// What the log keeps.
    pub storage: f64,
    /// Invocations.
    pub lambda_requests: f64,
    pub lambda_gb_seconds: f64,
    pub total: f64,
}

impl Bill {
    /// Returns the cost of a run that sent `sent` messages with `unique` events.
    pub fn ledger(self, sent: u64, unique: u64) -> Ledger {
        let (per_message, per_unique) = (self.share(sent), self.share(unique));
        let (counts, mappings) = (self.counts, self.mappings);
        let of_functions = counts.requests.into_iter();
        let of_mappings = mappings
            .into_iter()
            .map(|(operation, requests)| ((Service::Sqs, operation.to_owned()), requests));
        let s3 = counts.s3.into_iter();
        let s3 = s3.map(|(key, requests)| S3Usage { key, requests });
        Ledger {
            per_message,
            per_unique,
            units: counts
                .units
                .into_iter()
                .map(|((table, purpose), units)| TableUnits {
                    table,
                    part: purpose.to_string(),
                    units,
                    per_unique: units.shared_by(unique),
                })
                .collect(),
            unreported_write_units: counts.unreported,
            requests: of_functions
                .chain(of_mappings)
                .map(|((service, operation), requests)| OperationRequests {
                    service,
                    operation,
                    requests,
                })
                .collect(),
            s3: s3.collect(),
            functions: self.functions,
            proof_of_concept_dollars_per_million: PROOF_OF_CONCEPT_WRITE_UNITS
                * PRICES.dynamodb_million_write_units.dollars,
        }
    }

    /// Returns the share of the cost that one of so many messages has.
    fn share(&self, messages: u64) -> CostShare {
        let share = |whole: f64| whole / messages.max(1) as f64;
        let units = self.counts.units.values();
        let (write_units, read_units) = units.fold((0.0, 0.0), |(writes, reads), units| {
            (writes + units.writes, reads + units.reads)
        });
        let of = |service| {
            let requests = self.counts.requests.iter();
            requests.filter_map(move |((one, _), requests)| (*one == service).then_some(*requests))
        };
        let of_mappings = self.mappings.iter().map(|(_, requests)| *requests);
        let billed = |requests: RequestCount| requests.billed as f64;
        let sqs_requests: f64 = of(Service::Sqs).chain(of_mappings).map(billed).sum();
        let invocations: u64 = self.functions.iter().map(|one| one.invocations).sum();
        let s3 = self.counts.s3.iter();
        let s3 = s3.map(|(key, requests)| key.dollars(*requests, &self.load_buckets));
        let (s3_requests, s3_storage) =
            s3.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let dynamodb_requests: f64 = of(Service::DynamoDb).map(|one| one.count as f64).sum();
        let gb_seconds: f64 = self.functions.iter().map(|one| one.gb_seconds).sum();
        let functions = self.functions.iter();
        let of_functions = functions.map(|one| one.gb_seconds * one.gb_second_price);
        let mut dollars = Dollars {
            s3_requests: share(s3_requests * MILLION),
            storage: share((s3_storage + self.counts.storage_dollars()) * MILLION),
            write_units: share(write_units * PRICES.dynamodb_million_write_units.dollars),
            read_units: share(read_units * PRICES.dynamodb_million_read_units.dollars),
            sqs_requests: share(sqs_requests * PRICES.sqs_million_requests.dollars),
            lambda_requests: share(invocations as f64 * PRICES.lambda_million_requests.dollars),
            lambda_gb_seconds: share(of_functions.sum::<f64>() * MILLION),
            total: 0.0,
        };
        dollars.total = dollars.write_units
            + dollars.read_units
            + dollars.sqs_requests
            + dollars.s3_requests
            + dollars.storage
            + dollars.lambda_requests
            + dollars.lambda_gb_seconds;
        CostShare {
            write_units: share(write_units),
            read_units: share(read_units),
            dynamodb_requests: share(dynamodb_requests),
            sqs_requests: share(sqs_requests),
            gb_seconds: share(gb_seconds),
            dollars_per_million: dollars,
        }
    }
}

impl Counts {
    /// Returns the price of slots, and of what the log keeps in the tables, in dollars. Claims are released, and what stays of them, for
    /// an hour if `DEDUP_WINDOW` has its default, has no price here.
    fn storage_dollars(&self) -> f64 {
        use UnitsPurpose::{Loads, Runs, Slots};
        let kept = [Slots, Loads, Runs].map(|purpose| {
            let units = self.units.get(&(BATCH_TABLE.to_owned(), purpose));
            units.map_or(0.0, |units| units.writes)
        });
        let bytes = kept.iter().sum::<f64>() * WRITE_UNIT_BYTES as f64;
        gb_months(bytes, LOG_RETENTION) * PRICES.dynamodb_gb_month.dollars
    }
}

impl Units {
    fn shared_by(self, messages: u64) -> Units {
        let messages = messages.max(1) as f64;
        Units {
            writes: self.writes / messages,
            reads: self.reads / messages,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn bill() -> Bill {
        let mut bill = Bill::default();
        let lock_table = |purpose| ("lock-table".to_owned(), purpose);
        let units = |writes, reads| Units { writes, reads };
        bill.counts.units = [
            (lock_table(UnitsPurpose::Items), units(200.0, 100.0)),
            (
                lock_table(UnitsPurpose::Index("by-batch".to_owned())),
                units(200.0, 1.5),
            ),
            (lock_table(UnitsPurpose::FailedConditions), units(20.0, 0.0)),
        ]
        .into();
        let requests = |count, billed| RequestCount { count, billed };
        let operation = |service, name: &str| (service, name.to_owned());
        bill.counts.requests = [
            (operation(Service::DynamoDb, "Query"), requests(8, 8)),
            (operation(Service::Sqs, "SendMessage"), requests(1, 2)),
        ]
        .into();
        bill.mappings = vec![("ReceiveMessage", requests(12, 18))];
        let stats = FunctionStats {
            invocations: 3,
            invoke_time: Duration::from_secs(9),
            init_time: Duration::from_secs(1),
            ..FunctionStats::default()
        };
        bill.functions = vec![FunctionBill::new("f", &stats, 512, "arm64")];
        bill
    }

    #[test]
    fn everything_is_shared_by_the_messages_and_priced_by_the_million() {
        let ledger = bill().ledger(200, 100);
        let unique = &ledger.per_unique;
        assert_eq!(unique.write_units, 4.2);
        assert_eq!(unique.read_units, 1.015);
        assert_eq!(unique.dynamodb_requests, 0.08);
        assert_eq!(unique.sqs_requests, 0.2);
        assert_eq!(unique.gb_seconds, 0.05);
        let dollars = &unique.dollars_per_million;
        let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
        close(dollars.write_units, 4.2 * 0.625);
        close(dollars.read_units, 1.015 * 0.125);
        close(dollars.sqs_requests, 0.2 * 0.4);
        close(dollars.lambda_requests, 0.03 * 0.2);
        close(dollars.lambda_gb_seconds, 0.05 * 13.3334);
        close(dollars.total, 2.625 + 0.126_875 + 0.08 + 0.006 + 0.666_67);
        let each = &ledger.per_message;
        assert_eq!(each.write_units, 2.1);
        close(each.dollars_per_million.total, dollars.total / 2.0);
        assert_eq!(ledger.proof_of_concept_dollars_per_million, 2.5);
        let costs = ledger.costs(100);
        let sum = |each: fn(&planner::Cost) -> f64| costs.iter().map(each).sum::<f64>();
        close(sum(|cost| cost.dollars_per_million_unique), dollars.total);
        close(sum(|cost| cost.dollars), dollars.total / 1e4);
        assert_eq!(costs[0].quantity, "420 write units");
    }

    #[test]
    fn what_the_log_stores_is_kept_for_weeks() {
        let mut bill = bill();
        bill.load_buckets = ["loads".to_owned()].into();
        let (count, bytes) = (10, 1 << 30);
        for operation in ["PutObject", "GetObject"] {
            let [function, bucket, operation] = ["f", "loads", operation].map(str::to_owned);
            let key = S3Key {
                function,
                bucket,
                operation,
            };
            bill.counts.s3.insert(key, S3Requests { count, bytes });
        }
        for purpose in [UnitsPurpose::Slots, UnitsPurpose::Loads] {
            let key = (BATCH_TABLE.to_owned(), purpose);
            bill.counts.units.entry(key).or_default().writes = f64::from(1 << 20);
        }
        let dollars = bill.ledger(100, 100).per_unique.dollars_per_million;
        let equal = |ratio: f64| assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
        equal(dollars.s3_requests / (1e4 * 10.0 * (5.0 + 0.4) / 1e6));
        // A GB of loads in S3, and one of slots and one of loads in the table.
        let gb_days = 40.0 * (0.023 + 2.0 * 0.25);
        equal(dollars.storage / (1e4 * gb_days * 24.0 / 730.0));
    }

    #[test]
    fn a_run_without_messages_has_a_ledger_too() {
        let ledger = bill().ledger(0, 0);
        assert!(ledger.per_message.dollars_per_million.total.is_finite());
        assert!(ledger.to_string().lines().count() > 5);
    }

    #[test]
    fn each_processor_has_its_price() {
        let price = |architecture| {
            FunctionBill::new("f", &FunctionStats::default(), 512, architecture).gb_second_price
        };
        assert!(price("arm64") < price("x86_64"));
    }
}
