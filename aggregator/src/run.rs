//! The process of the Lambda function.

use std::sync::Arc;

use lambda_runtime::layers::TracingLayer;
use lambda_runtime::{LambdaEvent, Runtime, service_fn};
use once_cell::sync::OnceCell;
use protocol::time::Timestamp;
#[cfg(feature = "s3")]
use shared::aws::tell_overflow_retention;
use shared::aws::{
    AwsOverflowStore, DynamoBatchStore, DynamoLockStore, Sdk, SqsBatchQueue, SqsQuarantine,
    SqsSourceQueues, SystemClock, SystemEntropy, init_logs,
};
use shared::calls::attempt_timeout;
use tracing::info;

use crate::config::Config;
use crate::current::CurrentBatches;
use crate::event::Event;
use crate::handler::{Handler, Invocation, Ports};
use crate::payload::Payloads;

/// The current batches of this environment: they live as long as the process does, over all its invocations.
static CURRENT_BATCHES: OnceCell<Arc<CurrentBatches>> = OnceCell::new();

/// The index is the processor's; the aggregator never asks it.
const NO_INDEX: &str = "batchId-index";

/// The ports as they are on AWS.
struct AwsPorts {
    locks: DynamoLockStore,
    batches: DynamoBatchStore,
    tickets: SqsBatchQueue,
    quarantine: Option<SqsQuarantine>,
    sources: SqsSourceQueues,
    overflow: AwsOverflowStore,
    clock: SystemClock,
    entropy: SystemEntropy,
}

impl Ports for AwsPorts {
    type Locks = DynamoLockStore;
    type Batches = DynamoBatchStore;
    type Tickets = SqsBatchQueue;
    type Quarantine = SqsQuarantine;
    type Sources = SqsSourceQueues;
    type Overflow = AwsOverflowStore;
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
    fn sources(&self) -> &SqsSourceQueues {
        &self.sources
    }
    fn overflow(&self) -> &AwsOverflowStore {
        &self.overflow
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

fn ports(config: &Config, sdk: &Sdk) -> AwsPorts {
    let common = &config.common;
    let attempt = attempt_timeout(common.deadline_margin);
    let (dynamodb, sqs) = (sdk.dynamodb(attempt), sdk.sqs(attempt));
    AwsPorts {
        locks: DynamoLockStore::new(
            dynamodb.clone(),
            &common.lock_table,
            NO_INDEX,
            common.write_mode,
        ),
        batches: DynamoBatchStore::new(dynamodb, &common.batch_table),
        tickets: SqsBatchQueue::new(sqs.clone(), &common.batch_queue_url),
        quarantine: config
            .quarantine_url
            .as_ref()
            .map(|url| SqsQuarantine::new(sqs.clone(), url)),
        sources: SqsSourceQueues::new(sqs),
        overflow: AwsOverflowStore::new(sdk, attempt),
        clock: SystemClock,
        entropy: SystemEntropy,
    }
}

/// Runs the function until Lambda ends the process.
///
/// # Errors
/// A wrong configuration, with all its problems; or the Runtime API failing.
pub async fn run() -> Result<(), lambda_runtime::Error> {
    init_logs();
    let config = Config::read(&|name| std::env::var(name).ok())?;
    info!(?config, "configuration");
    let sdk = Sdk::from_env(config.common.write_concurrency);
    #[cfg(feature = "s3")]
    if let Some(bucket) = &config.overflow_bucket {
        // Beside the first invocation, which does not wait for it.
        tokio::spawn(tell_overflow_retention(sdk.clone(), bucket.clone()));
    }
    let ports = ports(&config, &sdk);
    let current = CURRENT_BATCHES
        .get_or_init(|| Arc::new(CurrentBatches::new(config.limits)))
        .clone();
    let handler = Arc::new(Handler::new(config, ports, current));
    let payloads = Payloads::default();
    let aside = payloads.clone();
    let function = service_fn(move |event: LambdaEvent<u64>| {
        let handler = handler.clone();
        let payload = aside.take(event.payload);
        async move {
            let invocation = Invocation {
                function: event.context.env_config.function_name.clone(),
                deadline: Timestamp::from_ms(event.context.deadline),
            };
            let event = Event::parse(&payload)?;
            drop(payload);
            handler.handle(event, &invocation).await
        }
    });
    Runtime::new(function)
        .layer(payloads)
        .layer(TracingLayer::new())
        .run_concurrent()
        .await
}
