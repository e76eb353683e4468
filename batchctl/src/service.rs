//! The running stack, as the commands use it.

use std::path::Path;
use std::time::Duration;

use protocol::batch::BatchRecord;
use protocol::claim::LockItem;
use protocol::ids::{BatchId, EventId, SourceArn};
use protocol::pause::Pauses;
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::aws::{
    AwsOverflowStore, DynamoBatchCatalogue, DynamoBatchStore, DynamoChunkStore, DynamoLockStore,
    DynamoPauseStore, DynamoSequenceStore, DynamoTurnStore, S3ChunkStore, Sdk, SqsBatchQueue,
    SystemClock, SystemEntropy,
};
use shared::config::WriteMode;
use shared::ports::{BatchStore, Clock, LockStore, PauseStore, PortError};
use shared::retry::{Budget, RequestPermits};
use stack::{Connection, Settings, StackArgs};

use crate::config_file;
use crate::failure::Failure;

/// `DDB_BATCH_INDEX`, if it is not set.
const INDEX: &str = "batchId-index";
/// `DEDUP_WINDOW`, if it is not set.
const DEDUP_WINDOW_SECS: u64 = 3_600;
/// Requests in flight.
pub const REQUESTS_MAX: usize = 32;
/// How long retries of one step go on.
const PATIENCE: Duration = Duration::from_secs(60);
/// The text in `EVENT_ID_PREFIX` that stands for the source.
const SOURCE_IN_PREFIX: &str = "{source}";

/// The tables and queues of a stack, and the settings that the commands need.
pub struct Service {
    pub settings: Settings,
    pub connection: Connection,
    pub lock_store: DynamoLockStore,
    pub batch_store: DynamoBatchStore,
    pub catalogue: DynamoBatchCatalogue,
    pub chunk_store: S3ChunkStore,
    pub pause_store: DynamoPauseStore,
    pub sequence_store: DynamoSequenceStore,
    pub turn_store: DynamoTurnStore,
    pub overflow_store: AwsOverflowStore,
    pub permits: RequestPermits,
    /// `DEDUP_WINDOW`.
    pub dedup_window: Duration,
}

impl Service {
    /// Opens the stack of a command. `config` is its configuration file, if it is not where `CONFIG` says.
    ///
    /// # Errors
    /// The stack cannot be found, does not say where its tables are, or has a configuration file that cannot be read.
    pub async fn open(arguments: &StackArgs, config: Option<&Path>) -> Result<Service, Failure> {
        let (mut settings, connection) = arguments.open().await?;
        if let Some(file) = config_file::read(&settings, &connection, config).await? {
            let functions = config_file::functions();
            let declared = functions.iter().flat_map(|(_, each)| &each.declared);
            settings.add(file.variables(declared));
        }
        let mut problems = settings.problems();
        let lock_table = problems.required("DDB_LOCK_TABLE", "the name of the lock table");
        let batch_table = problems.required("DDB_BATCH_TABLE", "the name of the batch table");
        let window = settings.value("DEDUP_WINDOW");
        let window_secs = window.map_or(Ok(DEDUP_WINDOW_SECS), str::parse);
        if window_secs.is_err() {
            problems.wrong("DEDUP_WINDOW", window.unwrap_or_default(), "whole seconds");
        }
        problems.finish(())?;
        let dynamodb = &connection.dynamodb;
        let index = settings.value("DDB_BATCH_INDEX").unwrap_or(INDEX);
        let chunk_table = DynamoChunkStore::new(dynamodb.clone(), &batch_table);
        Ok(Service {
            lock_store: DynamoLockStore::new(dynamodb.clone(), lock_table, index, WriteMode::Put),
            batch_store: DynamoBatchStore::new(dynamodb.clone(), &batch_table),
            catalogue: DynamoBatchCatalogue::new(dynamodb.clone(), &batch_table),
            pause_store: DynamoPauseStore::new(dynamodb.clone(), &batch_table),
            sequence_store: DynamoSequenceStore::new(dynamodb.clone(), &batch_table),
            turn_store: DynamoTurnStore::new(dynamodb.clone(), &batch_table),
            chunk_store: S3ChunkStore::of(connection.s3.clone(), chunk_table),
            overflow_store: AwsOverflowStore::of(connection.s3.clone()),
            permits: RequestPermits::new(REQUESTS_MAX),
            dedup_window: Duration::from_secs(window_secs.unwrap_or(DEDUP_WINDOW_SECS)),
            settings,
            connection,
        })
    }

    pub fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Returns the time for one step: a few requests and their retries.
    pub fn budget(&self) -> Budget<'static> {
        Budget {
            clock: &SystemClock,
            entropy: &SystemEntropy,
            stop_at: self.now() + PATIENCE,
        }
    }

    /// Returns an SDK for the adapters of sinks, with the region, credentials and endpoints of the stack.
    pub fn sdk(&self) -> Sdk {
        let variables = self.settings.clone();
        Sdk::with_config(&self.connection.config, move |name| {
            let of_stack = variables.value(name).map(str::to_owned);
            of_stack.or_else(|| std::env::var(name).ok())
        })
    }

    /// Returns the batch queue.
    ///
    /// # Errors
    /// The stack does not say where it is.
    pub fn batch_queue(&self) -> Result<SqsBatchQueue, Failure> {
        let url = self.required("BATCH_QUEUE_URL", "the URL of the batch queue")?;
        Ok(SqsBatchQueue::new(self.connection.sqs.clone(), url))
    }

    /// Returns a setting.
    ///
    /// # Errors
    /// The stack does not have it.
    pub fn required(&self, variable: &str, what: &str) -> Result<String, Failure> {
        let mut problems = self.settings.problems();
        let value = problems.required(variable, what);
        Ok(problems.finish(value)?)
    }

    /// Returns the pauses, ended ones too.
    pub async fn pauses(&self) -> Result<Pauses, PortError> {
        let read = || self.pause_store.read();
        self.budget().call(RetryPolicy::CONTROL, read).await
    }

    /// Returns the record of a batch; `None` if there is none.
    pub async fn record(&self, batch: BatchId) -> Result<Option<BatchRecord>, PortError> {
        self.batch_store.read(batch).await
    }

    /// Returns the lock item of an event; `None` if there is none.
    pub async fn lock_item(&self, id: &EventId) -> Result<Option<LockItem>, PortError> {
        let mut items = self.lock_store.read(std::slice::from_ref(id)).await?;
        Ok(items.pop().flatten())
    }

    /// Returns the text that goes before the event ids of `source`, or of the input queue.
    ///
    /// # Errors
    /// The prefix names the source, and the ARN of the input queue cannot be found.
    pub async fn prefix(&self, source: Option<&SourceArn>) -> Result<String, Failure> {
        let prefix = self.settings.value("EVENT_ID_PREFIX").unwrap_or_default();
        if !prefix.contains(SOURCE_IN_PREFIX) {
            return Ok(prefix.to_owned());
        }
        let source = match source {
            Some(source) => source.as_str().to_owned(),
            None => self.input_arn().await?,
        };
        Ok(prefix.replace(SOURCE_IN_PREFIX, &source))
    }

    /// Returns the ARN of the input queue.
    ///
    /// # Errors
    /// The stack does not say which it is, or the queue cannot be reached.
    pub async fn input_arn(&self) -> Result<String, Failure> {
        if let Some(arn) = self.settings.value("INPUT_QUEUE_ARN") {
            return Ok(arn.to_owned());
        }
        let url = self.required("INPUT_QUEUE_URL", "the URL of the input queue")?;
        crate::receive::arn_of(&self.connection.sqs, &url).await
    }
}
