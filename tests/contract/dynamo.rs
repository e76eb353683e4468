//! An embedded DynamoDB over HTTP, and stores on fresh tables of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use aws::{DynamoBatchStore, DynamoLockStore};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_types::SdkConfig;
use dynoxide::Database;
use dynoxide::server::serve_with_shutdown;
use emulators::sam::Resources;
pub use local::dynamodb::BATCH_INDEX;
use local::dynamodb::{BATCH_TABLE, LOCK_TABLE, create_table};
use local::template;
use shared::config::WriteMode;
use tokio::net::TcpListener;

/// The address of the database of this process. The database has its own thread, because it blocks, and lives as long
/// as the process.
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

/// A timeout that is long enough for a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a configuration without retries, like that of [`aws::Sdk`], for an endpoint of a service.
pub fn config_of(endpoint: &str, attempt_timeout: Duration) -> aws_types::sdk_config::Builder {
    let credentials = Credentials::new("local", "local", None, None, "test");
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(attempt_timeout);
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts.build())
        .endpoint_url(endpoint)
}

/// Returns a client of DynamoDB at an endpoint.
pub fn dynamodb_of(endpoint: &str, attempt_timeout: Duration) -> Client {
    Client::new(&config_of(endpoint, attempt_timeout).build())
}

/// Returns a client of the embedded database.
pub fn dynamodb() -> Client {
    dynamodb_of(endpoint(), PATIENCE)
}

/// Makes a new table with the definition in the deployed template.
async fn table(client: &Client, kind: &str) -> String {
    static TABLES: AtomicU32 = AtomicU32::new(0);
    static DEPLOYED: LazyLock<Resources> = LazyLock::new(|| {
        let template = template::deployed().unwrap();
        template.resolve(&BTreeMap::new(), &str::to_owned).unwrap()
    });
    let name = format!("{kind}-{}", TABLES.fetch_add(1, Ordering::Relaxed));
    let created = create_table(client, &name, &DEPLOYED.tables[kind]).await;
    created.unwrap();
    name
}

/// Sets one attribute of the item with this key, or removes it.
pub async fn edit(
    client: &Client,
    table: &str,
    key: (&str, &str),
    attribute: &str,
    value: Option<AttributeValue>,
) {
    let call = client
        .update_item()
        .table_name(table)
        .key(key.0, AttributeValue::S(key.1.to_owned()))
        .expression_attribute_names("#attribute", attribute);
    let call = match value {
        Some(value) => call
            .update_expression("SET #attribute = :value")
            .expression_attribute_values(":value", value),
        None => call.update_expression("REMOVE #attribute"),
    };
    call.send().await.unwrap();
}

pub async fn lock_table(client: &Client) -> String {
    table(client, LOCK_TABLE).await
}

pub async fn batch_table(client: &Client) -> String {
    table(client, BATCH_TABLE).await
}

/// Returns a lock store on a new table.
pub async fn lock_store(mode: WriteMode) -> DynamoLockStore {
    let dynamodb = dynamodb();
    let table = lock_table(&dynamodb).await;
    DynamoLockStore::new(dynamodb, table, BATCH_INDEX, mode)
}

/// Returns a batch store on a new table.
pub async fn batch_store() -> DynamoBatchStore {
    let client = dynamodb();
    let table = batch_table(&client).await;
    DynamoBatchStore::new(client, table)
}
