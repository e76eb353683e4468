//! The contract of the batch table, apart from the effect of each write (see `batch_equivalence`).

use protocol::batch::{Listing, Status};
use shared::ports::{BatchStore, Overdue};

use crate::events::{batch, ms, record};
use crate::lists::listed;

macro_rules! batch_store_contract {
    ($($claim:ident)*) => {
        mod memory {
            $(#[tokio::test] async fn $claim() {
                super::$claim(&shared::memory::MemoryBatchStore::new()).await;
            })*
        }
        mod dynamo {
            $(#[tokio::test] async fn $claim() {
                super::$claim(&crate::dynamo::batch_store().await).await;
            })*
        }
    };
}

batch_store_contract! {
    a_record_is_created_once_and_creating_it_again_is_success
    batches_of_a_list_are_returned_oldest_first
    large_records_do_not_hide_later_ones_from_the_sweep
}

async fn a_record_is_created_once_and_creating_it_again_is_success<S: BatchStore>(store: &S) {
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

async fn batches_of_a_list_are_returned_oldest_first<S: BatchStore>(store: &S) {
    for number in 0..20 {
        let mut record = record(batch(number));
        record.due_at = ms(u64::try_from(number * 7 % 20).unwrap());
        record.status = Some(if number % 2 == 0 {
            Status::Open
        } else {
            Status::Sealed
        });
        store.create(&record).await.unwrap();
    }
    let open = Listing::Status(Status::Open);
    let due = async |listing, due_before| {
        let found = listed(store, listing, ms(due_before)).await;
        let due = found
            .iter()
            .map(|batch| batch.due_at.as_ms() - ms(0).as_ms());
        due.collect::<Vec<u64>>()
    };
    let first = Overdue {
        batch_id: batch(0),
        source: record(batch(0)).source,
        due_at: ms(0),
    };
    assert_eq!(listed(store, open, ms(1)).await, [first]);
    assert_eq!(due(open, 8).await, [0, 2, 4, 6]);
    assert_eq!(due(open, 9).await, [0, 2, 4, 6, 8]);
    assert_eq!(due(open, 0).await, [0; 0]);
    assert_eq!(due(Listing::Status(Status::Error), 100).await, [0; 0]);
}

async fn large_records_do_not_hide_later_ones_from_the_sweep<S: BatchStore>(store: &S) {
    for number in 0..10 {
        let mut record = record(batch(number));
        record.due_at = ms(u64::try_from(number).unwrap());
        record.error = Some("x".repeat(300_000));
        store.create(&record).await.unwrap();
    }
    let due = listed(store, Listing::Status(Status::Open), ms(100)).await;
    assert_eq!(
        due.iter().map(|record| record.batch_id).collect::<Vec<_>>(),
        (0..10).map(batch).collect::<Vec<_>>()
    );
}
