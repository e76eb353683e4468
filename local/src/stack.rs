//! The stack: tables, queues, functions and mappings of the template that is deployed, on loopback ports of their own.

mod measure;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "s3")]
use aggregator::config::OVERFLOW_BUCKET;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use aws_types::SdkConfig;
use emulators::lambda::{
    EventSourceMapping, Function, FunctionConfig, LogLine, LogSink, MappingConfig, REGION,
};
#[cfg(feature = "s3")]
use emulators::s3::S3;
use emulators::sqs::Sqs;
use tokio::sync::oneshot;

use crate::call::Service;
use crate::deploy::{self, AGGREGATOR, BATCH_PROCESSOR, Endpoints, queue_url};
use crate::dynamodb::{BATCH_TABLE, DynamoDb, create_table};
use crate::faults::{EnvironmentFaults, Faults, SinkGate};
use crate::function_logs::FunctionLogs;
use crate::ledger::{Action, Meter};
use crate::options::StackOptions;
use crate::proxy::Proxy;
use crate::redeploys::Redeploys;
use crate::schedule::Schedule;
use crate::sink::{SinkHost, SinkKind};
use crate::template::{self, Resources};

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
        let sqs = Sqs::new();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let sqs_endpoint = format!("http://{}", listener.local_addr()?);
        let tables = deploy::resources(options, &sqs_endpoint)?.tables;
        let faults = Arc::new(Faults::new(&options.faults, tables.get(BATCH_TABLE))?);
        let errors = faults.sink_errors();
        let sink = SinkHost::start(options.sink, options.out.as_deref(), &errors).await?;
        let out = sink.out().to_owned();
        let sink_gate = match options.sink {
            SinkKind::File => faults.sink_gate(&out, sink.work())?,
            _ => None,
        };
        let dynamodb = DynamoDb::start().await?;
        let config = sdk_config(&dynamodb.endpoint());
        let client = aws_sdk_dynamodb::Client::new(&config);

        #[cfg(feature = "s3")]
        if let Some(bucket) = options.variables.get(OVERFLOW_BUCKET.name) {
            sink.s3().create_bucket(bucket);
        }
        let (sqs_stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(sqs.clone().serve(listener, async {
            let _ = stopped.await;
        }));
        let sqs_client = aws_sdk_sqs::Client::new(&sdk_config(&sqs_endpoint));

        let endpoints = Endpoints {
            dynamodb: dynamodb.endpoint(),
            sqs: sqs_endpoint,
            #[cfg(feature = "s3")]
            s3: sink.s3().endpoint(),
        };
        let meter = Arc::new(Meter::default());
        let in_front_of = |service, endpoint, strikes| {
            Proxy::start(service, endpoint, Arc::clone(&meter), strikes)
        };
        let mut proxies = vec![
            in_front_of(Service::DynamoDb, &endpoints.dynamodb, faults.on_dynamodb()).await?,
            in_front_of(Service::Sqs, &endpoints.sqs, faults.on_requests()).await?,
        ];
        #[cfg(feature = "s3")]
        proxies.push(in_front_of(Service::S3, &endpoints.s3, faults.on_requests()).await?);
        let seen_by_functions = Endpoints {
            dynamodb: proxies[0].endpoint(),
            sqs: proxies[1].endpoint(),
            #[cfg(feature = "s3")]
            s3: proxies[2].endpoint(),
        };
        let mut receiver = None;
        if let Some(endpoint) = sink.receiver_endpoint() {
            let proxy = in_front_of(Service::Http, &endpoint, faults.on_requests()).await?;
            receiver = Some(proxy.endpoint());
            proxies.push(proxy);
        }
        let directory = sink_gate.as_ref().map_or(out.as_path(), SinkGate::path);
        let sink_variables = sink.variables(directory, receiver.as_deref());
        let resources = deploy::resources(options, &seen_by_functions.sqs)?;
        for (name, table) in &resources.tables {
            create_table(&client, name, table).await?;
        }
        create_queues(&sqs, &resources, options)?;
        for queue in [INPUT_QUEUE, BATCH_QUEUE] {
            sqs.set_repeats(queue, faults.repeats(queue))?;
        }

        let functions =
            deploy::functions(options, &resources, &seen_by_functions, &sink_variables)?;
        let mut variables = functions.batch_processor.variables.clone();
        variables.extend(functions.aggregator.variables.clone());
        let function_logs = FunctionLogs::default();
        let function = |config: FunctionConfig, kills| {
            let (watch, show) = (Arc::clone(&watch), function_logs.sink(options.logs));
            let heard = Arc::clone(&faults);
            let logs = move |line: &LogLine| {
                heard.heard(&line.text);
                watch(line);
                show(line);
            };
            let credentials = faults.credentials();
            let faults = EnvironmentFaults { kills, credentials };
            Function::with_faults(config, Arc::new(logs), Arc::new(faults))
        };
        let aggregator = function(functions.aggregator, faults.aggregator_kills());
        let batch_processor = function(functions.batch_processor, faults.batch_processor_kills());
        let mapping = |deployed: &template::Mapping, batch_size, concurrency_max| MappingConfig {
            queue: deployed.queue().to_owned(),
            batch_size,
            window: deployed.window,
            concurrency_max,
            report_batch_item_failures: deployed.reports_batch_item_failures(),
        };
        let input = &resources.function(AGGREGATOR)?.mapping;
        let input_mapping = EventSourceMapping::start(
            sqs.clone(),
            aggregator.clone(),
            mapping(input, options.batch_size, options.aggregators),
        )?;
        let tickets = &resources.function(BATCH_PROCESSOR)?.mapping;
        let batch_mapping = EventSourceMapping::start(
            sqs.clone(),
            batch_processor.clone(),
            mapping(tickets, tickets.batch_size, options.batch_processors),
        )?;
        let schedule = options
            .sweep_every
            .map(|every| Schedule::start(batch_processor.clone(), every));
        let redeploys = Redeploys::start(
            &options.faults.redeploys,
            [aggregator.clone(), batch_processor.clone()],
            Arc::clone(&faults),
        );
        faults.timeline().begin();
        Ok(Stack {
            sqs,
            aggregator,
            batch_processor,
            input_mapping,
            batch_mapping,
            function_logs,
            out,
            faults,
            variables,
            redeploys,
            endpoints,
            sqs_client,
            schedule,
            batches: shared::aws::DynamoBatchStore::new(client, BATCH_TABLE),
            meter,
            architecture: resources.function(AGGREGATOR)?.architecture.clone(),
            _dynamodb: dynamodb,
            _sqs_stop: sqs_stop,
            _proxies: proxies,
            _sink_gate: sink_gate,
            sink,
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

fn sdk_config(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new("local", "local", None, None, "local");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(endpoint)
        .build()
}
