//! Faults: everything that AWS services and their machines may do wrong, on demand.
//!
//! | file | contents |
//! |---|---|
//! | `options` | the flags and the checked options |
//! | `environments` | the faults of a function's environments, for the Lambda host |
//! | `kills` | SIGKILL at a random moment or at a line of the log |
//! | `outages` | the times at which the sink is down |
//! | `sink` | a directory that cannot be written to while the sink is down |
//! | `sink_errors` | deliveries that the sink makes fail |
//! | `sink_cuts` | connections to the sink that are cut |
//! | `redeploys` | updates of the functions' configuration and code |
//! | `report` | how often each fault struck |
//!
//! The proxies (`emulators::proxy`) in front of DynamoDB, the queues and the stand-ins for sinks lose replies, return
//! errors, and refuse expired credentials. The faults of the tables are in `emulators::dynamodb`, and repeated deliveries
//! in the queue server (`sqs::DuplicateDeliveries`).
//!
//! The same seed gives the same random draws. Which request or log line a draw applies to depends on their order, which
//! differs between runs.

mod environments;
mod kills;
mod options;
mod outages;
mod redeploys;
mod report;
mod sink;
mod sink_cuts;
mod sink_errors;

pub use emulators::{Percent, RandomStream};
pub use environments::EnvironmentFaults;
pub use kills::Kills;
pub use options::{FaultArgs, FaultOptions, KillAt};
pub use outages::{Outage, Timeline};
pub use redeploys::{DeployAt, FunctionName, NewCode, Redeploy};
pub use report::{
    FaultReport, KillAtReport, PartitionLimitReport, RedeployReport, SinkCutsReport,
    SinkErrorsReport, TableLimitReport,
};
pub use sink::SinkGate;
pub use sink_cuts::SinkCuts;
pub use sink_errors::SinkErrors;

use std::path::Path;
use std::sync::{Arc, Mutex};

use emulators::Counter;
use emulators::dynamodb::{Table, TableFaultOptions, TableFaults, WatchedTable};
use emulators::proxy::{ExpiringCredentials, ProxyFaults, RequestFaults, STALL, ServiceFaults};
use emulators::sqs::DuplicateDeliveries;

use crate::dynamodb::{BATCH_INDEX, BATCH_TABLE, LOCK_TABLE};
use crate::given_back::GIVEN_BACK;
use crate::locked::locked;

/// A stalled request must last longer than the functions wait for a reply, or the reply would be late instead of lost.
const _: () = assert!(STALL.as_millis() > protocol::limits::ATTEMPT_TIMEOUT_MAX.as_millis());

/// The faults of one stack.
pub struct Faults {
    options: FaultOptions,
    /// Outages and redeploys count their times from its beginning.
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) credentials: Option<Arc<ExpiringCredentials>>,
    requests: Arc<RequestFaults>,
    tables: Option<Arc<TableFaults>>,
    pub(crate) aggregator_kills: Option<Arc<Kills>>,
    pub(crate) batch_processor_kills: Option<Arc<Kills>>,
    repeated: Arc<Counter>,
    sink_refusals: Counter,
    pub(crate) sink_errors: Arc<SinkErrors>,
    redeployed: Mutex<Vec<RedeployReport>>,
}

impl Faults {
    /// Returns the faults of these options. `batch_table` is the definition of the batch table, if the template has one.
    pub fn new(options: &FaultOptions, batch_table: Option<&Table>) -> anyhow::Result<Faults> {
        let timeline = Arc::new(Timeline::default());
        let seed = options.seed;
        let expired = Some(options.expired_credentials).filter(|percent| !percent.is_zero());
        let credentials = expired.map(|percent| Arc::new(ExpiringCredentials::new(seed, percent)));
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
            sink_errors: Arc::new(SinkErrors::with_timeline(options, Arc::clone(&timeline))),
            redeployed: Mutex::default(),
            timeline,
        })
    }

    /// Returns the faults of requests to DynamoDB.
    pub fn on_dynamodb(&self) -> ProxyFaults {
        let tables = self.tables.clone();
        ProxyFaults {
            service: tables.map(|tables| tables as Arc<dyn ServiceFaults>),
            ..self.on_requests()
        }
    }

    /// Returns the faults of the functions' requests to the queues, to S3 and to a sink.
    pub fn on_requests(&self) -> ProxyFaults {
        ProxyFaults {
            credentials: self.credentials.clone(),
            requests: Arc::clone(&self.requests),
            service: None,
        }
    }

    /// Starts the gate of a sink that is a directory; returns `None` if the sink is never down. The gate keeps its own
    /// files below `work`.
    pub fn sink_gate(&self, directory: &Path, work: &Path) -> anyhow::Result<Option<SinkGate>> {
        let outages = &self.options.sink_outages;
        let start = || SinkGate::start(directory, work, outages, Arc::clone(&self.timeline));
        (!outages.is_empty()).then(start).transpose()
    }

    /// Returns the outages of the sink as long as they really were, each with the number of requests refused in it so far.
    /// Outages that were cancelled before they began are left out.
    pub fn outages(&self) -> Vec<(Outage, u64)> {
        let refused = self.sink_errors.outages.refused();
        let outages = self.options.sink_outages.iter().zip(refused);
        let actual = |(outage, refused): (&Outage, u64)| {
            let outage = self.timeline.actual(*outage)?;
            Some((outage, refused))
        };
        outages.filter_map(actual).collect()
    }

    /// Records an update of the functions' configuration for the report.
    pub(crate) fn record_redeploy(&self, redeploy: &Redeploy, environments_replaced: u64) {
        let report = RedeployReport {
            at_secs: redeploy.at.as_secs_f64(),
            variables: redeploy.variables.keys().cloned().collect(),
            code: redeploy.code.as_ref().map(|code| code.function.to_string()),
            environments_replaced,
        };
        locked(&self.redeployed).push(report);
    }

    /// Returns the repeated deliveries of a queue's messages in flight, if any are on.
    pub fn repeats(&self, queue: &str) -> Option<DuplicateDeliveries> {
        let percent = self.options.duplicate_deliveries;
        let draws = RandomStream::new(self.options.seed, &format!("deliveries of {queue}"));
        let repeated = Arc::clone(&self.repeated);
        (!percent.is_zero()).then(|| DuplicateDeliveries::new(percent, draws, repeated))
    }

    /// Reads a line of a function's log, and counts it if it reports a ticket that was given back while the sink is down.
    pub fn read_log_line(&self, line: &str) {
        if line.contains(GIVEN_BACK) && self.sink_errors.outages.is_down() {
            self.sink_refusals.add(1);
        }
    }

    /// Ends the kills, the expiries of credentials, the outages of the sink, and the limits and the lag of the tables, as an
    /// operator does who removes their cause. All other faults go on.
    pub fn end(&self) {
        self.timeline.end_outages();
        self.kills().for_each(|kills| kills.end());
        if let Some(credentials) = &self.credentials {
            credentials.end();
        }
        if let Some(tables) = &self.tables {
            tables.end();
        }
    }

    fn kills(&self) -> impl Iterator<Item = &Arc<Kills>> {
        let kills = self.aggregator_kills.iter();
        kills.chain(&self.batch_processor_kills)
    }

    /// Returns how many requests and writes were throttled so far.
    pub fn throttled(&self) -> u64 {
        let throttles = self.report().map(|report| report.throttles());
        let throttles = throttles.into_iter().flatten();
        throttles.map(|throttle| throttle.count).sum()
    }

    /// Returns how often each fault has struck; `None` if no fault is on.
    pub fn report(&self) -> Option<FaultReport> {
        let options = &self.options;
        if !options.any() {
            return None;
        }
        let kill_at = options.kill_at.iter().enumerate().map(|(index, at)| {
            let counts = self.kills().map(|kills| kills.at_counts(index));
            let (lines, killed) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            KillAtReport {
                text: at.text.clone(),
                lines,
                killed,
            }
        });
        let tables = self.tables.as_deref();
        let credentials = self.credentials.as_ref();
        let cuts = &self.sink_errors.cuts;
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
                .then(|| self.kills().map(|kills| kills.killed.get()).sum()),
            kill_at: kill_at.collect(),
            expired_credentials: credentials.map(|credentials| credentials.report()),
            tickets_refused_by_sink: (!options.sink_outages.is_empty())
                .then(|| self.sink_refusals.get()),
            sink_errors: (!options.sink_error_rate.is_zero()).then(|| self.sink_errors.report()),
            sink_cuts: (!options.cut_connections.is_zero()).then(|| cuts.report()),
            redeploys: locked(&self.redeployed).clone(),
        })
    }
}

/// Returns the faults of the tables. The lock table has all of them, the batch table the limits of its index keys and of
/// the whole table.
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
