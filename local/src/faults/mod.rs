//! Faults: what the services behind the functions, and the machines under them, are allowed to do, made to happen.
//!
//! | file | what |
//! |---|---|
//! | `options` | the flags, and what they come to |
//! | `draws` | randomness: one stream for each kind of fault, all from one seed |
//! | `replies` | what may strike any request: lost replies, errors |
//! | `requests` | what a request to DynamoDB writes, or asks of the index |
//! | `tables` | the lock table's faults: `index` (its lag) and `limits` (units a second for each key) |
//! | `kills` | SIGKILL, at a random moment or at a line of the log |
//! | `sink` | a directory that cannot be written to |
//! | `sink_errors` | deliveries that fail at the sink's end |
//! | `report` | how often each struck |
//!
//! Requests are struck in the proxies (`crate::proxy`) in front of DynamoDB, of the functions' queues and of what stands
//! in for sinks. Repeated deliveries are the queue server's own (`sqs::Repeats`), failing ones the sinks'.
//!
//! The draws are the same for the same seed; what they strike depends on the order in which requests and lines come,
//! which no seed decides.

mod draws;
mod index;
mod kills;
mod limits;
mod options;
mod replies;
mod report;
mod requests;
mod sink;
mod sink_errors;
mod tables;

pub use draws::{Draws, Percent};
pub use kills::Kills;
pub use options::{FaultArgs, FaultOptions, KillAt};
pub(crate) use replies::{Fate, STALL};
pub use report::{
    FaultReport, IndexLagReport, KillAtReport, LostRepliesReport, PartitionLimitReport,
    RequestErrorsReport, SinkErrorsReport,
};
pub use sink::SinkDown;
pub(crate) use sink_errors::Delivery;
pub use sink_errors::SinkErrors;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sqs::Repeats;
use replies::RequestFaults;
use tables::TableFaults;

/// Counts how often something happened.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What strikes the requests that go through one proxy.
#[derive(Clone, Debug)]
pub struct Strikes {
    pub(crate) requests: Arc<RequestFaults>,
    pub(crate) tables: Option<Arc<TableFaults>>,
}

/// The faults of one stack.
pub struct Faults {
    options: FaultOptions,
    requests: Arc<RequestFaults>,
    tables: Option<Arc<TableFaults>>,
    aggregator_kills: Option<Arc<Kills>>,
    batch_processor_kills: Option<Arc<Kills>>,
    repeated: Arc<Counter>,
    sink_refusals: Counter,
    sink_errors: Arc<SinkErrors>,
}

impl Faults {
    /// What the options ask for.
    pub fn new(options: &FaultOptions) -> Faults {
        let tables = TableFaults::new(options).map(Arc::new);
        Faults {
            options: options.clone(),
            requests: Arc::new(RequestFaults::new(options)),
            tables,
            aggregator_kills: Kills::new(options, "aggregator").map(Arc::new),
            batch_processor_kills: Kills::new(options, "batch-processor").map(Arc::new),
            repeated: Arc::default(),
            sink_refusals: Counter::default(),
            sink_errors: Arc::new(SinkErrors::new(options)),
        }
    }

    /// What strikes requests to DynamoDB.
    pub fn on_dynamodb(&self) -> Strikes {
        Strikes {
            requests: Arc::clone(&self.requests),
            tables: self.tables.clone(),
        }
    }

    /// What strikes the functions' requests to the queues, and to a sink.
    pub fn on_requests(&self) -> Strikes {
        Strikes {
            requests: Arc::clone(&self.requests),
            tables: None,
        }
    }

    /// What has deliveries fail at the sink's end.
    pub fn sink_errors(&self) -> Arc<SinkErrors> {
        Arc::clone(&self.sink_errors)
    }

    /// What kills the environments of the aggregator.
    pub fn aggregator_kills(&self) -> Option<Arc<Kills>> {
        self.aggregator_kills.clone()
    }

    /// What kills the environments of the batch processor.
    pub fn batch_processor_kills(&self) -> Option<Arc<Kills>> {
        self.batch_processor_kills.clone()
    }

    /// What delivers messages of a queue again although they are in flight.
    pub fn repeats(&self, queue: &str) -> Option<Repeats> {
        let percent = self.options.duplicate_deliveries;
        let draws = Draws::new(self.options.seed, &format!("deliveries of {queue}"));
        let repeated = Arc::clone(&self.repeated);
        (!percent.is_zero()).then(|| Repeats::new(percent, draws, repeated))
    }

    /// Takes in a line of a function's log: it may tell of a ticket that the sink would not have.
    pub fn heard(&self, line: &str) {
        if self.options.sink_down.is_some()
            && line.contains("ticket given back")
            && line.contains("Not a directory")
        {
            self.sink_refusals.add(1);
        }
    }

    /// How often each fault has struck; `None` where none is on.
    pub fn report(&self) -> Option<FaultReport> {
        let options = &self.options;
        if !options.any() {
            return None;
        }
        let kills = || {
            self.aggregator_kills
                .iter()
                .chain(&self.batch_processor_kills)
        };
        let kill_at = options.kill_at.iter().enumerate().map(|(index, at)| {
            let (lines, killed) = kills()
                .map(|kills| kills.at_counts(index))
                .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            KillAtReport {
                text: at.text.clone(),
                lines,
                killed,
            }
        });
        let tables = self.tables.as_deref();
        Some(FaultReport {
            seed: options.seed,
            index_lag: tables.and_then(TableFaults::lag_report),
            partition_limit: tables.and_then(TableFaults::limit_report),
            lost_replies: (!options.lost_replies.is_zero()).then(|| self.requests.lost_report()),
            request_errors: (!options.error_rate.is_zero()).then(|| self.requests.error_report()),
            deliveries_repeated: (!options.duplicate_deliveries.is_zero())
                .then(|| self.repeated.get()),
            killed_at_random: (!options.kills.is_zero())
                .then(|| kills().map(|kills| kills.random_count()).sum()),
            kill_at: kill_at.collect(),
            tickets_refused_by_sink: options.sink_down.map(|_| self.sink_refusals.get()),
            sink_errors: (!options.sink_error_rate.is_zero()).then(|| self.sink_errors.report()),
        })
    }
}
