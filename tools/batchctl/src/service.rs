//! The running stack, as the commands use it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws::{
    AwsOverflowStore, BatchCatalogue, DynamoBatchCatalogue, DynamoBatchStore, DynamoLockStore,
    DynamoNamedItems, DynamoObjectStore, Sdk, SqsBatchQueue, SystemClock, SystemEntropy,
};
use protocol::batch::BatchRecord;
use protocol::ids::{BatchId, SourceArn};
use protocol::pause::Pauses;
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::config::WriteMode;
use shared::named_items::Versioned;
use shared::ports::{
    BatchQueue, BatchStore, Clock, Entropy, LockItems, LockStore, NamedItems, ObjectStore,
    OverflowStore, PortError,
};
use shared::retry::{Budget, RequestPermits};
use stack::{Connection, Settings, StackArgs};

use crate::config_file;
use crate::failure::Failure;
use crate::ports::{MessageQueue, MessageQueues};

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
    /// Absent in the simulation, where nothing needs it.
    pub connection: Option<Connection>,
    pub lock_store: Arc<dyn LockStore>,
    pub lock_items: Arc<dyn LockItems>,
    pub batch_store: Arc<dyn BatchStore>,
    pub catalogue: Arc<dyn BatchCatalogue>,
    pub object_store: Arc<dyn ObjectStore>,
    pub named_items: Arc<dyn NamedItems>,
    pub overflow_store: Arc<dyn OverflowStore>,
    /// Absent if the stack does not say where it is.
    pub batch_queue: Option<Arc<dyn BatchQueue>>,
    pub queues: Arc<dyn MessageQueues>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub permits: RequestPermits,
    /// `DEDUP_WINDOW`.
    pub dedup_window: Duration,
}

/// The stores of loads, and of bodies that do not fit their lock items.
type ObjectStores = (Arc<dyn ObjectStore>, Arc<dyn OverflowStore>);

#[cfg(feature = "full")]
fn object_stores(connection: &Connection, batch_table: &str) -> ObjectStores {
    let table = DynamoObjectStore::new(connection.dynamodb.clone(), batch_table);
    let objects = aws::S3ObjectStore::of(connection.s3.clone(), table);
    let bodies = AwsOverflowStore::of(connection.s3.clone());
    (Arc::new(objects), Arc::new(bodies))
}

/// Objects in S3 are refused with the reason.
#[cfg(not(feature = "full"))]
fn object_stores(connection: &Connection, batch_table: &str) -> ObjectStores {
    let objects = DynamoObjectStore::new(connection.dynamodb.clone(), batch_table);
    // Needs an SDK if another crate of the executable has the feature `full`: then it is the one for S3.
    let sdk = Sdk::with_config(&connection.config, |name| std::env::var(name).ok());
    let bodies = AwsOverflowStore::new(&sdk, PATIENCE);
    (Arc::new(objects), Arc::new(bodies))
}

impl Service {
    /// Opens the stack of a command. `config` is its configuration file, if it is not where `CONFIG` says.
    ///
    /// # Errors
    /// The stack cannot be found, does not say where its tables are, or has a configuration file that cannot be read.
    pub async fn open(arguments: &StackArgs, config: Option<&Path>) -> Result<Service, Failure> {
        let (settings, connection) = Service::find(arguments, config).await?;
        Service::of(settings, connection)
    }

    /// Returns the settings of a stack with those of its configuration file, and clients of its services.
    ///
    /// # Errors
    /// The stack cannot be found, or has a configuration file that cannot be read.
    pub async fn find(
        arguments: &StackArgs,
        config: Option<&Path>,
    ) -> Result<(Settings, Connection), Failure> {
        let (mut settings, connection) = arguments.open().await?;
        if let Some(file) = config_file::read(&settings, &connection, config).await? {
            let functions = config_file::functions();
            let declared = functions.iter().flat_map(|(_, each)| &each.declared);
            settings.add(file.variables(declared));
        }
        Ok((settings, connection))
    }

    /// Returns the service of settings that have those of the configuration file too.
    ///
    /// # Errors
    /// The settings do not say where the tables are, or one of them is wrong.
    pub fn of(settings: Settings, connection: Connection) -> Result<Service, Failure> {
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
        let (object_store, overflow_store) = object_stores(&connection, &batch_table);
        let locks = DynamoLockStore::new(dynamodb.clone(), lock_table, index, WriteMode::Put);
        let locks = Arc::new(locks);
        let sqs = &connection.sqs;
        let batch_queue = settings.value("BATCH_QUEUE_URL").map(|url| {
            Arc::new(SqsBatchQueue::new(sqs.clone(), url.to_owned())) as Arc<dyn BatchQueue>
        });
        Ok(Service {
            lock_store: locks.clone(),
            lock_items: locks,
            batch_store: Arc::new(DynamoBatchStore::new(dynamodb.clone(), &batch_table)),
            catalogue: Arc::new(DynamoBatchCatalogue::new(dynamodb.clone(), &batch_table)),
            named_items: Arc::new(DynamoNamedItems::new(dynamodb.clone(), &batch_table)),
            object_store,
            overflow_store,
            batch_queue,
            queues: Arc::new(sqs.clone()),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            permits: RequestPermits::new(REQUESTS_MAX),
            dedup_window: Duration::from_secs(window_secs.unwrap_or(DEDUP_WINDOW_SECS)),
            settings,
            connection: Some(connection),
        })
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the time for one step: a few requests and their retries.
    pub fn budget(&self) -> Budget<'_> {
        Budget {
            clock: &*self.clock,
            entropy: &*self.entropy,
            stop_at: self.now() + PATIENCE,
        }
    }

    /// Returns an SDK for the adapters of sinks, with the region, credentials and endpoints of the stack.
    ///
    /// # Errors
    /// The stack is simulated.
    pub fn sdk(&self) -> Result<Sdk, Failure> {
        let variables = self.settings.clone();
        let config = &self.connection()?.config;
        Ok(Sdk::with_config(config, move |name| {
            let of_stack = variables.value(name).map(str::to_owned);
            of_stack.or_else(|| std::env::var(name).ok())
        }))
    }

    fn connection(&self) -> Result<&Connection, Failure> {
        let connection = self.connection.as_ref();
        connection.ok_or_else(|| Failure::Usage("no connection: the stack is simulated".to_owned()))
    }

    /// Returns a queue, whose URL a variable has.
    pub fn queue(&self, variable: &str, what: &str) -> Result<Box<dyn MessageQueue>, Failure> {
        Ok(self.queues.queue(self.required(variable, what)?))
    }

    pub fn batch_queue(&self) -> Result<&dyn BatchQueue, Failure> {
        self.required("BATCH_QUEUE_URL", "the URL of the batch queue")?;
        let queue = self.batch_queue.as_deref();
        Ok(queue.expect("there is one if its URL is known"))
    }

    /// Returns a setting.
    pub fn required(&self, variable: &str, what: &str) -> Result<String, Failure> {
        let mut problems = self.settings.problems();
        let value = problems.required(variable, what);
        Ok(problems.finish(value)?)
    }

    /// Returns the pauses, ended ones too.
    pub async fn pauses(&self) -> Result<Versioned<Pauses>, PortError> {
        let read = || self.named_items.get(&());
        self.budget().call(RetryPolicy::CONTROL, read).await
    }

    /// Returns the record of a batch; `None` if there is none.
    pub async fn record(&self, batch: BatchId) -> Result<Option<BatchRecord>, PortError> {
        self.batch_store.read(batch).await
    }

    /// Returns the record of a batch.
    ///
    /// # Errors
    /// Also [`Failure::NotFound`].
    pub async fn known_record(&self, batch: BatchId) -> Result<BatchRecord, Failure> {
        let record = self.record(batch).await?;
        record.ok_or_else(|| Failure::no_batch(batch))
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
    pub async fn input_arn(&self) -> Result<String, Failure> {
        if let Some(arn) = self.settings.value("INPUT_QUEUE_ARN") {
            return Ok(arn.to_owned());
        }
        let url = self.required("INPUT_QUEUE_URL", "the URL of the input queue")?;
        crate::receive::arn_of(&self.connection()?.sqs, &url).await
    }
}
