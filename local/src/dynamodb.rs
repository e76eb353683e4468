//! DynamoDB in memory, over HTTP, on a thread of its own: its engine works on the calling thread, and would otherwise
//! stall the queue server and the Lambda host.

use std::net::SocketAddr;
use std::thread::JoinHandle;

use anyhow::Context;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, GlobalSecondaryIndex, KeySchemaElement, Projection,
};
use dynoxide::Database;
use tokio::sync::oneshot;

use crate::template::{Key, Table};

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

/// The lock table, as the stack on this machine calls it.
pub const LOCK_TABLE: &str = "lock-table";
/// The batch table, as the stack on this machine calls it.
pub const BATCH_TABLE: &str = "batch-table";
/// The index of the lock table by batch.
pub const BATCH_INDEX: &str = "batchId-index";

/// Creates a table as the template defines it.
///
/// # Errors
/// What the service says.
pub async fn create_table(client: &Client, name: &str, table: &Table) -> anyhow::Result<()> {
    let attributes = table.attribute_definitions.iter().map(|attribute| {
        AttributeDefinition::builder()
            .attribute_name(&attribute.attribute_name)
            .attribute_type(attribute.attribute_type.as_str().into())
            .build()
    });
    let indexes = table.global_secondary_indexes.iter().map(|index| {
        let projection = &index.projection;
        let included =
            Some(projection.non_key_attributes.clone()).filter(|names| !names.is_empty());
        GlobalSecondaryIndex::builder()
            .index_name(&index.index_name)
            .set_key_schema(Some(key_schema(&index.key_schema)?))
            .projection(
                Projection::builder()
                    .projection_type(projection.projection_type.as_str().into())
                    .set_non_key_attributes(included)
                    .build(),
            )
            .build()
    });
    client
        .create_table()
        .table_name(name)
        .billing_mode(table.billing_mode.as_str().into())
        .set_attribute_definitions(Some(attributes.collect::<Result<_, _>>()?))
        .set_key_schema(Some(key_schema(&table.key_schema)?))
        .set_global_secondary_indexes(Some(indexes.collect::<Result<_, _>>()?))
        .send()
        .await
        .with_context(|| format!("create table `{name}`"))?;
    Ok(())
}

fn key_schema(keys: &[Key]) -> Result<Vec<KeySchemaElement>, BuildError> {
    keys.iter()
        .map(|key| {
            KeySchemaElement::builder()
                .attribute_name(&key.attribute_name)
                .key_type(key.key_type.as_str().into())
                .build()
        })
        .collect()
}
