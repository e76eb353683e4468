//! Missing tables, and a DynamoDB that does not reply.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use local::dynamodb::{BATCH_TABLE, LOCK_TABLE, create_table};
use local::stack::{INPUT_DEAD_LETTER_QUEUE, INPUT_QUEUE};
use local::template;
use protocol::batch::Status;
use tokio::net::TcpSocket;

use crate::events::{body, take};
use crate::output::sorted;
use crate::rig::{Rig, Setup, now_ms};

const IDS: [&str; 3] = ["e1", "e2", "e3"];

/// An item of a table.
pub type Item = HashMap<String, AttributeValue>;

impl Rig {
    /// Returns a client of the tables, which no fault strikes.
    pub fn dynamodb(&self) -> Client {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "local"))
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .endpoint_url(self.stack.dynamodb_endpoint())
            .build();
        Client::from_conf(config)
    }

    /// Returns the number of items in the lock table.
    pub async fn lock_items(&self) -> usize {
        self.items_of(LOCK_TABLE).await.len()
    }

    /// Sets a number of an item, as time would.
    pub async fn set(&self, table: &str, key: (&str, &str), attribute: &str, value: u64) {
        let (name, key) = key;
        let update = self.dynamodb().update_item().table_name(table);
        let update = update
            .key(name, AttributeValue::S(key.to_owned()))
            .update_expression("SET #name = :value")
            .expression_attribute_names("#name", attribute)
            .expression_attribute_values(":value", AttributeValue::N(value.to_string()));
        update.send().await.expect("the item can be changed");
    }

    /// Waits until the window of a batch is over, and puts its due time to `at_ms`, as time would.
    pub async fn until_due(&self, batch: &str, at_ms: u64) {
        self.until("the window is over", async || {
            let call = self.dynamodb().update_item().table_name(BATCH_TABLE);
            let call = call.key("batchId", AttributeValue::S(batch.to_owned()));
            let number = |ms: u64| AttributeValue::N(ms.to_string());
            let call = call.expression_attribute_values(":now", number(now_ms()));
            let call = call.expression_attribute_values(":at", number(at_ms));
            let call = call.condition_expression("closesAt < :now");
            let call = call.update_expression("SET dueAt = :at");
            call.send().await.is_ok()
        })
        .await;
    }

    /// Returns the ids of all batches.
    pub async fn batch_ids(&self) -> Vec<String> {
        let items = self.batch_items().await;
        let ids = items.iter().map(|item| text(item, "batchId"));
        // Objects of the log have a `/` in their names, and scope items and the manifest a `#`.
        sorted(ids.filter(|id| !id.contains(['/', '#'])))
    }

    /// Returns the id of the only batch.
    pub async fn only_batch(&self) -> String {
        let batches = self.batch_ids().await;
        let [batch] = &batches[..] else {
            panic!("one batch is expected: {batches:?}");
        };
        batch.clone()
    }

    /// Returns the id of a batch with this status.
    pub async fn batch_with(&self, status: Status) -> String {
        let items = self.batch_items().await;
        let has = |item: &&Item| text(item, "status") == status.as_str();
        let found = items.iter().find(has).expect("there is one");
        text(found, "batchId").to_owned()
    }

    /// Returns the item of the batch table with this name.
    pub async fn named_item(&self, name: &str) -> Item {
        let items = self.batch_items().await;
        let is_it = |item: &Item| text(item, "batchId") == name;
        items.into_iter().find(is_it).expect("there is one")
    }

    /// Returns the items of the batch table: batch records, and objects of the log, whose ids have a `/`.
    pub async fn batch_items(&self) -> Vec<Item> {
        self.items_of(BATCH_TABLE).await
    }

    pub async fn items_of(&self, table: &str) -> Vec<Item> {
        let scan = self.dynamodb().scan().table_name(table);
        let items = scan.into_paginator().items().send();
        let items: Result<Vec<Item>, _> = items.collect().await;
        items.expect("the table can be read")
    }
}

/// Returns a text of an item; an empty one if the item does not have it.
pub fn text<'a>(item: &'a Item, name: &str) -> &'a str {
    let text = item.get(name).and_then(|value| value.as_s().ok());
    text.map_or("", String::as_str)
}

async fn is_missing(variable: &str) {
    let setup = Setup::new().without_sweep().quick();
    let setup = setup.var(variable, "no-such-table");
    let rig = setup.redeliver(INPUT_QUEUE, 2).start().await;
    let bodies = IDS.map(body);
    let messages = IDS.into_iter().zip(bodies.iter().map(String::as_str));
    let failed = take(&rig, &Vec::from_iter(messages)).await;
    assert_eq!(failed, IDS, "{variable}");
    rig.until_complained("no-such-table").await;

    IDS.iter().for_each(|id| rig.send(body(id)));
    let letters = rig.take_bodies(INPUT_DEAD_LETTER_QUEUE, IDS.len()).await;
    assert_eq!(letters, sorted(bodies), "{variable}");
    assert_eq!(rig.stack.aggregator.stats().cold_starts, 1, "{variable}");
    if variable == "DDB_LOCK_TABLE" {
        // The batches were opened. Their slots say that no claim was made, so they are complete without a look into the lock table.
        rig.until_metric("BatchesCompleted", 1).await;
        rig.until_drained().await;
    }
    rig.end_with_set_aside(IDS.len(), 0).await;
}

#[tokio::test]
async fn a_missing_table_fails_the_messages_and_is_named_in_the_log() {
    tokio::join!(is_missing("DDB_LOCK_TABLE"), is_missing("DDB_BATCH_TABLE"));
}

#[tokio::test]
async fn messages_sent_before_the_tables_exist_are_delivered_once_they_do() {
    let setup = Setup::new().without_sweep().batches_of(IDS.len());
    let setup = setup.quick().redeliver(INPUT_QUEUE, 100);
    let rig = setup.one_aggregator_environment().start().await;
    let client = rig.dynamodb();
    for table in [LOCK_TABLE, BATCH_TABLE] {
        let deleted = client.delete_table().table_name(table).send().await;
        deleted.expect("the table was there");
    }
    IDS.iter().for_each(|id| rig.send(body(id)));
    let returned = async || rig.stack.input_mapping.stats().returned >= IDS.len() as u64;
    rig.until("the messages came back", returned).await;
    assert_eq!(rig.depth(INPUT_QUEUE), IDS.len());
    let template = template::deployed().expect("the template can be read");
    let resources = template.resolve(&BTreeMap::new(), &str::to_owned);
    for (name, table) in &resources.expect("the template has every parameter").tables {
        let created = create_table(&client, name, table).await;
        created.expect("the table is gone");
    }
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), sorted(IDS));
    rig.end().await;
}

async fn cannot_be_reached(address: SocketAddr, kind: &str) {
    let endpoint = format!("http://{address}");
    let setup = Setup::new().var("AWS_ENDPOINT_URL_DYNAMODB", endpoint);
    let rig = setup.without_sweep().start().await;
    let ids: Vec<String> = (0..100).map(|number| format!("m{number:02}")).collect();
    let bodies: Vec<String> = ids.iter().map(|id| body(id)).collect();
    let messages = ids.iter().map(String::as_str);
    let messages = Vec::from_iter(messages.zip(bodies.iter().map(String::as_str)));
    for _ in 0..2 {
        assert_eq!(take(&rig, &messages).await, ids, "{kind}");
    }
    // The environment lives on.
    assert_eq!(rig.stack.aggregator.stats().cold_starts, 1, "{kind}");
    rig.end().await;
}

#[tokio::test]
async fn a_dynamodb_that_cannot_be_reached_fails_every_message_before_the_deadline() {
    // Connections to a port that is bound and not listened on are refused. Nobody else gets the port meanwhile.
    let closed = TcpSocket::new_v4().expect("a socket");
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    closed.bind(any_port).expect("a port is free");
    // The operating system accepts connections, and no process reads them.
    let silent = TcpListener::bind(any_port).expect("a port is free");
    tokio::join!(
        cannot_be_reached(closed.local_addr().expect("it is bound"), "closed"),
        cannot_be_reached(silent.local_addr().expect("it is bound"), "silent")
    );
}
