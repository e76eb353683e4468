//! DynamoDB in memory, over HTTP, on a thread of its own: its engine works on the calling thread, and would otherwise
//! stall the queue server and the Lambda host.

use std::net::SocketAddr;
use std::thread::JoinHandle;

use anyhow::Context;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};
use dynoxide::Database;
use shared::aws::STATUS_INDEX;
use tokio::sync::oneshot;

/// A running stand-in for DynamoDB.
pub struct DynamoDb {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DynamoDb {
    /// Starts one with no tables, on a loopback port of its own.
    ///
    /// # Errors
    /// When the port cannot be bound or the engine does not start.
    pub async fn start() -> anyhow::Result<DynamoDb> {
        let (stop, stopped) = oneshot::channel();
        let (started, starting) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("dynamodb".to_owned())
            .spawn(move || {
                if let Err(error) = serve(started, stopped) {
                    eprintln!("error: DynamoDB stand-in: {error:#}");
                }
            })?;
        let address = starting.await.context("start the DynamoDB stand-in")?;
        Ok(DynamoDb {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for DynamoDb {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by the panic hook.
            let _ = thread.join();
        }
    }
}

fn serve(
    started: oneshot::Sender<SocketAddr>,
    stopped: oneshot::Receiver<()>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let database = Database::memory().map_err(|error| anyhow::anyhow!("{error}"))?;
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let server =
            dynoxide::server::serve_with_shutdown(listener, database, std::future::pending());
        // The receiver is gone only if whoever started us gave up.
        let _ = started.send(address);
        // Open connections are not waited for: their clients are gone by now.
        tokio::select! {
            ended = server => ended.map_err(|error| anyhow::anyhow!(error)),
            _ = stopped => Ok(()),
        }
    })
}

/// Names of the tables.
pub const LOCK_TABLE: &str = "lock-table";
/// Names of the tables.
pub const BATCH_TABLE: &str = "batch-table";
/// The index of the lock table by batch.
pub const BATCH_INDEX: &str = "batchId-index";

/// Creates both tables as they are deployed.
///
/// # Errors
/// What the service says.
pub async fn create_tables(client: &Client) -> anyhow::Result<()> {
    let string = ScalarAttributeType::S;
    let number = ScalarAttributeType::N;
    client
        .create_table()
        .table_name(LOCK_TABLE)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute("messageId", &string)?)
        .attribute_definitions(attribute("batchId", &string)?)
        .attribute_definitions(attribute("seq", &number)?)
        .key_schema(key("messageId", KeyType::Hash)?)
        .global_secondary_indexes(index(
            BATCH_INDEX,
            "batchId",
            "seq",
            ProjectionType::KeysOnly,
        )?)
        .send()
        .await
        .context("create the lock table")?;
    client
        .create_table()
        .table_name(BATCH_TABLE)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute("batchId", &string)?)
        .attribute_definitions(attribute("status", &string)?)
        .attribute_definitions(attribute("dueAt", &number)?)
        .key_schema(key("batchId", KeyType::Hash)?)
        .global_secondary_indexes(index(STATUS_INDEX, "status", "dueAt", ProjectionType::All)?)
        .send()
        .await
        .context("create the batch table")?;
    Ok(())
}

fn attribute(name: &str, kind: &ScalarAttributeType) -> anyhow::Result<AttributeDefinition> {
    Ok(AttributeDefinition::builder()
        .attribute_name(name)
        .attribute_type(kind.clone())
        .build()?)
}

fn key(name: &str, kind: KeyType) -> anyhow::Result<KeySchemaElement> {
    Ok(KeySchemaElement::builder()
        .attribute_name(name)
        .key_type(kind)
        .build()?)
}

fn index(
    name: &str,
    hash: &str,
    range: &str,
    projection: ProjectionType,
) -> anyhow::Result<GlobalSecondaryIndex> {
    Ok(GlobalSecondaryIndex::builder()
        .index_name(name)
        .key_schema(key(hash, KeyType::Hash)?)
        .key_schema(key(range, KeyType::Range)?)
        .projection(Projection::builder().projection_type(projection).build())
        .build()?)
}
