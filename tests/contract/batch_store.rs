//! The contract of the batch table, apart from the effect of each write (see `batch_equivalence`).

use protocol::batch::{Listing, Status};
use shared::memory::MemoryBatchStore;
use shared::ports::{BatchStore, Overdue};

use crate::dynamo;
use crate::events::{batch, ms, record};
use crate::lists::listed;

/// Returns an empty batch table in memory, and one on DynamoDB.
async fn stores() -> [Box<dyn BatchStore>; 2] {
    let dynamo = dynamo::batch_store().await;
    [Box::new(MemoryBatchStore::new()), Box::new(dynamo)]
}

#[tokio::test]
async fn a_record_is_created_once_and_creating_it_again_is_success() {
    for store in stores().await {
        assert_eq!(store.read(batch(1)).await.unwrap(), None);
        let mut first = record(batch(1));
        first.batch_key = Some("a key".parse().unwrap());
        store.create(&first).await.unwrap();
        let mut second = first.clone();
        second.closes_at = ms(99_000);
        store.create(&second).await.unwrap();
        assert_eq!(store.read(batch(1)).await.unwrap(), Some(first));
        assert_eq!(store.read(batch(2)).await.unwrap(), None);
    }
}

#[tokio::test]
async fn batches_of_a_list_are_returned_oldest_first() {
    for store in stores().await {
        for number in 0..20 {
            let mut record = record(batch(number));
            record.due_at = ms(u64::try_from(number * 7 % 20).unwrap());
            record.status = Some([Status::Open, Status::Sealed][number as usize % 2]);
            store.create(&record).await.unwrap();
        }
        let open = Listing::Status(Status::Open);
        let due = async |listing, due_before| {
            let found = listed(&*store, listing, ms(due_before)).await;
            let due_at = found.iter().map(|batch| batch.due_at.as_ms());
            Vec::from_iter(due_at.map(|due_at| due_at - ms(0).as_ms()))
        };
        let first = Overdue {
            batch_id: batch(0),
            source: record(batch(0)).source,
            due_at: ms(0),
        };
        assert_eq!(listed(&*store, open, ms(1)).await, [first]);
        assert_eq!(due(open, 8).await, [0, 2, 4, 6]);
        assert_eq!(due(open, 9).await, [0, 2, 4, 6, 8]);
        assert_eq!(due(open, 0).await, [0; 0]);
        assert_eq!(due(Listing::Status(Status::Error), 100).await, [0; 0]);
    }
}

#[tokio::test]
async fn large_records_do_not_hide_later_ones_from_the_sweep() {
    for store in stores().await {
        for number in 0..10 {
            let mut record = record(batch(number));
            record.due_at = ms(u64::try_from(number).unwrap());
            record.error = Some("x".repeat(300_000));
            store.create(&record).await.unwrap();
        }
        let due = listed(&*store, Listing::Status(Status::Open), ms(100)).await;
        assert!(due.iter().map(|one| one.batch_id).eq((0..10).map(batch)));
    }
}
