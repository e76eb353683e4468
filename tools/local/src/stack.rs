//! The stack: the tables, queues, functions and mappings of the SAM template, on loopback ports.

mod measure;
mod ports;
mod proxies;
mod services;
mod spans;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use aws::{DynamoBatchCatalogue, DynamoBatchStore};
use emulators::dynamodb::DynamoDb;
use emulators::lambda::{
    EventSourceMapping, Function, FunctionConfig, LogLine, LogSink, MappingConfig, REGION, Schedule,
};
use emulators::proxy::Proxy;
use emulators::sam::{Mapping, Resources};
use emulators::sqs::Sqs;
use tokio::sync::oneshot;

use crate::bodies;
use crate::deploy::{self, AGGREGATOR, BATCH_PROCESSOR, Endpoints, queue_url};
use crate::dynamodb::{BATCH_TABLE, create_table};
use crate::faults::{EnvironmentFaults, Faults, Kills, SinkGate};
use crate::function_logs::FunctionLogs;
use crate::ledger::{Action, Meter};
use crate::notices::NoticeHost;
use crate::options::StackOptions;
use crate::redeploys::Redeploys;
use crate::sink::SinkHost;
use crate::traces::Collector;

use self::proxies::Proxies;
use self::services::Services;

/// The queue that the aggregator takes messages from.
pub const INPUT_QUEUE: &str = "input-queue";
/// The queue for tickets.
pub const BATCH_QUEUE: &str = "batch-queue";
/// The queue for messages that cannot be processed.
pub const QUARANTINE_QUEUE: &str = "quarantine-queue";
/// The queue for messages of the input queue that were received too often.
pub const INPUT_DEAD_LETTER_QUEUE: &str = "input-dead-letter-queue";
/// The queue for tickets that were received too often.
pub const BATCH_DEAD_LETTER_QUEUE: &str = "batch-dead-letter-queue";

/// The name of the rule that starts sweeps.
const SWEEP: &str = "sweep";

/// The running stack.
pub struct Stack {
    pub sqs: Sqs,
    pub aggregator: Function,
    pub batch_processor: Function,
    /// From the input queue to the aggregator.
    pub input_mapping: EventSourceMapping,
    /// From the batch queue to the batch-processor.
    pub batch_mapping: EventSourceMapping,
    /// The metrics in the functions' logs, added up, and the tickets that were given back.
    pub function_logs: FunctionLogs,
    /// The directory with the parts.
    pub out: PathBuf,
    pub faults: Arc<Faults>,
    variables: BTreeMap<String, String>,
    redeploys: Redeploys,
    /// The endpoints of the services themselves, not of the proxies in front of them.
    endpoints: Endpoints,
    sqs_client: aws_sdk_sqs::Client,
    schedule: Option<Schedule>,
    batches: DynamoBatchStore,
    catalogue: DynamoBatchCatalogue,
    _dynamodb: DynamoDb,
    _sqs_stop: oneshot::Sender<()>,
    pub(crate) meter: Arc<Meter>,
    /// The instruction set of the functions in the template, which decides their price.
    architecture: String,
    /// The buckets of loads, at first and after redeploys.
    load_buckets: BTreeSet<String>,
    _proxies: Vec<Proxy>,
    _sink_gate: Option<SinkGate>,
    notices: Option<NoticeHost>,
    pub(crate) sink: SinkHost,
    collector: Option<Collector>,
}

impl Stack {
    /// Starts the services, the functions and the mappings.
    ///
    /// # Errors
    /// A port cannot be bound, or a table, a queue or a mapping cannot be created. Wrong variables of the functions are no
    /// error here: the functions log them.
    pub async fn start(options: &StackOptions) -> anyhow::Result<Stack> {
        Stack::start_watched(options, Arc::new(|_| {})).await
    }

    /// Starts the stack as [`start`](Self::start) does, and passes every log line of the functions to `watch`.
    pub async fn start_watched(options: &StackOptions, watch: LogSink) -> anyhow::Result<Stack> {
        let services = Services::start(options).await?;
        let meter = Arc::new(Meter::default());
        let proxies = Proxies::start(&services, &meter).await?;
        let resources = deploy::resources(options, &proxies.endpoints.sqs)?;
        create_resources(&services, &resources, options).await?;

        let faults = &services.faults;
        let functions = configure_functions(&services, &proxies, &resources, options)?;
        let (functions, collector) = collect_traces(options, functions).await?;
        let mut variables = functions.batch_processor.variables.clone();
        variables.extend(functions.aggregator.variables.clone());
        let function_logs = FunctionLogs::default();
        let start = |config, kills: &Option<Arc<Kills>>| {
            let logs = [Arc::clone(&watch), function_logs.sink(options.logs)];
            start_function(config, kills.clone(), faults, logs)
        };
        let aggregator = start(functions.aggregator, &faults.aggregator_kills);
        let batch_processor = start(functions.batch_processor, &faults.batch_processor_kills);
        let started = [&aggregator, &batch_processor];
        let [input_mapping, batch_mapping] =
            start_mappings(&services.sqs, &resources, options, started)?;
        let sweep = |every| Schedule::start(batch_processor.clone(), SWEEP, every);
        let schedule = options.sweep_every.map(sweep);
        let functions = [aggregator.clone(), batch_processor.clone()];
        let redeploys = &options.faults.redeploys;
        let redeploys = Redeploys::start(redeploys, functions, Arc::clone(faults));
        faults.timeline.begin();
        Ok(Stack {
            sqs: services.sqs,
            aggregator,
            batch_processor,
            input_mapping,
            batch_mapping,
            function_logs,
            out: services.sink.out().to_owned(),
            faults: services.faults,
            variables,
            redeploys,
            endpoints: services.endpoints,
            sqs_client: services.sqs_client,
            schedule,
            batches: DynamoBatchStore::new(services.dynamodb_client.clone(), BATCH_TABLE),
            catalogue: DynamoBatchCatalogue::new(services.dynamodb_client, BATCH_TABLE),
            meter,
            architecture: resources.function(AGGREGATOR)?.architecture.clone(),
            load_buckets: bodies::load_buckets(&options.variables, &options.faults.redeploys),
            _dynamodb: services.dynamodb,
            _sqs_stop: services.sqs_stop,
            _proxies: proxies.proxies,
            _sink_gate: services.sink_gate,
            notices: services.notices,
            sink: services.sink,
            collector,
        })
    }

    /// Waits until the cold start of a function has failed twice in the same way. Returns an error with the name of the
    /// function and the failure.
    pub async fn cold_start_failure(&self) -> anyhow::Error {
        let (name, failure) = tokio::select! {
            failure = self.aggregator.repeated_start_failure() => (AGGREGATOR, failure),
            failure = self.batch_processor.repeated_start_failure() => (BATCH_PROCESSOR, failure),
        };
        anyhow::anyhow!("{name}: its cold start failed twice in the same way: {failure}")
    }

    /// Returns a client of the queues.
    pub fn sqs_client(&self) -> &aws_sdk_sqs::Client {
        &self.sqs_client
    }

    /// Returns what notices go to, if that is a stand-in.
    pub fn notices(&self) -> Option<&NoticeHost> {
        self.notices.as_ref()
    }

    /// Returns the URL of the DynamoDB stand-in itself, where no fault strikes and no request is counted.
    pub fn dynamodb_endpoint(&self) -> &str {
        &self.endpoints.dynamodb
    }

    /// Returns the S3 stand-in, in which callers may create buckets.
    #[cfg(feature = "full")]
    pub fn s3(&self) -> &emulators::s3::S3 {
        &self.sink.others.s3
    }

    /// Returns the collector of spans, if there is one.
    pub fn collector(&self) -> Option<&Collector> {
        self.collector.as_ref()
    }

    pub fn queue_url(&self, queue: &str) -> String {
        queue_url(&self.endpoints.sqs, queue)
    }

    /// Returns the value of one of the functions' variables, as it was at the start.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Returns the IAM actions of all requests that the functions have sent so far.
    pub fn actions(&self) -> BTreeSet<Action> {
        self.meter.actions()
    }

    /// Returns the variables that another client needs.
    pub fn client_variables(&self) -> Vec<(String, String)> {
        // Other clients connect to the services without the proxies, because the faults are for the functions.
        let sqs_proxy = self.variable("AWS_ENDPOINT_URL_SQS");
        let sqs_proxy = sqs_proxy.filter(|url| !url.is_empty());
        let sqs_proxy = sqs_proxy.unwrap_or(&self.endpoints.sqs);
        let urls = [
            ("INPUT_QUEUE_URL", INPUT_QUEUE),
            ("INPUT_DEAD_LETTER_QUEUE_URL", INPUT_DEAD_LETTER_QUEUE),
            ("BATCH_DEAD_LETTER_QUEUE_URL", BATCH_DEAD_LETTER_QUEUE),
        ];
        let urls = urls.map(|(name, queue)| (name.to_owned(), self.queue_url(queue)));
        let endpoints = &self.endpoints;
        let variables = self.variables.iter().map(|(name, value)| {
            let value = match name.as_str() {
                "AWS_ENDPOINT_URL_DYNAMODB" => endpoints.dynamodb.clone(),
                "AWS_ENDPOINT_URL_S3" => endpoints.s3.as_ref().unwrap_or(value).clone(),
                // The URLs of queues begin with it too.
                _ => value.replace(sqs_proxy, &endpoints.sqs),
            };
            (name.clone(), value)
        });
        let access = [
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            ("AWS_REGION", REGION),
            // The only one that boto3 reads.
            ("AWS_DEFAULT_REGION", REGION),
        ];
        let access = access.map(|(name, value)| (name.to_owned(), value.to_owned()));
        urls.into_iter().chain(variables).chain(access).collect()
    }

    /// Returns shell commands that set the variables another client needs.
    pub fn describe(&self) -> String {
        let mut lines = vec![
            "# The stack is running; Ctrl-C stops it. Variables for another client:".to_owned(),
        ];
        let variables = self.client_variables().into_iter();
        lines.extend(variables.map(|(name, value)| format!("export {name}={}", quoted(&value))));
        lines.push(format!("# Delivered batches are in {}", self.out.display()));
        lines.join("\n")
    }

    /// Stops the stack. Returns when every child process has ended.
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

/// Returns a value in single quotes, as a shell reads it.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
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
        services.sqs.set_duplicate_deliveries(queue, repeats)?;
    }
    Ok(())
}

/// Returns the configuration of both functions, whose requests go through the proxies.
fn configure_functions(
    services: &Services,
    proxies: &Proxies,
    resources: &Resources,
    options: &StackOptions,
) -> anyhow::Result<deploy::Functions> {
    let sink = &services.sink;
    let gate = services.sink_gate.as_ref();
    let directory = gate.map_or(sink.out(), SinkGate::path);
    let mut variables = sink.variables(directory, proxies.receiver.as_deref());
    if let Some(notices) = &services.notices {
        variables.extend(notices.variables(&proxies.endpoints.sqs));
    }
    deploy::functions(options, resources, &proxies.endpoints, &variables)
}

/// Starts the collector of spans, if there is a file for them, and sets the variable by which the functions find it.
async fn collect_traces(
    options: &StackOptions,
    mut functions: deploy::Functions,
) -> anyhow::Result<(deploy::Functions, Option<Collector>)> {
    let Some(file) = &options.traces else {
        return Ok((functions, None));
    };
    let collector = Collector::start(file, INPUT_QUEUE).await?;
    for function in [&mut functions.aggregator, &mut functions.batch_processor] {
        let name = "OTEL_EXPORTER_OTLP_ENDPOINT".to_owned();
        function.variables.insert(name, collector.endpoint());
    }
    Ok((functions, Some(collector)))
}

/// Starts a function whose log lines go to the faults and to each of `logs`.
fn start_function(
    config: FunctionConfig,
    kills: Option<Arc<Kills>>,
    faults: &Arc<Faults>,
    logs: [LogSink; 2],
) -> Function {
    let listener = Arc::clone(faults);
    let sink = move |line: &LogLine| {
        listener.read_log_line(&line.text);
        logs.iter().for_each(|log| log(line));
    };
    let credentials = faults.credentials.clone();
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
    let start = |function: &Function, mapping: &Mapping, batch_size, concurrency_max| {
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
    let environments = options.batch_processors;
    Ok([
        start(aggregator, input, options.batch_size, options.aggregators)?,
        start(batch_processor, tickets, tickets.batch_size, environments)?,
    ])
}

/// Creates the template's queues. The timeouts of the functions may be shorter here than the template allows, so the
/// visibility timeouts are computed by the template's rule: six times the function's timeout, plus the batching window.
fn create_queues(sqs: &Sqs, resources: &Resources, options: &StackOptions) -> anyhow::Result<()> {
    // A dead-letter queue must exist before a queue that names it.
    let queues = resources.queues.iter();
    let (sources, dead_letter_queues): (Vec<_>, Vec<_>) =
        queues.partition(|(_, queue)| queue.redrive_policy.is_some());
    let consumers = [
        (resources.function(AGGREGATOR)?, options.aggregator_timeout),
        (
            resources.function(BATCH_PROCESSOR)?,
            options.batch_processor_timeout,
        ),
    ];
    for (name, queue) in dead_letter_queues.into_iter().chain(sources) {
        let mut attributes = queue.attributes();
        for (function, timeout) in consumers {
            if function.mapping.queue() == name {
                attributes.visibility_timeout = 6 * timeout + function.mapping.window;
            }
        }
        if let Some(redrive) = attributes.redrive.as_mut()
            && options.faults.any()
        {
            let max = redrive.receives_max;
            redrive.receives_max = max.max(planner::local::RECEIVES_MAX_FAULTS);
        }
        sqs.create_queue(name, attributes)?;
    }
    Ok(())
}
