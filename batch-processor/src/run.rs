//! The process of the Lambda function.

use std::sync::Arc;

use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use protocol::time::Timestamp;
use shared::aws::{
    AwsOverflowStore, DynamoBatchStore, DynamoLockStore, Sdk, SqsBatchQueue, SqsQuarantine,
    SystemClock, SystemEntropy, init_logs,
};
use shared::calls::attempt_timeout;
use sinks::columns_source::with_columns;
use sinks::config::{
    SINK, SINK_PASSWORD, SINK_PAYLOADS, SINK_REJECTS, SINK_SECRET, SINK_SECRET_HEADER, SINK_TABLE,
};
use sinks::{BuiltInSink, Sink};
use tracing::info;

use crate::config::Config;
use crate::handler::{Handler, Invocation, Ports};

/// What only the sinks that ship are told.
const BUILT_IN: [&str; 7] = [
    SINK.name,
    SINK_REJECTS.name,
    SINK_PAYLOADS.name,
    SINK_SECRET.name,
    SINK_SECRET_HEADER.name,
    SINK_TABLE.name,
    SINK_PASSWORD.name,
];

/// The ports as they are on AWS, with any sink.
struct AwsPorts<S> {
    locks: DynamoLockStore,
    batches: DynamoBatchStore,
    tickets: SqsBatchQueue,
    quarantine: Option<SqsQuarantine>,
    overflow: AwsOverflowStore,
    sink: S,
    clock: SystemClock,
    entropy: SystemEntropy,
}

impl<S: Sink> Ports for AwsPorts<S> {
    type Locks = DynamoLockStore;
    type Batches = DynamoBatchStore;
    type Tickets = SqsBatchQueue;
    type Quarantine = SqsQuarantine;
    type Overflow = AwsOverflowStore;
    type Sink = S;
    type Clock = SystemClock;
    type Entropy = SystemEntropy;

    fn locks(&self) -> &DynamoLockStore {
        &self.locks
    }
    fn batches(&self) -> &DynamoBatchStore {
        &self.batches
    }
    fn tickets(&self) -> &SqsBatchQueue {
        &self.tickets
    }
    fn quarantine(&self) -> Option<&SqsQuarantine> {
        self.quarantine.as_ref()
    }
    fn overflow(&self) -> &AwsOverflowStore {
        &self.overflow
    }
    fn sink(&self) -> &S {
        &self.sink
    }
    fn clock(&self) -> &SystemClock {
        &self.clock
    }
    fn entropy(&self) -> &SystemEntropy {
        &self.entropy
    }
    fn emit(&self, line: &str) {
        println!("{line}");
    }
}

/// Runs the function with the sink that `SINK` names, until Lambda ends the process.
///
/// # Errors
/// A wrong configuration, with all its problems; or the Runtime API failing.
pub async fn run() -> Result<(), lambda_runtime::Error> {
    let config = start(&|name| std::env::var(name).ok()).await?;
    let sdk = sdk(&config);
    let sink = BuiltInSink::new(&config.sink, &sdk)?;
    serve(config, &sdk, sink).await
}

/// Runs the function with a sink of your own; `SINK`, `SINK_REJECTS`, `SINK_PAYLOADS`, `SINK_SECRET`,
/// `SINK_SECRET_HEADER`, `SINK_TABLE` and `SINK_PASSWORD` are then not read.
///
/// # Errors
/// As [`run`].
pub async fn run_with<S: Sink>(sink: S) -> Result<(), lambda_runtime::Error> {
    let config = start(&|name| {
        if BUILT_IN.contains(&name) {
            None
        } else {
            std::env::var(name).ok()
        }
    })
    .await?;
    let sdk = sdk(&config);
    serve(config, &sdk, sink).await
}

async fn start(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Config, lambda_runtime::Error> {
    init_logs();
    let config = with_columns(lookup, |lookup| Config::read(lookup)).await?;
    info!(?config, "configuration");
    Ok(config)
}

fn sdk(config: &Config) -> Sdk {
    Sdk::from_env(config.common.write_concurrency)
}

async fn serve<S: Sink>(config: Config, sdk: &Sdk, sink: S) -> Result<(), lambda_runtime::Error> {
    let common = &config.common;
    let attempt = attempt_timeout(common.deadline_margin);
    let (dynamodb, sqs) = (sdk.dynamodb(attempt), sdk.sqs(attempt));
    let ports = AwsPorts {
        locks: DynamoLockStore::new(
            dynamodb.clone(),
            &common.lock_table,
            &config.index,
            common.write_mode,
        ),
        batches: DynamoBatchStore::new(dynamodb.client().clone(), &common.batch_table),
        tickets: SqsBatchQueue::new(sqs.clone(), &common.batch_queue_url),
        quarantine: config
            .quarantine_url
            .as_ref()
            .map(|url| SqsQuarantine::new(sqs, url)),
        overflow: AwsOverflowStore::new(sdk, attempt),
        sink,
        clock: SystemClock,
        entropy: SystemEntropy,
    };
    let handler = Arc::new(Handler::new(config, ports));
    lambda_runtime::run_concurrent(service_fn(move |event: LambdaEvent<_>| {
        let handler = handler.clone();
        async move {
            let invocation = Invocation {
                function: event.context.env_config.function_name.clone(),
                request_id: event.context.request_id.clone(),
                deadline: Timestamp::from_ms(event.context.deadline),
            };
            handler
                .handle(event.payload, &invocation)
                .await
                .map_err(Diagnostic::from)
        }
    }))
    .await
}
