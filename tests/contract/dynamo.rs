//! An embedded DynamoDB over HTTP, and stores on fresh tables of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use aws_types::SdkConfig;
use dynoxide::Database;
use dynoxide::server::serve_with_shutdown;
pub use local::dynamodb::BATCH_INDEX;
use local::dynamodb::{BATCH_TABLE, LOCK_TABLE, create_table};
use local::template::{Resources, Template};
use shared::aws::{DynamoBatchStore, DynamoLockStore};
use shared::config::WriteMode;
use tokio::net::TcpListener;

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

/// What [`shared::aws::Sdk`] has of DynamoDB, at any endpoint: no retries.
pub fn config_of(endpoint: &str, attempt_timeout: Duration) -> aws_types::sdk_config::Builder {
    let credentials = Credentials::new("key", "secret", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
        .timeout_config(
            TimeoutConfig::builder()
                .operation_attempt_timeout(attempt_timeout)
                .build(),
        )
        .endpoint_url(endpoint)
}

/// DynamoDB at any endpoint.
pub fn dynamodb_of(endpoint: &str, attempt_timeout: Duration) -> Client {
    Client::new(&config_of(endpoint, attempt_timeout).build())
}

/// The embedded database. Its timeout is longer than any machine is slow.
pub fn dynamodb() -> Client {
    dynamodb_of(endpoint(), Duration::from_secs(60))
}

fn new_table(kind: &str) -> String {
    static TABLES: AtomicU32 = AtomicU32::new(0);
    format!("{kind}-{}", TABLES.fetch_add(1, Ordering::Relaxed))
}

/// A fresh table, as the template defines it that is deployed.
async fn table(client: &Client, kind: &str) -> String {
    static DEPLOYED: LazyLock<Resources> = LazyLock::new(|| {
        let template = Template::deployed().unwrap();
        template.resolve(&BTreeMap::new(), &str::to_owned).unwrap()
    });
    let name = new_table(kind);
    create_table(client, &name, &DEPLOYED.tables[kind])
        .await
        .unwrap();
    name
}

/// A fresh lock table.
pub async fn lock_table(client: &Client) -> String {
    table(client, LOCK_TABLE).await
}

/// A fresh batch table.
pub async fn batch_table(client: &Client) -> String {
    table(client, BATCH_TABLE).await
}

/// A lock store on a fresh table.
pub async fn lock_store(mode: WriteMode) -> DynamoLockStore {
    let dynamodb = dynamodb();
    let table = lock_table(&dynamodb).await;
    DynamoLockStore::new(dynamodb, table, BATCH_INDEX, mode)
}

/// A batch store on a fresh table.
pub async fn batch_store() -> DynamoBatchStore {
    let client = dynamodb();
    let table = batch_table(&client).await;
    DynamoBatchStore::new(client, table)
}
