//! The contract of the lock table: claims that versions up to 0.2 wrote, with their bodies in chunks. They are refused, and nothing takes
//! their place.

use aws::DynamoLockStore;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::claim::LockItem;
use protocol::time::Timestamp;
use shared::config::WriteMode;
use shared::ports::{ClaimReply, LockItems, LockStore, PortError};

use crate::dynamo::{self, BATCH_INDEX};
use crate::events::{
    assert_says, assert_written, batch, claim, claim_all, event, item, ms, releases, replacements,
    tombstone,
};

/// When the TTL may remove the chunk claim. A tombstone of its message has the same end in these tests.
const EXPIRES_AT: Timestamp = Timestamp::from_ms(1_701_000_000_000);

/// A lock table with the chunk claim of event `e`.
struct Former {
    client: Client,
    table: String,
    store: DynamoLockStore,
}

impl Former {
    async fn new(mode: WriteMode) -> Former {
        let client = dynamo::dynamodb();
        let table = dynamo::lock_table(&client).await;
        let claim = item(&claim("e", "body", 4));
        put_chunk_claim(&client, &table, &claim).await;
        Former {
            store: DynamoLockStore::new(client.clone(), &table, BATCH_INDEX, mode),
            client,
            table,
        }
    }

    fn check_refused(&self, error: &PortError) {
        let words = "attribute `batch`: the claim of a former version (chunk claims, up to 0.2)";
        assert_says(error, &["refused by", &self.table, "item ‹e›", words]);
    }

    /// Checks that the chunk claim is still there.
    async fn check_there(&self) {
        let key = AttributeValue::S("e".to_owned());
        let get = self.client.get_item().table_name(&self.table);
        let got = get.key("messageId", key).consistent_read(true).send();
        let there = got.await.unwrap().item.unwrap();
        assert_eq!(there["chunk"], AttributeValue::N("1".to_owned()));
    }
}

/// Puts the chunk claim of event `e` as version 0.2.0 did.
async fn put_chunk_claim(client: &Client, table: &str, claim: &LockItem) {
    let s = |text: &str| AttributeValue::S(text.to_owned());
    let n = |number: u64| AttributeValue::N(number.to_string());
    let hash = AttributeValue::B(Blob::new(claim.body_hash.as_bytes()));
    let put = client
        .put_item()
        .table_name(table)
        .item("messageId", s("e"))
        .item("sqsMessageId", s(claim.sqs_message_id.as_str()))
        .item("bodyHash", hash)
        .item("batch", s(&batch(1).to_string()))
        .item("seq", n(4))
        .item("chunk", n(1))
        .item("expiresAt", n(EXPIRES_AT.as_secs_ceil()));
    put.send().await.unwrap();
}

#[tokio::test]
async fn a_chunk_claim_is_refused_by_every_reader() {
    let former = Former::new(WriteMode::Put).await;
    let read = former.store.read(&[event("e")]).await;
    former.check_refused(&read.unwrap_err());
    let scanned = former.store.scan(&mut |_, _| {}).await;
    former.check_refused(&scanned.unwrap_err());
}

#[tokio::test]
async fn nothing_takes_the_place_of_a_chunk_claim_and_other_events_are_claimed() {
    for mode in [WriteMode::Batch, WriteMode::Put] {
        let former = Former::new(mode).await;
        let refused = |reply: &ClaimReply| match reply {
            ClaimReply::Error(error) => former.check_refused(error),
            // PartiQL need not show the item. It is read then, and that is refused.
            ClaimReply::Exists(None) => assert_eq!(mode, WriteMode::Batch),
            other => panic!("{mode:?}: {other:?}"),
        };
        let claims = [claim("e", "body", 4), claim("other", "body", 5)];
        let replies = claim_all(&former.store, &claims).await;
        refused(&replies[0]);
        assert_written(&replies[1]);
        let expected = [
            item(&claims[0]),
            tombstone(&claims[0], EXPIRES_AT),
            tombstone(&claims[0], ms(0)),
        ];
        for new in replacements() {
            for expected in &expected {
                refused(&former.store.replace(&new, expected).await);
            }
        }
        for release in releases() {
            let seat = claims[0].seat.key();
            former.store.release(&[(event("e"), seat)], release).await;
        }
        let ended = tombstone(&claims[0], ms(5_000));
        for expected in &expected {
            let id = &event("e");
            assert!(!former.store.remove(id, expected).await.unwrap());
            let put = former.store.remember(id, &ended, None, Some(expected));
            assert!(!put.await.unwrap());
        }
        former.check_there().await;
    }
}
