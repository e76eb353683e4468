//! What lists of batches leave out.

use aws::{BatchCatalogue, DynamoBatchCatalogue, DynamoBatchStore};
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::bodies::{Bodies, ObjectPlace};
use shared::ports::BatchStore;

use crate::dynamo::{batch_table, dynamodb};
use crate::events::{batch, record};

#[tokio::test]
async fn the_account_of_a_quota_that_0_2_wrote_is_no_batch_of_the_log() {
    let client = dynamodb();
    let table = batch_table(&client).await;
    let account = client.put_item().table_name(&table);
    let account = account.item("batchId", AttributeValue::S("quota/1/key".to_owned()));
    let account = account.item("reserved", AttributeValue::M([].into()));
    account.send().await.expect("the table takes the item");
    let store = DynamoBatchStore::new(client.clone(), table.clone());
    store.create(&record(batch(1))).await.unwrap();
    let bodies = Bodies::Log(ObjectPlace::Table);
    let of_log = record(batch(2)).with_bodies(bodies, std::time::Duration::ZERO);
    store.create(&of_log).await.unwrap();
    let catalogue = DynamoBatchCatalogue::new(client, table);
    assert_eq!(catalogue.of_log().await.unwrap(), [batch(2)]);
}
