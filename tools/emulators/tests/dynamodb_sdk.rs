//! Tests of the DynamoDB server with the SDK, through a proxy that injects faults of tables.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the report"
)]

use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::{PutItemError, PutItemOutput};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, GlobalSecondaryIndex, KeySchemaElement,
    KeyType, Projection, ProjectionType, ScalarAttributeType,
};
use aws_sdk_dynamodb::{Client, Config};
use emulators::dynamodb::{DynamoDb, TableFaultOptions, TableFaults, WatchedTable};
use emulators::proxy::{Proxy, ProxyFaults, Service, ServiceFaults};

const TABLE: &str = "orders";
const INDEX: &str = "by-customer";

/// A DynamoDB server with a table of orders and an index by customer, behind a proxy.
struct Served {
    client: Client,
    faults: Arc<TableFaults>,
    _proxy: Proxy,
    _dynamodb: DynamoDb,
}

impl Served {
    async fn start(index_lag: Option<Duration>, key_limit: Option<u32>) -> Served {
        let dynamodb = DynamoDb::start().await.unwrap();
        create_table(&client(&dynamodb.endpoint())).await;
        let faults = TableFaults::new(&TableFaultOptions {
            seed: 1,
            watched: WatchedTable {
                table: TABLE.to_owned(),
                key: "id".to_owned(),
                index: INDEX.to_owned(),
                index_key: "customer".to_owned(),
                index_sort_key: "number".to_owned(),
            },
            index_lag,
            key_limit,
            table_limit: None,
            other_table: None,
        });
        let faults = Arc::new(faults.unwrap().unwrap());
        let proxy_faults = ProxyFaults {
            service: Some(Arc::clone(&faults) as Arc<dyn ServiceFaults>),
            ..ProxyFaults::default()
        };
        let endpoint = dynamodb.endpoint();
        let proxy = Proxy::start(Service::DynamoDb, &endpoint, Arc::new(()), proxy_faults);
        let proxy = proxy.await.unwrap();
        Served {
            client: client(&proxy.endpoint()),
            faults,
            _proxy: proxy,
            _dynamodb: dynamodb,
        }
    }

    async fn put(&self, number: u32) -> Result<PutItemOutput, SdkError<PutItemError>> {
        let put = self.client.put_item().table_name(TABLE);
        put.item("id", AttributeValue::S(format!("order-{number}")))
            .item("customer", AttributeValue::S("c".to_owned()))
            .item("number", AttributeValue::N(number.to_string()))
            .send()
            .await
    }

    async fn indexed(&self) -> i32 {
        let query = self.client.query().table_name(TABLE).index_name(INDEX);
        let query = query
            .key_condition_expression("customer = :customer")
            .expression_attribute_values(":customer", AttributeValue::S("c".to_owned()));
        query.send().await.unwrap().count()
    }
}

fn client(endpoint: &str) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("anyone", "secret", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
        .endpoint_url(endpoint);
    Client::from_conf(config.build())
}

async fn create_table(client: &Client) {
    let attribute = |name: &str, kind| {
        let attribute = AttributeDefinition::builder().attribute_name(name);
        attribute.attribute_type(kind).build().unwrap()
    };
    let key = |name: &str, kind| {
        let key = KeySchemaElement::builder().attribute_name(name);
        key.key_type(kind).build().unwrap()
    };
    let projection = Projection::builder().projection_type(ProjectionType::KeysOnly);
    let index = GlobalSecondaryIndex::builder()
        .index_name(INDEX)
        .key_schema(key("customer", KeyType::Hash))
        .key_schema(key("number", KeyType::Range))
        .projection(projection.build());
    let table = client.create_table().table_name(TABLE);
    table
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute("id", ScalarAttributeType::S))
        .attribute_definitions(attribute("customer", ScalarAttributeType::S))
        .attribute_definitions(attribute("number", ScalarAttributeType::N))
        .key_schema(key("id", KeyType::Hash))
        .global_secondary_indexes(index.build().unwrap())
        .send()
        .await
        .unwrap();
}

#[tokio::test]
async fn an_index_without_lag_shows_what_was_put() {
    let served = Served::start(None, Some(1_000)).await;
    served.put(7).await.unwrap();
    assert_eq!(served.indexed().await, 1);
    assert!(served.faults.lag_report().is_none());
}

#[tokio::test]
async fn an_index_that_lags_does_not_show_what_was_just_put() {
    let day = Duration::from_secs(24 * 60 * 60);
    let served = Served::start(Some(day), None).await;
    served.put(7).await.unwrap();
    assert_eq!(served.indexed().await, 0);
    let report = served.faults.lag_report().unwrap();
    assert_eq!((report.queries, report.stale, report.hidden), (1, 1, 1));
}

#[tokio::test]
async fn writes_over_the_limit_of_an_index_key_are_throttled_and_not_applied() {
    let served = Served::start(None, Some(1)).await;
    let puts = futures::future::join_all((0..20).map(|number| served.put(number))).await;
    let refused = puts.iter().filter_map(|put| put.as_ref().err());
    let codes = Vec::from_iter(refused.map(|error| error.code().unwrap_or_default()));
    assert!(!codes.is_empty());
    let table = "ProvisionedThroughputExceededException";
    let known = |code: &&str| *code == table || *code == "ThrottlingException";
    assert!(codes.iter().all(known), "{codes:?}");
    assert_eq!(served.indexed().await, 20 - codes.len() as i32);
    let report = served.faults.key_report().unwrap();
    assert_eq!(report.by_index_key, codes.len() as u64);
}
