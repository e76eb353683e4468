//! The stack: tables, queues, functions and mappings of the template that is deployed, on loopback ports of their own.

mod measure;
mod proxies;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use emulators::dynamodb::DynamoDb;
use emulators::lambda::{
    EventSourceMapping, Function, FunctionConfig, LogLine, LogSink, MappingConfig, REGION,
};
use emulators::proxy::Proxy;
#[cfg(feature = "s3")]
use emulators::s3::S3;
use emulators::sqs::Sqs;
use tokio::sync::oneshot;

use crate::deploy::{self, AGGREGATOR, BATCH_PROCESSOR, Endpoints, queue_url};
use crate::dynamodb::{BATCH_TABLE, create_table};
use crate::faults::{EnvironmentFaults, Faults, Kills, SinkGate};
use crate::function_logs::FunctionLogs;
use crate::ledger::{Action, Meter};
use crate::options::StackOptions;
use crate::redeploys::Redeploys;
use crate::schedule::Schedule;
use crate::sink::SinkHost;
use crate::template::{self, Resources};

use self::proxies::Proxies;
use self::services::Services;

/// Where events come in.
pub const INPUT_QUEUE: &str = "input-queue";
/// Where tickets go.
pub const BATCH_QUEUE: &str = "batch-queue";
/// Where messages go that cannot be processed.
pub const QUARANTINE_QUEUE: &str = "quarantine-queue";
/// Where messages of the input queue go that came back too often.
pub const INPUT_DEAD_LETTER_QUEUE: &str = "input-dead-letter-queue";
/// Where tickets go that came back too often.
pub const BATCH_DEAD_LETTER_QUEUE: &str = "batch-dead-letter-queue";

/// Receives before a message is given up under faults: a killed aggregator has received every message of its event once
/// more, and a message that is set aside is lost to the audit although the service lost nothing.
const RECEIVES_MAX_FAULTS: u32 = 100;

/// The running stack.
pub struct Stack {
    /// The queues.
    pub sqs: Sqs,
    /// The aggregator.
    pub aggregator: Function,
    /// The batch processor.
    pub batch_processor: Function,
    /// From the input queue to the aggregator.
    pub input_mapping: EventSourceMapping,
    /// From the batch queue to the batch processor.
    pub batch_mapping: EventSourceMapping,
    /// What the functions' metrics add up to.
    pub function_logs: FunctionLogs,
    /// Where the parts are.
    pub out: PathBuf,
    /// What has gone wrong on purpose.
    pub faults: Arc<Faults>,
    variables: BTreeMap<String, String>,
    redeploys: Redeploys,
    /// Where the services themselves listen, without what is in front of them.
    endpoints: Endpoints,
    sqs_client: aws_sdk_sqs::Client,
    schedule: Option<Schedule>,
    batches: shared::aws::DynamoBatchStore,
    _dynamodb: DynamoDb,
    _sqs_stop: oneshot::Sender<()>,
    meter: Arc<Meter>,
    /// The processor that the template asks for.
    architecture: String,
    _proxies: Vec<Proxy>,
    _sink_gate: Option<SinkGate>,
    sink: SinkHost,
}

impl Stack {
    /// Starts everything.
    ///
    /// # Errors
    /// When a port, a table, a queue or a mapping cannot be had. Wrong variables of the functions show in their logs.
    pub async fn start(options: &StackOptions) -> anyhow::Result<Stack> {
        Stack::start_watched(options, Arc::new(|_| {})).await
    }

    /// As [`start`](Self::start); `watch` is handed every log line of the functions as well.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_watched(options: &StackOptions, watch: LogSink) -> anyhow::Result<Stack> {
        let services = Services::start(options).await?;
        let meter = Arc::new(Meter::default());
        let proxies = Proxies::start(&services, &meter).await?;
        let resources = deploy::resources(options, &proxies.endpoints.sqs)?;
        create_resources(&services, &resources, options).await?;

        let Services { faults, sink, .. } = &services;
        let out = sink.out().to_owned();
        let gate = services.sink_gate.as_ref();
        let directory = gate.map_or(out.as_path(), SinkGate::path);
        let sink_variables = sink.variables(directory, proxies.receiver.as_deref());
        let functions =
            deploy::functions(options, &resources, &proxies.endpoints, &sink_variables)?;
        let mut variables = functions.batch_processor.variables.clone();
        variables.extend(functions.aggregator.variables.clone());
        let function_logs = FunctionLogs::default();
        let start = |config, kills| {
            let logs = [Arc::clone(&watch), function_logs.sink(options.logs)];
            start_function(config, kills, faults, logs)
        };
        let aggregator = start(functions.aggregator, faults.aggregator_kills());
        let batch_processor = start(functions.batch_processor, faults.batch_processor_kills());
        let [input_mapping, batch_mapping] = start_mappings(
            &services.sqs,
            &resources,
            options,
            [&aggregator, &batch_processor],
        )?;
        let schedule = options
            .sweep_every
            .map(|every| Schedule::start(batch_processor.clone(), every));
        let redeploys = Redeploys::start(
            &options.faults.redeploys,
            [aggregator.clone(), batch_processor.clone()],
            Arc::clone(faults),
        );
        faults.timeline().begin();
        Ok(Stack {
            sqs: services.sqs,
            aggregator,
            batch_processor,
            input_mapping,
            batch_mapping,
            function_logs,
            out,
            faults: services.faults,
            variables,
            redeploys,
            endpoints: services.endpoints,
            sqs_client: services.sqs_client,
            schedule,
            batches: shared::aws::DynamoBatchStore::new(services.dynamodb_client, BATCH_TABLE),
            meter,
            architecture: resources.function(AGGREGATOR)?.architecture.clone(),
            _dynamodb: services.dynamodb,
            _sqs_stop: services.sqs_stop,
            _proxies: proxies.proxies,
            _sink_gate: services.sink_gate,
            sink: services.sink,
        })
    }

    /// Waits until one of the functions cannot start: its cold start has failed twice in the same way. Returns the
    /// function's name and the failure as an error.
    pub async fn start_fails(&self) -> anyhow::Error {
        let (name, failure) = tokio::select! {
            failure = self.aggregator.start_fails_again() => (AGGREGATOR, failure),
            failure = self.batch_processor.start_fails_again() => (BATCH_PROCESSOR, failure),
        };
        anyhow::anyhow!("{name}: its cold start failed twice in the same way: {failure}")
    }

    /// A client for the queues.
    pub fn sqs_client(&self) -> &aws_sdk_sqs::Client {
        &self.sqs_client
    }

    /// The S3 stand-in, to which buckets can be added.
    #[cfg(feature = "s3")]
    pub fn s3(&self) -> &S3 {
        self.sink.s3()
    }

    /// URL of a queue.
    pub fn queue_url(&self, queue: &str) -> String {
        queue_url(&self.endpoints.sqs, queue)
    }

    /// One of the functions' variables.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Returns what the functions have asked for so far, as IAM names it.
    pub fn actions(&self) -> BTreeSet<Action> {
        self.meter.actions()
    }

    /// What another client needs, as shell variables.
    pub fn describe(&self) -> String {
        let mut lines = vec![
            "# The stack is up; Ctrl-C stops it. Variables for another client:".to_owned(),
            format!("export INPUT_QUEUE_URL={}", self.queue_url(INPUT_QUEUE)),
        ];
        lines.extend(
            self.variables
                .iter()
                // Another client goes to the services themselves: the faults are for the functions.
                .map(|(name, value)| match name.as_str() {
                    "AWS_ENDPOINT_URL_DYNAMODB" => (name, &self.endpoints.dynamodb),
                    "AWS_ENDPOINT_URL_SQS" => (name, &self.endpoints.sqs),
                    #[cfg(feature = "s3")]
                    "AWS_ENDPOINT_URL_S3" => (name, &self.endpoints.s3),
                    _ => (name, value),
                })
                .map(|(name, value)| format!("export {name}='{value}'")),
        );
        lines.extend(
            [
                ("AWS_ACCESS_KEY_ID", "local"),
                ("AWS_SECRET_ACCESS_KEY", "local"),
                ("AWS_REGION", REGION),
            ]
            .map(|(name, value)| format!("export {name}={value}")),
        );
        lines.push(format!("# Batches come to {}", self.out.display()));
        lines.join("\n")
    }

    /// Stops everything; returns when every child process is gone.
    pub async fn stop(&self) {
        if let Some(schedule) = &self.schedule {
            schedule.stop();
        }
        self.redeploys.stop();
        self.input_mapping.stop().await;
        self.batch_mapping.stop().await;
        self.aggregator.shutdown().await;
        self.batch_processor.shutdown().await;
    }
}

/// Creates the template's tables and queues.
async fn create_resources(
    services: &Services,
    resources: &Resources,
    options: &StackOptions,
) -> anyhow::Result<()> {
    for (name, table) in &resources.tables {
        create_table(&services.dynamodb_client, name, table).await?;
    }
    create_queues(&services.sqs, resources, options)?;
    for queue in [INPUT_QUEUE, BATCH_QUEUE] {
        let repeats = services.faults.repeats(queue);
        services.sqs.set_repeats(queue, repeats)?;
    }
    Ok(())
}

/// Starts a function whose log lines go to the faults and to each of `logs`.
fn start_function(
    config: FunctionConfig,
    kills: Option<Arc<Kills>>,
    faults: &Arc<Faults>,
    logs: [LogSink; 2],
) -> Function {
    let heard = Arc::clone(faults);
    let sink = move |line: &LogLine| {
        heard.heard(&line.text);
        logs.iter().for_each(|log| log(line));
    };
    let credentials = faults.credentials();
    let faults = EnvironmentFaults { kills, credentials };
    Function::with_faults(config, Arc::new(sink), Arc::new(faults))
}

/// Starts the mappings of the input queue and of the batch queue.
fn start_mappings(
    sqs: &Sqs,
    resources: &Resources,
    options: &StackOptions,
    [aggregator, batch_processor]: [&Function; 2],
) -> anyhow::Result<[EventSourceMapping; 2]> {
    let start = |function: &Function, mapping: &template::Mapping, batch_size, concurrency_max| {
        let config = MappingConfig {
            queue: mapping.queue().to_owned(),
            batch_size,
            window: mapping.window,
            concurrency_max,
            report_batch_item_failures: mapping.reports_batch_item_failures(),
        };
        EventSourceMapping::start(sqs.clone(), function.clone(), config)
    };
    let input = &resources.function(AGGREGATOR)?.mapping;
    let tickets = &resources.function(BATCH_PROCESSOR)?.mapping;
    Ok([
        start(aggregator, input, options.batch_size, options.aggregators)?,
        start(
            batch_processor,
            tickets,
            tickets.batch_size,
            options.batch_processors,
        )?,
    ])
}

/// Creates the template's queues. The visibility timeout follows the functions' timeouts, which are shorter here than the
/// template allows, by the template's rule: six times the timeout, and the window.
fn create_queues(sqs: &Sqs, resources: &Resources, options: &StackOptions) -> anyhow::Result<()> {
    // A dead-letter queue must be there before the queue that names it.
    let (sources, targets): (Vec<_>, Vec<_>) = resources
        .queues
        .iter()
        .partition(|(_, queue)| queue.redrive_policy.is_some());
    let fed = [
        (resources.function(AGGREGATOR)?, options.aggregator_timeout),
        (
            resources.function(BATCH_PROCESSOR)?,
            options.batch_processor_timeout,
        ),
    ];
    for (name, queue) in targets.into_iter().chain(sources) {
        let mut attributes = queue.attributes();
        for (function, timeout) in fed {
            if function.mapping.queue() == name {
                attributes.visibility_timeout = 6 * timeout + function.mapping.window;
            }
        }
        if let Some(redrive) = attributes.redrive.as_mut()
            && options.faults.any()
        {
            redrive.receives_max = redrive.receives_max.max(RECEIVES_MAX_FAULTS);
        }
        sqs.create_queue(name, attributes)?;
    }
    Ok(())
}
