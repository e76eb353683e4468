//! The stack: tables, queues, functions and mappings of the template that is deployed, on loopback ports of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use aggregator::config::OVERFLOW_BUCKET;
use anyhow::Context;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::config::Credentials;
use batch_processor::sink::directory_of;
use shared::ports::BatchStore;
use shared::protocol::batch::Status;
use shared::time::Timestamp;
use tokio::sync::oneshot;

use crate::dynamodb::{BATCH_TABLE, DynamoDb, create_table};
use crate::faults::{Faults, SinkDown};
use crate::lambda::{
    Bootstrap, EventSourceMapping, Function, FunctionConfig, LogLine, LogSink, MappingConfig,
    REGION,
};
use crate::latency::{Delivered, Latencies, delivered_at};
use crate::ledger::{Bill, FunctionBill, Ledger, Meter};
use crate::options::StackOptions;
use crate::proxy::{Proxy, Service};
use crate::s3::S3;
use crate::schedule::Schedule;
use crate::sink::{SinkHost, SinkReport};
use crate::sqs::Sqs;
use crate::taps::Taps;
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
    pub taps: Taps,
    /// Where the parts are.
    pub out: PathBuf,
    /// What has gone wrong on purpose.
    pub faults: Arc<Faults>,
    variables: BTreeMap<String, String>,
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
    _sink_down: Option<SinkDown>,
    sink: SinkHost,
}

/// Where the services themselves listen, without what may be in front of them.
struct Endpoints {
    dynamodb: String,
    sqs: String,
    s3: String,
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
        let faults = Arc::new(Faults::new(&options.faults));
        let errors = faults.sink_errors();
        let sink = SinkHost::start(options.sink, options.out.as_deref(), &errors).await?;
        let out = sink.out().to_owned();
        let sink_down = options
            .faults
            .sink_down
            .map(|time| SinkDown::start(&out, time))
            .transpose()?;
        let dynamodb = DynamoDb::start().await?;
        let config = sdk_config(&dynamodb.endpoint()).await;
        let client = aws_sdk_dynamodb::Client::new(&config);

        if let Some(bucket) = options.variables.get(OVERFLOW_BUCKET) {
            sink.s3().create_bucket(bucket);
        }
        let sqs = Sqs::new();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let sqs_endpoint = format!("http://{}", listener.local_addr()?);
        let (sqs_stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(sqs.clone().serve(listener, async {
            let _ = stopped.await;
        }));
        let sqs_client = aws_sdk_sqs::Client::new(&sdk_config(&sqs_endpoint).await);

        let endpoints = Endpoints {
            dynamodb: dynamodb.endpoint(),
            sqs: sqs_endpoint,
            s3: sink.s3().endpoint(),
        };
        let meter = Arc::new(Meter::default());
        let in_front_of = |service, endpoint, strikes| {
            Proxy::start(service, endpoint, Arc::clone(&meter), strikes)
        };
        let mut proxies = vec![
            in_front_of(Service::DynamoDb, &endpoints.dynamodb, faults.on_dynamodb()).await?,
            in_front_of(Service::Sqs, &endpoints.sqs, faults.on_requests()).await?,
            in_front_of(Service::S3, &endpoints.s3, faults.on_requests()).await?,
        ];
        let seen_by_functions = Endpoints {
            dynamodb: proxies[0].endpoint(),
            sqs: proxies[1].endpoint(),
            s3: proxies[2].endpoint(),
        };
        let mut receiver = None;
        if let Some(endpoint) = sink.receiver_endpoint() {
            let proxy = in_front_of(Service::Http, &endpoint, faults.on_requests()).await?;
            receiver = Some(proxy.endpoint());
            proxies.push(proxy);
        }
        let sink_variables = sink.variables(receiver.as_deref());
        let parameters = options.template.parameters_for(&options.variables);
        let resources = options.template.resolve(&parameters, &|queue| {
            queue_url(&seen_by_functions.sqs, queue)
        })?;
        for (name, table) in &resources.tables {
            create_table(&client, name, table).await?;
        }
        create_queues(&sqs, &resources, options)?;
        for queue in [INPUT_QUEUE, BATCH_QUEUE] {
            sqs.set_repeats(queue, faults.repeats(queue))?;
        }

        let changed = changed_variables(options, &seen_by_functions, sink_variables);
        let taps = Taps::default();
        let function = |deployed: &template::Function,
                        name: &str,
                        bootstrap: &Bootstrap,
                        timeout,
                        concurrency,
                        kills| {
            let mut variables = deployed.variables.clone();
            variables.extend(changed.clone());
            let config = FunctionConfig {
                name: name.to_owned(),
                bootstrap: bootstrap.clone(),
                variables,
                timeout,
                memory_mb: deployed.memory_mb,
                concurrency_per_environment: concurrency,
            };
            let (watch, show) = (Arc::clone(&watch), taps.sink(options.logs));
            let faults = Arc::clone(&faults);
            let logs = move |line: &LogLine| {
                faults.heard(&line.text);
                watch(line);
                show(line);
            };
            Function::with_kills(config, Arc::new(logs), kills)
        };
        let deployed_aggregator = resources.function("aggregator")?;
        let aggregator = function(
            deployed_aggregator,
            "aggregator",
            &options.aggregator,
            options.aggregator_timeout,
            options.concurrency_per_environment,
            faults.aggregator_kills(),
        );
        let deployed_batch_processor = resources.function("batch-processor")?;
        let batch_processor = function(
            deployed_batch_processor,
            "batch-processor",
            &options.batch_processor,
            options.batch_processor_timeout,
            1,
            faults.batch_processor_kills(),
        );
        let mapping = |deployed: &template::Mapping, batch_size, concurrency_max| MappingConfig {
            queue: deployed.queue().to_owned(),
            batch_size,
            window: deployed.window,
            concurrency_max,
            report_batch_item_failures: deployed.reports_batch_item_failures(),
        };
        let input = &deployed_aggregator.mapping;
        let input_mapping = EventSourceMapping::start(
            sqs.clone(),
            aggregator.clone(),
            mapping(input, options.batch_size, options.aggregators),
        )?;
        let tickets = &deployed_batch_processor.mapping;
        let batch_mapping = EventSourceMapping::start(
            sqs.clone(),
            batch_processor.clone(),
            mapping(tickets, tickets.batch_size, options.batch_processors),
        )?;
        let mut variables = deployed_batch_processor.variables.clone();
        variables.extend(deployed_aggregator.variables.clone());
        variables.extend(changed);
        let schedule = options
            .sweep_every
            .map(|every| Schedule::start(batch_processor.clone(), every));
        Ok(Stack {
            sqs,
            aggregator,
            batch_processor,
            input_mapping,
            batch_mapping,
            taps,
            out,
            faults,
            variables,
            endpoints,
            sqs_client,
            schedule,
            batches: shared::aws::DynamoBatchStore::new(client, BATCH_TABLE),
            meter,
            architecture: deployed_aggregator.architecture.clone(),
            _dynamodb: dynamodb,
            _sqs_stop: sqs_stop,
            _proxies: proxies,
            _sink_down: sink_down,
            sink,
        })
    }

    /// A client for the queues.
    pub fn sqs_client(&self) -> &aws_sdk_sqs::Client {
        &self.sqs_client
    }

    /// The S3 stand-in, to which buckets can be added.
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

    /// How many batches have each status; complete ones have none.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn batches_by_status(&self) -> anyhow::Result<BTreeMap<Status, usize>> {
        let mut counts = BTreeMap::new();
        for status in Status::ALL {
            let records = self
                .batches
                .overdue(status, Timestamp::FAR_FUTURE, 10_000)
                .await
                .context("read the batch table")?;
            counts.insert(status, records.len());
        }
        Ok(counts)
    }

    /// What everything so far has cost, for so many messages, so many of them unique.
    pub fn ledger(&self, sent: u64, unique: u64) -> Ledger {
        let functions = [
            ("aggregator", &self.aggregator),
            ("batch-processor", &self.batch_processor),
        ];
        let [input, tickets] =
            [&self.input_mapping, &self.batch_mapping].map(EventSourceMapping::requests);
        let bill = Bill {
            counts: self.meter.counts(),
            mappings: vec![
                ("ReceiveMessage", input.receives.and(tickets.receives)),
                ("DeleteMessageBatch", input.deletes.and(tickets.deletes)),
            ],
            functions: functions
                .map(|(name, function)| {
                    let memory_mb = function.config().memory_mb;
                    FunctionBill::new(name, &function.stats(), memory_mb, &self.architecture)
                })
                .into(),
        };
        bill.ledger(sent, unique)
    }

    /// Brings the parts to [`out`](Self::out), if the sink has them elsewhere.
    ///
    /// # Errors
    /// As [`SinkHost::bring_out`].
    pub async fn bring_out(&self) -> anyhow::Result<()> {
        self.sink.bring_out().await
    }

    /// What the sink has taken so far.
    pub fn sink_report(&self) -> SinkReport {
        self.sink.report()
    }

    /// How long the batches took that the sink has, where every body has so many bytes.
    ///
    /// # Errors
    /// When the batch table or the sink's directory cannot be read, or a limit is no number.
    pub async fn latencies(&self, body_bytes: usize) -> anyhow::Result<Latencies> {
        let limit = |name: &str| -> anyhow::Result<u64> {
            let value = self.variable(name).unwrap_or_default();
            value.parse().with_context(|| format!("{name}=`{value}`"))
        };
        let bytes_max = limit("MAX_BATCH_BYTES")?;
        let items_max = limit("MAX_BATCH_SIZE")?.min(bytes_max / body_bytes.max(1) as u64);
        let mut delivered = Vec::new();
        for (batch, claimed_at) in self.meter.counts().last_claims {
            let record = self.batches.read(batch).await;
            let record = record.context("read the batch table")?;
            let batch_key = record.as_ref().and_then(|record| record.batch_key.as_ref());
            let directory = self.out.join(directory_of(batch, batch_key));
            let Some(delivered_at) = delivered_at(&directory)? else {
                continue;
            };
            delivered.push(Delivered {
                // The kernel's clock of files may be a tick behind.
                latency: delivered_at.duration_since(claimed_at).unwrap_or_default(),
                // A place whose claim is uncertain is taken as well.
                full: record.is_some_and(|record| {
                    record.sealed_at.is_some() && record.confirmed + record.uncertain >= items_max
                }),
            });
        }
        Ok(Latencies::of(&delivered))
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
        self.input_mapping.stop().await;
        self.batch_mapping.stop().await;
        self.aggregator.shutdown().await;
        self.batch_processor.shutdown().await;
    }
}

fn queue_url(endpoint: &str, queue: &str) -> String {
    format!("{endpoint}/{}/{queue}", crate::lambda::ACCOUNT_ID)
}

/// The variables that differ from the template's: what is of this machine, then what was asked for.
fn changed_variables(
    options: &StackOptions,
    Endpoints { dynamodb, sqs, s3 }: &Endpoints,
    sink: Vec<(&'static str, String)>,
) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<String, String> = [
        ("AWS_ENDPOINT_URL_DYNAMODB", dynamodb.clone()),
        ("AWS_ENDPOINT_URL_SQS", sqs.clone()),
        ("AWS_ENDPOINT_URL_S3", s3.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    variables.extend(
        sink.into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    variables.extend(options.variables.clone());
    variables
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
        (
            resources.function("aggregator")?,
            options.aggregator_timeout,
        ),
        (
            resources.function("batch-processor")?,
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

async fn sdk_config(endpoint: &str) -> aws_config::SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(endpoint)
        .load()
        .await
}
