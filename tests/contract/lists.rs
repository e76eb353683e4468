//! The contract of the lists of batches that the sweep reads, and reads of whole lists for other contracts.

use std::collections::BTreeSet;

use protocol::batch::{BatchRecord, Listing, Status};
use protocol::ids::BatchId;
use protocol::limits::STATUS_SHARDS;
use protocol::time::Timestamp;
use shared::memory::MemoryBatchStore;
use shared::ports::{BatchStore, ListShard, Overdue};

use crate::dynamo;
use crate::events::{batch, ms, record};

/// Returns the pages of a list and shard.
async fn pages(
    store: &dyn BatchStore,
    list: ListShard,
    due_before: Timestamp,
) -> Vec<Vec<Overdue>> {
    let mut pages = Vec::new();
    let mut after = None;
    loop {
        let page = store.overdue(list, due_before, after.as_ref()).await;
        let page = page.expect("the list can be read");
        pages.push(page.batches);
        after = page.next;
        if after.is_none() {
            return pages;
        }
    }
}

/// Returns every batch of a list that is due before a time, sorted by due time and id.
pub async fn listed(
    store: &dyn BatchStore,
    listing: Listing,
    due_before: Timestamp,
) -> Vec<Overdue> {
    let mut listed = Vec::new();
    for shard in 0..STATUS_SHARDS {
        let list = ListShard { listing, shard };
        listed.extend(pages(store, list, due_before).await.concat());
    }
    listed.sort_by_key(|batch| (batch.due_at, batch.batch_id));
    listed
}

/// Creates `count` batches of one shard with a long source, the first and the last due at another time than the others.
async fn a_list_is_read_page_by_page(store: &dyn BatchStore, count: u128) {
    let source = "s".repeat(1_000);
    let of_shard = |number: u128| batch(number * u128::from(STATUS_SHARDS));
    let ids: Vec<BatchId> = (0..count).map(of_shard).collect();
    for (number, id) in ids.iter().enumerate() {
        let due_at = match number {
            0 => 1,
            _ if number + 1 == ids.len() => 3,
            _ => 2,
        };
        let record = BatchRecord {
            due_at: ms(due_at),
            source: source.parse().unwrap(),
            ..record(*id)
        };
        store.create(&record).await.unwrap();
    }
    let list = ListShard {
        listing: Listing::Status(Status::Open),
        shard: ids[0].random_byte() % STATUS_SHARDS,
    };
    let read = pages(store, list, ms(100)).await;
    assert!(read.len() > 1, "one page");
    assert!(read.iter().rev().skip(1).all(|page| !page.is_empty()));
    let read = read.concat();
    assert!(read.is_sorted_by_key(|batch| batch.due_at));
    assert_eq!(read.len(), ids.len(), "each is in one page");
    let read: BTreeSet<BatchId> = read.iter().map(|batch| batch.batch_id).collect();
    assert_eq!(read, ids.into_iter().collect());
    let early = pages(store, list, ms(2)).await.concat();
    assert_eq!(early.len(), 1, "only the first is due before the others");
    let other = ListShard {
        shard: (list.shard + 1) % STATUS_SHARDS,
        ..list
    };
    assert_eq!(pages(store, other, ms(100)).await.concat(), []);
}

#[tokio::test]
async fn a_list_in_memory_is_read_page_by_page() {
    a_list_is_read_page_by_page(&MemoryBatchStore::new().with_pages_of(7), 40).await;
}

/// A page of DynamoDB has at most 1 MB.
#[tokio::test]
async fn a_list_on_dynamodb_is_read_page_by_page() {
    a_list_is_read_page_by_page(&dynamo::batch_store().await, 1_100).await;
}
