//! The stack: tables, queues, functions and mappings, as they are deployed, on loopback ports of their own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::config::Credentials;
use shared::ports::BatchStore;
use shared::protocol::batch::Status;
use shared::time::Timestamp;
use tokio::sync::oneshot;

use crate::dynamodb::{BATCH_INDEX, BATCH_TABLE, DynamoDb, LOCK_TABLE, create_tables};
use crate::lambda::{
    EventSourceMapping, Function, FunctionConfig, LogLine, LogSink, MappingConfig, REGION,
};
use crate::options::StackOptions;
use crate::sqs::{QueueAttributes, Redrive, Sqs};
use crate::taps::Taps;

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

/// Window of the aggregator's mapping: what more than 10 records need.
const BATCH_WINDOW: Duration = Duration::from_secs(1);
/// Receives before a message is given up.
const RECEIVES_MAX: u32 = 5;
/// The same where duplicates wait in the queue: each visibility timeout they wait is one receive.
const RECEIVES_MAX_REQUEUE: u32 = 1_000;
/// Configured memory of both functions.
const MEMORY_MB: u32 = 1_769;
/// Longest retention, so that a dead letter outlives the queue it came from.
const RETENTION_MAX: Duration = Duration::from_secs(14 * 24 * 3_600);

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
    /// Where the file sink writes.
    pub out: PathBuf,
    variables: BTreeMap<String, String>,
    sqs_client: aws_sdk_sqs::Client,
    batches: shared::aws::DynamoBatchStore,
    _dynamodb: DynamoDb,
    _sqs_stop: oneshot::Sender<()>,
    _temporary: Option<tempfile::TempDir>,
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
        let (out, temporary) = match &options.out {
            Some(out) => (std::path::absolute(out)?, None),
            None => {
                let temporary = tempfile::Builder::new().prefix("batches-").tempdir()?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let dynamodb = DynamoDb::start().await?;
        let config = sdk_config(&dynamodb.endpoint()).await;
        let client = aws_sdk_dynamodb::Client::new(&config);
        create_tables(&client).await?;

        let sqs = Sqs::new();
        create_queues(&sqs, options)?;
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let sqs_endpoint = format!("http://{}", listener.local_addr()?);
        let (sqs_stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(sqs.clone().serve(listener, async {
            let _ = stopped.await;
        }));
        let sqs_client = aws_sdk_sqs::Client::new(&sdk_config(&sqs_endpoint).await);

        let variables = variables(options, &dynamodb.endpoint(), &sqs_endpoint, &out);
        let taps = Taps::default();
        let function = |name: &str, bootstrap: &crate::lambda::Bootstrap, timeout, concurrency| {
            let config = FunctionConfig {
                name: name.to_owned(),
                bootstrap: bootstrap.clone(),
                variables: variables.clone(),
                timeout,
                memory_mb: MEMORY_MB,
                concurrency_per_environment: concurrency,
            };
            let (watch, show) = (Arc::clone(&watch), taps.sink(options.logs));
            let logs = move |line: &LogLine| {
                watch(line);
                show(line);
            };
            Function::new(config, Arc::new(logs))
        };
        let concurrency = options.concurrency_per_environment;
        let aggregator = function(
            "aggregator",
            &options.aggregator,
            options.aggregator_timeout,
            concurrency,
        );
        let batch_processor = function(
            "batch-processor",
            &options.batch_processor,
            options.batch_processor_timeout,
            1,
        );
        let input_mapping = EventSourceMapping::start(
            sqs.clone(),
            aggregator.clone(),
            MappingConfig {
                queue: INPUT_QUEUE.to_owned(),
                batch_size: options.batch_size,
                window: BATCH_WINDOW,
                concurrency_max: options.aggregators,
                report_batch_item_failures: true,
            },
        )?;
        let batch_mapping = EventSourceMapping::start(
            sqs.clone(),
            batch_processor.clone(),
            MappingConfig {
                queue: BATCH_QUEUE.to_owned(),
                batch_size: 1,
                window: Duration::ZERO,
                concurrency_max: options.batch_processors,
                report_batch_item_failures: true,
            },
        )?;
        Ok(Stack {
            sqs,
            aggregator,
            batch_processor,
            input_mapping,
            batch_mapping,
            taps,
            out,
            variables,
            sqs_client,
            batches: shared::aws::DynamoBatchStore::new(client, BATCH_TABLE),
            _dynamodb: dynamodb,
            _sqs_stop: sqs_stop,
            _temporary: temporary,
        })
    }

    /// A client for the queues.
    pub fn sqs_client(&self) -> &aws_sdk_sqs::Client {
        &self.sqs_client
    }

    /// URL of a queue.
    pub fn queue_url(&self, queue: &str) -> String {
        queue_url(&self.variables["AWS_ENDPOINT_URL_SQS"], queue)
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

    /// What another client needs, as shell variables.
    pub fn describe(&self) -> String {
        let mut lines = vec![
            "# The stack is up; Ctrl-C stops it. Variables for another client:".to_owned(),
            format!("export INPUT_QUEUE_URL={}", self.queue_url(INPUT_QUEUE)),
        ];
        lines.extend(
            self.variables
                .iter()
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
        lines.push(format!("# Batches are written to {}", self.out.display()));
        lines.join("\n")
    }

    /// Stops everything; returns when every child process is gone.
    pub async fn stop(&self) {
        self.input_mapping.stop().await;
        self.batch_mapping.stop().await;
        self.aggregator.shutdown().await;
        self.batch_processor.shutdown().await;
    }
}

fn queue_url(endpoint: &str, queue: &str) -> String {
    format!("{endpoint}/{}/{queue}", crate::lambda::ACCOUNT_ID)
}

/// The variables of both functions: what the stack knows, then what was asked for.
fn variables(
    options: &StackOptions,
    dynamodb: &str,
    sqs: &str,
    out: &Path,
) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<String, String> = [
        ("AWS_ENDPOINT_URL_DYNAMODB", dynamodb.to_owned()),
        ("AWS_ENDPOINT_URL_SQS", sqs.to_owned()),
        ("DDB_LOCK_TABLE", LOCK_TABLE.to_owned()),
        ("DDB_BATCH_TABLE", BATCH_TABLE.to_owned()),
        ("DDB_BATCH_INDEX", BATCH_INDEX.to_owned()),
        ("BATCH_QUEUE_URL", queue_url(sqs, BATCH_QUEUE)),
        ("QUARANTINE_SQS_URL", queue_url(sqs, QUARANTINE_QUEUE)),
        ("SINK", format!("file://{}", out.display())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    variables.extend(options.variables.clone());
    variables
}

fn create_queues(sqs: &Sqs, options: &StackOptions) -> anyhow::Result<()> {
    let requeue = options
        .variables
        .get("ON_DUPLICATE")
        .is_some_and(|rule| rule == "requeue");
    let kept = || QueueAttributes {
        retention: RETENTION_MAX,
        ..QueueAttributes::default()
    };
    for queue in [
        INPUT_DEAD_LETTER_QUEUE,
        BATCH_DEAD_LETTER_QUEUE,
        QUARANTINE_QUEUE,
    ] {
        sqs.create_queue(queue, kept())?;
    }
    // AWS's rule: six times the function's timeout, and the mapping's window.
    // Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
    let fed = |timeout: Duration, window: Duration, dead_letter_queue: &str, receives_max| {
        QueueAttributes {
            visibility_timeout: 6 * timeout + window,
            redrive: Some(Redrive {
                dead_letter_queue: dead_letter_queue.to_owned(),
                receives_max,
            }),
            ..QueueAttributes::default()
        }
    };
    let receives_max = if requeue {
        RECEIVES_MAX_REQUEUE
    } else {
        RECEIVES_MAX
    };
    let input = fed(
        options.aggregator_timeout,
        BATCH_WINDOW,
        INPUT_DEAD_LETTER_QUEUE,
        receives_max,
    );
    sqs.create_queue(INPUT_QUEUE, input)?;
    let batch = fed(
        options.batch_processor_timeout,
        Duration::ZERO,
        BATCH_DEAD_LETTER_QUEUE,
        RECEIVES_MAX,
    );
    sqs.create_queue(BATCH_QUEUE, batch)?;
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
