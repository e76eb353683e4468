//! Faults: what the services behind the functions, and the machines under them, are allowed to do, made to happen.
//!
//! | file | what |
//! |---|---|
//! | `options` | the flags, and what they come to |
//! | `environments` | `kills` and expired credentials, as the Lambda host asks for them |
//! | `kills` | SIGKILL, at a random moment or at a line of the log |
//! | `outages` | when the sink is down |
//! | `sink` | a directory that cannot be written to |
//! | `sink_errors` | deliveries that fail at the sink's end |
//! | `redeploys` | updates of the functions' configuration |
//! | `report` | how often each struck |
//!
//! Lost replies, errors and expired credentials strike in the proxies (`emulators::proxy`) in front of DynamoDB, of the
//! functions' queues and of what stands in for sinks. The faults of the tables are in `emulators::dynamodb`, repeated
//! deliveries in the queue server (`sqs::Repeats`), failing deliveries in the sinks.
//!
//! The draws are the same for the same seed; what they strike depends on the order in which requests and lines come,
//! which no seed decides.

mod environments;
mod kills;
mod options;
mod outages;
mod redeploys;
mod report;
mod sink;
mod sink_errors;

pub use emulators::{Draws, Percent};
pub use environments::EnvironmentFaults;
pub use kills::Kills;
pub use options::{FaultArgs, FaultOptions, KillAt};
pub use outages::{Outage, Timeline};
pub use redeploys::Redeploy;
pub use report::{
    FaultReport, KillAtReport, PartitionLimitReport, RedeployReport, SinkErrorsReport,
    TableLimitReport,
};
pub use sink::SinkGate;
pub(crate) use sink_errors::Delivery;
pub use sink_errors::SinkErrors;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use emulators::Counter;
use emulators::dynamodb::{Table, TableFaultOptions, TableFaults, WatchedTable};
use emulators::proxy::{Credentials, RequestFaults, STALL, ServiceFaults, Strikes};
use emulators::sqs::Repeats;

use crate::dynamodb::{BATCH_INDEX, BATCH_TABLE, LOCK_TABLE};
use crate::given_back::GIVEN_BACK;

/// What stalls must outlast the longest attempt of the functions, or it would be slow and not lost.
const _: () = assert!(STALL.as_millis() > protocol::limits::ATTEMPT_TIMEOUT_MAX.as_millis());

/// The faults of one stack.
pub struct Faults {
    options: FaultOptions,
    timeline: Arc<Timeline>,
    credentials: Option<Arc<Credentials>>,
    requests: Arc<RequestFaults>,
    tables: Option<Arc<TableFaults>>,
    aggregator_kills: Option<Arc<Kills>>,
    batch_processor_kills: Option<Arc<Kills>>,
    repeated: Arc<Counter>,
    sink_refusals: Counter,
    sink_errors: Arc<SinkErrors>,
    redeployed: Mutex<Vec<RedeployReport>>,
}

impl Faults {
    /// What the options ask for, with the batch table as the template has it, where there is one.
    ///
    /// # Errors
    /// When there is no memory for what the faults must remember.
    pub fn new(options: &FaultOptions, batch_table: Option<&Table>) -> anyhow::Result<Faults> {
        let timeline = Arc::new(Timeline::default());
        let seed = options.seed;
        let expired = Some(options.expired_credentials).filter(|percent| !percent.is_zero());
        let credentials = expired.map(|percent| Arc::new(Credentials::new(seed, percent)));
        let requests = RequestFaults::new(seed, options.lost_replies, options.error_rate);
        Ok(Faults {
            options: options.clone(),
            credentials,
            requests: Arc::new(requests),
            tables: TableFaults::new(&of_tables(options, batch_table))?.map(Arc::new),
            aggregator_kills: Kills::new(options, "aggregator").map(Arc::new),
            batch_processor_kills: Kills::new(options, "batch-processor").map(Arc::new),
            repeated: Arc::default(),
            sink_refusals: Counter::default(),
            sink_errors: Arc::new(SinkErrors::on(options, Arc::clone(&timeline))),
            redeployed: Mutex::default(),
            timeline,
        })
    }

    /// When the burst has begun: what comes at a certain time counts from there.
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// What strikes requests to DynamoDB.
    pub fn on_dynamodb(&self) -> Strikes {
        Strikes {
            service: self
                .tables
                .clone()
                .map(|tables| tables as Arc<dyn ServiceFaults>),
            ..self.on_requests()
        }
    }

    /// What strikes the functions' requests to the queues, and to a sink.
    pub fn on_requests(&self) -> Strikes {
        Strikes {
            credentials: self.credentials.clone(),
            requests: Arc::clone(&self.requests),
            service: None,
        }
    }

    /// What has deliveries fail at the sink's end.
    pub fn sink_errors(&self) -> Arc<SinkErrors> {
        Arc::clone(&self.sink_errors)
    }

    /// What stands before a sink that is a directory; `None` where it is never down. It makes what it needs below `work`.
    ///
    /// # Errors
    /// As [`SinkGate::start`].
    ///
    /// # Panics
    /// As [`SinkGate::start`].
    pub fn sink_gate(&self, directory: &Path, work: &Path) -> anyhow::Result<Option<SinkGate>> {
        let outages = &self.options.sink_outages;
        let start = || SinkGate::start(directory, work, outages, Arc::clone(&self.timeline));
        (!outages.is_empty()).then(start).transpose()
    }

    /// The outages of the sink, each with how many requests it has refused.
    pub fn outages(&self) -> Vec<(Outage, u64)> {
        let refused = self.sink_errors.outages().refused();
        let outages = self.options.sink_outages.iter().copied();
        outages.zip(refused).collect()
    }

    /// What environments' credentials do.
    pub fn credentials(&self) -> Option<Arc<Credentials>> {
        self.credentials.clone()
    }

    /// An update of the functions' configuration has come to pass.
    pub(crate) fn redeployed(&self, redeploy: &Redeploy, environments_replaced: u64) {
        let report = RedeployReport {
            at_secs: redeploy.at.as_secs_f64(),
            variables: redeploy.variables.keys().cloned().collect(),
            environments_replaced,
        };
        self.redeployed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(report);
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

    /// Takes in a line of a function's log: it may tell of a ticket that is given back while the sink is down.
    pub fn heard(&self, line: &str) {
        if line.contains(GIVEN_BACK) && self.sink_errors.outages().is_one_now() {
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
            partition_limit: tables.and_then(TableFaults::key_report).map(Into::into),
            table_limit: tables.and_then(TableFaults::table_report).map(Into::into),
            lost_replies: (!options.lost_replies.is_zero()).then(|| self.requests.lost_report()),
            request_errors: (!options.error_rate.is_zero()).then(|| self.requests.error_report()),
            deliveries_repeated: (!options.duplicate_deliveries.is_zero())
                .then(|| self.repeated.get()),
            killed_at_random: (!options.kills.is_zero())
                .then(|| kills().map(|kills| kills.random_count()).sum()),
            kill_at: kill_at.collect(),
            expired_credentials: self
                .credentials
                .as_ref()
                .map(|credentials| credentials.report()),
            tickets_refused_by_sink: (!options.sink_outages.is_empty())
                .then(|| self.sink_refusals.get()),
            sink_errors: (!options.sink_error_rate.is_zero()).then(|| self.sink_errors.report()),
            redeploys: self
                .redeployed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        })
    }
}

/// The faults of the tables: those of the lock table, and of the batch table the limit of its indexes' keys.
fn of_tables(options: &FaultOptions, batch_table: Option<&Table>) -> TableFaultOptions {
    TableFaultOptions {
        seed: options.seed,
        watched: WatchedTable {
            table: LOCK_TABLE.to_owned(),
            key: "messageId".to_owned(),
            index: BATCH_INDEX.to_owned(),
            index_key: "batchId".to_owned(),
            index_sort_key: "seq".to_owned(),
        },
        index_lag: options.index_lag,
        key_limit: options.partition_limit,
        table_limit: options.table_limit,
        other_table: batch_table.map(|table| (BATCH_TABLE.to_owned(), table.clone())),
    }
}
