//! An embedded DynamoDB over HTTP, and stores on fresh tables of it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};
use dynoxide::Database;
use dynoxide::server::serve_with_shutdown;
use shared::aws::{DynamoBatchStore, DynamoLockStore, STATUS_INDEX};
use shared::config::WriteMode;
use tokio::net::TcpListener;

/// The index of every lock table.
pub const BATCH_INDEX: &str = "batchId-index";

/// Where the database of this process listens. It has a thread of its own, as its work blocks, and lives as long as
/// the process.
pub fn endpoint() -> &'static str {
    static ENDPOINT: OnceLock<String> = OnceLock::new();
    ENDPOINT.get_or_init(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async move {
            let database = Database::memory().unwrap();
            let listener = TcpListener::from_std(listener).unwrap();
            serve_with_shutdown(listener, database, std::future::pending()).await
        };
        std::thread::spawn(|| {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(serve)
        });
        format!("http://{address}")
    })
}

/// A client without retries, as [`shared::aws::Clients`] makes them, of any endpoint.
pub fn client_of(endpoint: &str, attempt_timeout: Duration) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
        .timeout_config(
            TimeoutConfig::builder()
                .operation_attempt_timeout(attempt_timeout)
                .build(),
        )
        .endpoint_url(endpoint)
        .build();
    Client::from_conf(config)
}

/// A client of the embedded database. Its timeout is longer than any machine is slow.
pub fn client() -> Client {
    client_of(endpoint(), Duration::from_secs(60))
}

fn new_table(kind: &str) -> String {
    static TABLES: AtomicU32 = AtomicU32::new(0);
    format!("{kind}-table-{}", TABLES.fetch_add(1, Ordering::Relaxed))
}

/// An index, or a table's key: attribute names and types.
type Keys<'a> = [(&'a str, KeyType)];

fn schema(keys: &Keys<'_>) -> Vec<KeySchemaElement> {
    let element = |(name, kind): &(&str, KeyType)| {
        KeySchemaElement::builder()
            .attribute_name(*name)
            .key_type(kind.clone())
            .build()
            .unwrap()
    };
    keys.iter().map(element).collect()
}

async fn create_table(
    client: &Client,
    table: &str,
    hash: &str,
    (index, keys, projection): (&str, &Keys<'_>, ProjectionType),
    attributes: &[(&str, ScalarAttributeType)],
) {
    let definition = |(name, kind): &(&str, ScalarAttributeType)| {
        AttributeDefinition::builder()
            .attribute_name(*name)
            .attribute_type(kind.clone())
            .build()
            .unwrap()
    };
    let index = GlobalSecondaryIndex::builder()
        .index_name(index)
        .set_key_schema(Some(schema(keys)))
        .projection(Projection::builder().projection_type(projection).build())
        .build()
        .unwrap();
    client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(attributes.iter().map(definition).collect()))
        .set_key_schema(Some(schema(&[(hash, KeyType::Hash)])))
        .global_secondary_indexes(index)
        .send()
        .await
        .unwrap();
}

/// A fresh lock table.
pub async fn lock_table(client: &Client) -> String {
    let table = new_table("lock");
    let keys = [("batchId", KeyType::Hash), ("seq", KeyType::Range)];
    create_table(
        client,
        &table,
        "messageId",
        (BATCH_INDEX, &keys, ProjectionType::KeysOnly),
        &[
            ("messageId", ScalarAttributeType::S),
            ("batchId", ScalarAttributeType::S),
            ("seq", ScalarAttributeType::N),
        ],
    )
    .await;
    table
}

/// A fresh batch table.
pub async fn batch_table(client: &Client) -> String {
    let table = new_table("batch");
    let keys = [("status", KeyType::Hash), ("dueAt", KeyType::Range)];
    create_table(
        client,
        &table,
        "batchId",
        (STATUS_INDEX, &keys, ProjectionType::All),
        &[
            ("batchId", ScalarAttributeType::S),
            ("status", ScalarAttributeType::S),
            ("dueAt", ScalarAttributeType::N),
        ],
    )
    .await;
    table
}

/// A lock store on a fresh table.
pub async fn lock_store(mode: WriteMode) -> DynamoLockStore {
    let client = client();
    let table = lock_table(&client).await;
    DynamoLockStore::new(client, table, BATCH_INDEX, mode)
}

/// A batch store on a fresh table.
pub async fn batch_store() -> DynamoBatchStore {
    let client = client();
    let table = batch_table(&client).await;
    DynamoBatchStore::new(client, table)
}
