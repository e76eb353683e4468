//! The contract of the lock table: claims that former versions wrote, with their bodies in chunks. They are read for 30 days.

use std::collections::BTreeSet;

use aws::DynamoLockStore;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::claim::{LockItem, LockState};
use protocol::ids::BatchShard;
use shared::config::WriteMode;
use shared::memory::MemoryLockStore;
use shared::ports::{ClaimReply, LockStore};

use crate::dynamo::{self, BATCH_INDEX};
use crate::events::{
    CHUNK_CLAIMS_EXPIRE_AT, SHARDS, assert_written, batch, chunk_claim, claim, claim_free, event,
    item, ms, past, read_one, releases, replacements, tombstone,
};
use crate::lock_store::{
    assert_exists, assert_released, lock_store_contract, of_another_message,
    only_the_expected_item_is_replaced,
};

/// A lock table into which a test puts what former versions wrote.
trait FormerTable {
    fn store(&self) -> &dyn LockStore;

    /// Puts the chunk claim of event `e`, in place of what is there.
    async fn put(&self, claim: &LockItem);
}

impl FormerTable for MemoryLockStore {
    fn store(&self) -> &dyn LockStore {
        self
    }

    async fn put(&self, claim: &LockItem) {
        self.insert(event("e"), claim.clone());
    }
}

struct Dynamo {
    client: Client,
    table: String,
    store: DynamoLockStore,
}

impl Dynamo {
    async fn new(mode: WriteMode) -> Dynamo {
        let client = dynamo::dynamodb();
        let table = dynamo::lock_table(&client).await;
        Dynamo {
            store: DynamoLockStore::new(client.clone(), &table, BATCH_INDEX, mode),
            client,
            table,
        }
    }

    /// Returns the names of the attributes of event `e`.
    async fn attributes(&self) -> BTreeSet<String> {
        let key = AttributeValue::S("e".to_owned());
        let get = self.client.get_item().table_name(&self.table);
        let got = get.key("messageId", key).consistent_read(true).send();
        got.await.unwrap().item.unwrap().into_keys().collect()
    }
}

impl FormerTable for Dynamo {
    fn store(&self) -> &dyn LockStore {
        &self.store
    }

    async fn put(&self, claim: &LockItem) {
        put_chunk_claim(&self.client, &self.table, "e", claim).await;
    }
}

/// Puts a chunk claim as version 0.2.0 did.
pub async fn put_chunk_claim(client: &Client, table: &str, id: &str, claim: &LockItem) {
    let LockState::InChunk {
        batch,
        seq,
        chunk,
        expires_at,
    } = claim.state
    else {
        panic!("no chunk claim: {claim:?}");
    };
    let s = |text: &str| AttributeValue::S(text.to_owned());
    let n = |number: u64| AttributeValue::N(number.to_string());
    let hash = AttributeValue::B(Blob::new(claim.body_hash.as_bytes()));
    let mut put = client
        .put_item()
        .table_name(table)
        .item("messageId", s(id))
        .item("sqsMessageId", s(claim.sqs_message_id.as_str()))
        .item("bodyHash", hash)
        .item("batch", s(&batch.to_string()))
        .item("seq", n(seq.into()))
        .item("chunk", n(chunk.into()))
        .item("expiresAt", n(expires_at.as_secs_ceil()));
    if !claim.past.is_empty() {
        let past = claim.past.iter();
        let past = past.map(|(id, until)| (id.as_str().to_owned(), n(until.as_ms())));
        put = put.item("pastDeliveries", AttributeValue::M(past.collect()));
    }
    put.send().await.unwrap();
}

lock_store_contract! {
    on crate::chunk_claims::Dynamo::new,
    a_chunk_claim_reads_back_and_nothing_takes_its_place
    a_chunk_claim_is_no_event_and_not_in_the_index
    a_release_of_a_chunk_claim_changes_nothing
    a_chunk_claim_is_replaced_only_in_the_expected_state
    a_tombstone_that_became_a_chunk_claim_since_it_was_read_is_not_replaced
}

/// Returns the chunk claim of event `e` with seq 4, which remembers two earlier deliveries.
fn there() -> LockItem {
    LockItem {
        past: past(),
        ..chunk_claim("body", 4)
    }
}

/// Returns every event id that the index lists for batch 1 or batch 2.
async fn indexed(store: &dyn LockStore) -> Vec<String> {
    let mut found = Vec::new();
    for batch in [batch(1), batch(2)] {
        for shard in 0..SHARDS {
            let page = store.index(BatchShard { batch, shard }, None).await;
            let ids = page.unwrap().entries.into_iter();
            found.extend(ids.map(|entry| entry.event_id.as_str().to_owned()));
        }
    }
    found
}

async fn a_chunk_claim_reads_back_and_nothing_takes_its_place<T: FormerTable>(table: &T) {
    table.put(&there()).await;
    let store = table.store();
    assert_eq!(read_one(store, "e").await, Some(there()));
    let [claim, _] = replacements();
    let replies = store.claim(&[claim]).await;
    assert_exists(&replies[0], &there());
    assert_eq!(read_one(store, "e").await, Some(there()));
}

async fn a_chunk_claim_is_no_event_and_not_in_the_index<T: FormerTable>(table: &T) {
    table.put(&there()).await;
    let store = table.store();
    claim_free(store, &[claim("with its body", "body", 0)]).await;
    let ids = ["e", "with its body"].map(event);
    let (events, unread) = store.read_events(&ids).await.unwrap();
    let found: Vec<&str> = events.iter().map(|event| event.event_id.as_str()).collect();
    assert_eq!(found, ["with its body"]);
    assert!(unread.is_empty(), "{unread:?}");
    assert_eq!(indexed(store).await, ["with its body"]);
}

async fn a_release_of_a_chunk_claim_changes_nothing<T: FormerTable>(table: &T) {
    table.put(&there()).await;
    let store = table.store();
    for seq in [4, 1] {
        let seat = claim("e", "body", seq).seat.key();
        for release in releases() {
            assert_released(&store.release(&[(event("e"), seat)], release).await);
            assert_eq!(read_one(store, "e").await, Some(there()), "{release:?}");
        }
    }
}

async fn a_chunk_claim_is_replaced_only_in_the_expected_state<T: FormerTable>(table: &T) {
    let store = table.store();
    let with = |state| LockItem { state, ..there() };
    let expires_at = CHUNK_CLAIMS_EXPIRE_AT;
    let in_chunk = |batch, seq| LockState::InChunk {
        batch,
        seq,
        chunk: 1,
        expires_at,
    };
    let near_misses = [
        with(in_chunk(batch(1), 5)),
        with(in_chunk(batch(3), 4)),
        with(item(&claim("e", "body", 4)).state),
        with(LockState::Tombstone { expires_at }),
        of_another_message(&there()),
    ];
    for new in replacements() {
        table.put(&there()).await;
        only_the_expected_item_is_replaced(store, &new, &there(), &near_misses).await;
        assert_eq!(indexed(store).await, ["e"]);
    }
}

async fn a_tombstone_that_became_a_chunk_claim_since_it_was_read_is_not_replaced<T: FormerTable>(
    table: &T,
) {
    // An environment of a former version claims the event for the same message. Only its batch tells the claim from the
    // tombstone, because the claim's TTL happens to be the end of the tombstone.
    table.put(&there()).await;
    let read = tombstone(&claim("e", "body", 4), CHUNK_CLAIMS_EXPIRE_AT);
    for new in replacements() {
        assert_exists(&table.store().replace(&new, &read).await, &there());
        assert_eq!(read_one(table.store(), "e").await, Some(there()));
    }
}

#[tokio::test]
async fn a_replacement_has_exactly_the_attributes_of_a_claim() {
    for mode in [WriteMode::Batch, WriteMode::Put] {
        let table = Dynamo::new(mode).await;
        for new in replacements() {
            table.put(&there()).await;
            assert_written(&table.store.replace(&new, &there()).await);
            // Those that docs/protocol.md lists.
            let of_every_claim =
                "messageId sqsMessageId bodyHash seq batchId message source sentAt";
            let past = (!new.past.is_empty()).then_some("pastDeliveries");
            let documented = of_every_claim.split(' ').chain(past);
            let documented = documented.map(str::to_owned).collect();
            assert_eq!(table.attributes().await, documented);
        }
    }
}

#[tokio::test]
async fn a_refused_put_returns_the_existing_chunk_claim() {
    let table = Dynamo::new(WriteMode::Put).await;
    table.put(&there()).await;
    let met = |reply: ClaimReply| match reply {
        ClaimReply::Exists(item) => item,
        other => panic!("{other:?}"),
    };
    let [other, _] = replacements();
    let mut replies = table.store.claim(std::slice::from_ref(&other)).await;
    assert_eq!(met(replies.remove(0)), Some(there()));
    let reply = table.store.replace(&other, &tombstone(&other, ms(0))).await;
    assert_eq!(met(reply), Some(there()));
}
