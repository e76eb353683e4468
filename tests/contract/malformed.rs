//! Items that were edited by hand: the error names the item, and the process does not end.

use aws::{DynamoBatchStore, DynamoLockStore};
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::batch::{BatchWrite, Listing, Status};
use protocol::ids::BatchId;
use shared::config::WriteMode;
use shared::ports::{BatchStore, ClaimReply, LockStore, PortError};

use crate::dynamo::{self, BATCH_INDEX, edit};
use crate::events::{
    assert_says, batch, claim, claim_free, claim_in, event, ms, record, tombstone, witness,
};
use crate::lists::listed;

fn assert_names(error: &PortError, words: &[&str]) {
    assert_says(error, &["refused by"]);
    assert_says(error, words);
}

/// The unit tests of the items edit every attribute.
#[tokio::test]
async fn an_edited_lock_item_is_refused_with_its_id_and_attribute() {
    let dynamodb = dynamo::dynamodb();
    let table = dynamo::lock_table(&dynamodb).await;
    let store = DynamoLockStore::new(dynamodb.clone(), &table, BATCH_INDEX, WriteMode::Put);
    claim_free(&store, &[claim("live", "body", 0)]).await;
    edit(&dynamodb, &table, ("messageId", "live"), "seq", None).await;
    let words = ["live", "`seq`", &table];
    assert_names(&store.read(&[event("live")]).await.unwrap_err(), &words);
    // A refused write reads the item that it meets.
    let other = claim_in(batch(2), "live", "other", 7);
    let refused = [
        store.claim(std::slice::from_ref(&other)).await.remove(0),
        store.replace(&other, &tombstone(&other, ms(0))).await,
    ];
    for reply in refused {
        let ClaimReply::Error(error) = reply else {
            panic!("{reply:?}")
        };
        assert_names(&error, &words);
    }
    let error = store.read_events(&[event("live")]).await.unwrap_err();
    assert_names(&error, &words);
}

#[tokio::test]
async fn an_item_that_is_neither_live_nor_a_tombstone_is_refused() {
    let dynamodb = dynamo::dynamodb();
    let table = dynamo::lock_table(&dynamodb).await;
    let store = DynamoLockStore::new(dynamodb.clone(), &table, BATCH_INDEX, WriteMode::Batch);
    claim_free(&store, &[claim("the-event", "body", 0)]).await;
    let key = ("messageId", "the-event");
    edit(&dynamodb, &table, key, "batchId", None).await;
    let error = store.read(&[event("the-event")]).await.unwrap_err();
    assert_names(&error, &["the-event", "`expiresAt`: missing"]);
    let (events, _) = store.read_events(&[event("the-event")]).await.unwrap();
    assert_eq!(events, []);
}

#[tokio::test]
async fn an_edited_batch_record_is_refused_and_the_sweep_still_finds_the_others() {
    let dynamodb = dynamo::dynamodb();
    let table = dynamo::batch_table(&dynamodb).await;
    let store = DynamoBatchStore::new(dynamodb.clone(), &table);
    for number in 0..3 {
        store.create(&record(batch(number))).await.unwrap();
    }
    let key = batch(1).to_string();
    let ten = Some(AttributeValue::S("ten".to_owned()));
    edit(&dynamodb, &table, ("batchId", &key), "shards", ten).await;

    let words = [key.as_str(), "`shards`", &table];
    assert_names(&store.read(batch(1)).await.unwrap_err(), &words);
    let refused = BatchWrite::Fail {
        owner: "nobody".parse().unwrap(),
        error: String::new(),
        notice: None,
    };
    for write in [witness(), refused] {
        assert_names(&store.write(batch(1), &write).await.unwrap_err(), &words);
    }
    // The sweep reads few attributes, so it may send a ticket; its processor then gets the error.
    assert_eq!(due(&store).await, [batch(0), batch(1), batch(2)]);
    let source = Some(AttributeValue::N("7".to_owned()));
    edit(&dynamodb, &table, ("batchId", &key), "source", source).await;
    assert_eq!(due(&store).await, [batch(0), batch(2)]);
}

async fn due(store: &DynamoBatchStore) -> Vec<BatchId> {
    let due = listed(store, Listing::Status(Status::Open), ms(1_000_000)).await;
    let mut ids: Vec<BatchId> = due.iter().map(|one| one.batch_id).collect();
    ids.sort_unstable();
    ids
}
