//! The cost ledger: what the functions and their mappings asked of the services, in the units that are billed, and what
//! those come to at list prices.
//!
//! | file | what |
//! |---|---|
//! | `meter` | in the proxies: every request of the functions, added up |
//! | `actions` | what IAM would be asked about each of them |
//! | `claims` | which batches a request claims into, for the latencies |
//! | `prices` | the list prices, with their sources |
//!
//! Not in it: what producers send, logs and metrics, the schedule, the sink (its requests are counted, not priced),
//! storage, backups, alarms, data transfer, and polls of queues that are empty for long. Seconds are this machine's, with
//! its stand-ins for neighbours.

mod actions;
mod claims;
mod meter;
pub mod prices;

use std::fmt;

use serde::Serialize;

pub use actions::Action;
pub use emulators::sqs::Requests;
pub use meter::{Counts, Meter, Part, Units};

use emulators::lambda::FunctionStats;
use emulators::proxy::Service;
use prices::MILLION;

/// What a run is charged for.
#[derive(Clone, Debug, Default)]
pub struct Bill {
    /// What the functions asked of the services.
    pub counts: Counts,
    /// What the mappings asked of the queues, by operation.
    pub mappings: Vec<(&'static str, Requests)>,
    /// The functions.
    pub functions: Vec<FunctionBill>,
}

/// What a function is charged for.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionBill {
    /// Its name.
    pub name: &'static str,
    /// Its invocations.
    pub invocations: u64,
    /// Time of invocations and of cold starts, times the memory.
    pub gb_seconds: f64,
    /// Dollars of a GB-second on its processor.
    #[serde(skip)]
    pub gb_second_price: f64,
}

impl FunctionBill {
    /// From the host's accounts.
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
                "arm64" => prices::LAMBDA_GB_SECOND_ARM64,
                _ => prices::LAMBDA_GB_SECOND_X86_64,
            },
        }
    }
}

/// What a run cost.
#[derive(Clone, Debug, Serialize)]
pub struct Ledger {
    /// Per message sent.
    pub per_message: Share,
    /// Per unique message.
    pub per_unique: Share,
    /// Capacity units of the whole run.
    pub units: Vec<UnitsOf>,
    /// Write units of failed conditions that no answer told, counted as one each; they are among `units`.
    pub unreported_write_units: f64,
    /// Requests of the whole run.
    pub requests: Vec<RequestsOf>,
    /// The functions, over the whole run.
    pub functions: Vec<FunctionBill>,
    /// What the write units alone of a million unique messages cost in the public proof of concept.
    pub proof_of_concept_dollars_per_million: f64,
}

/// Capacity units of one part of one table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitsOf {
    /// The table.
    pub table: String,
    /// `items`, the name of an index, or `failed conditions`.
    pub part: String,
    /// The units.
    #[serde(flatten)]
    pub units: Units,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestsOf {
    /// The service.
    pub service: Service,
    /// The operation.
    pub operation: String,
    /// How many.
    #[serde(flatten)]
    pub requests: Requests,
}

/// The share of one message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// Write units.
    pub write_units: f64,
    /// Read units.
    pub read_units: f64,
    /// Requests to DynamoDB, which are not billed as such.
    pub dynamodb_requests: f64,
    /// Requests to the queues, as billed.
    pub sqs_requests: f64,
    /// GB-seconds of both functions.
    pub gb_seconds: f64,
    /// The list price of a million.
    pub dollars_per_million: Dollars,
}

/// A list price and what it consists of.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Dollars {
    /// DynamoDB's write units.
    pub write_units: f64,
    /// DynamoDB's read units.
    pub read_units: f64,
    /// Requests to the queues.
    pub sqs_requests: f64,
    /// Invocations.
    pub lambda_requests: f64,
    /// GB-seconds.
    pub lambda_gb_seconds: f64,
    /// The sum.
    pub total: f64,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Items => f.write_str("items"),
            Part::Index(name) => f.write_str(name),
            Part::FailedConditions => f.write_str("failed conditions"),
        }
    }
}

impl Bill {
    /// What it comes to, for so many messages, so many of them unique.
    pub fn ledger(self, sent: u64, unique: u64) -> Ledger {
        let sum = self.sum();
        let Bill {
            counts,
            mappings,
            functions,
        } = self;
        let of_functions = counts.requests.into_iter();
        let of_mappings = mappings
            .into_iter()
            .map(|(operation, requests)| ((Service::Sqs, operation.to_owned()), requests));
        Ledger {
            per_message: sum.shared_by(sent),
            per_unique: sum.shared_by(unique),
            units: counts
                .units
                .into_iter()
                .map(|((table, part), units)| UnitsOf {
                    table,
                    part: part.to_string(),
                    units,
                })
                .collect(),
            unreported_write_units: counts.unreported,
            requests: of_functions
                .chain(of_mappings)
                .map(|((service, operation), requests)| RequestsOf {
                    service,
                    operation,
                    requests,
                })
                .collect(),
            functions,
            proof_of_concept_dollars_per_million: prices::PROOF_OF_CONCEPT_WRITE_UNITS
                * prices::DYNAMODB_WRITE_UNIT
                * MILLION,
        }
    }

    /// Everything together, as if it were one message.
    fn sum(&self) -> Share {
        let units = self.counts.units.values();
        let (write_units, read_units) = units.fold((0.0, 0.0), |(writes, reads), units| {
            (writes + units.writes, reads + units.reads)
        });
        let of = |service| {
            let requests = self.counts.requests.iter();
            requests.filter_map(move |((one, _), requests)| (*one == service).then_some(*requests))
        };
        let of_mappings = self.mappings.iter().map(|(_, requests)| *requests);
        let billed = |requests: Requests| requests.billed as f64;
        let sqs_requests: f64 = of(Service::Sqs).chain(of_mappings).map(billed).sum();
        let invocations: u64 = self.functions.iter().map(|one| one.invocations).sum();
        let mut dollars = Dollars {
            write_units: write_units * prices::DYNAMODB_WRITE_UNIT * MILLION,
            read_units: read_units * prices::DYNAMODB_READ_UNIT * MILLION,
            sqs_requests: sqs_requests * prices::SQS_REQUEST * MILLION,
            lambda_requests: invocations as f64 * prices::LAMBDA_REQUEST * MILLION,
            lambda_gb_seconds: {
                let functions = self.functions.iter();
                let dollars = functions.map(|one| one.gb_seconds * one.gb_second_price);
                dollars.sum::<f64>() * MILLION
            },
            total: 0.0,
        };
        dollars.total = dollars.write_units
            + dollars.read_units
            + dollars.sqs_requests
            + dollars.lambda_requests
            + dollars.lambda_gb_seconds;
        Share {
            write_units,
            read_units,
            dynamodb_requests: of(Service::DynamoDb).map(|one| one.count as f64).sum(),
            sqs_requests,
            gb_seconds: self.functions.iter().map(|one| one.gb_seconds).sum(),
            dollars_per_million: dollars,
        }
    }
}

impl Share {
    fn shared_by(&self, messages: u64) -> Share {
        let share = |whole: f64| whole / messages.max(1) as f64;
        let dollars = &self.dollars_per_million;
        Share {
            write_units: share(self.write_units),
            read_units: share(self.read_units),
            dynamodb_requests: share(self.dynamodb_requests),
            sqs_requests: share(self.sqs_requests),
            gb_seconds: share(self.gb_seconds),
            dollars_per_million: Dollars {
                write_units: share(dollars.write_units),
                read_units: share(dollars.read_units),
                sqs_requests: share(dollars.sqs_requests),
                lambda_requests: share(dollars.lambda_requests),
                lambda_gb_seconds: share(dollars.lambda_gb_seconds),
                total: share(dollars.total),
            },
        }
    }
}

/// Lines for a summary, each ended.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (each, unique) = (&self.per_message, &self.per_unique);
        writeln!(
            f,
            "units       {:.3} written, {:.3} read a unique message; {:.3} and {:.3} a message sent",
            unique.write_units, unique.read_units, each.write_units, each.read_units
        )?;
        for UnitsOf { table, part, units } in &self.units {
            let name = format!("{table}, {part}");
            writeln!(
                f,
                "  {name:<32} {:>10} written, {:>10} read",
                units.writes, units.reads
            )?;
        }
        if self.unreported_write_units > 0.0 {
            writeln!(
                f,
                "  of which no answer told          {:>10} written, counted as one each",
                self.unreported_write_units
            )?;
        }
        for (service, name, share) in [
            (Service::DynamoDb, "DynamoDB", each.dynamodb_requests),
            (Service::Sqs, "SQS", each.sqs_requests),
        ] {
            let requests = self.requests.iter().filter(|one| one.service == service);
            let requests: Vec<String> = requests
                .map(|one| format!("{} {}", one.operation, one.requests.count))
                .collect();
            writeln!(
                f,
                "requests    {name} {share:.3} a message sent: {}",
                requests.join(", ")
            )?;
        }
        let functions = self.functions.iter();
        let functions: Vec<String> = functions
            .map(|one| format!("{} {:.1}", one.name, one.gb_seconds))
            .collect();
        writeln!(f, "GB-seconds  {}", functions.join(", "))?;
        let price = &unique.dollars_per_million;
        writeln!(
            f,
            "price       ${:.2} a million unique messages: writes {:.2}, reads {:.2}, queues {:.2}, functions {:.2}; ${:.2} a million sent",
            price.total,
            price.write_units,
            price.read_units,
            price.sqs_requests,
            price.lambda_requests + price.lambda_gb_seconds,
            each.dollars_per_million.total
        )?;
        writeln!(
            f,
            "            (the public proof of concept: ${:.2} for the writes of a million unique messages)",
            self.proof_of_concept_dollars_per_million
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn bill() -> Bill {
        let mut bill = Bill::default();
        let part = |part| ("lock-table".to_owned(), part);
        let units = |writes, reads| Units { writes, reads };
        bill.counts.units = [
            (part(Part::Items), units(200.0, 100.0)),
            (part(Part::Index("by-batch".to_owned())), units(200.0, 1.5)),
            (part(Part::FailedConditions), units(20.0, 0.0)),
        ]
        .into();
        let requests = |count, billed| Requests { count, billed };
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
