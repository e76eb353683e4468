//! The contract of the batch table, apart from the effect of each write (see `batch_equivalence`).

use std::time::Duration;

use protocol::batch::{
    BatchCounts, BatchRecord, BatchWrite, Lease, Listing, OperatorDecision, PartRecord, PartState,
    Status,
};
use protocol::bodies::Bodies;
use protocol::ids::LeaseOwner;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::ports::{BatchReply, BatchStore, Overdue};

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
    a_record_of_either_layout_reads_back_as_it_was_opened
    a_write_without_a_record_is_refused_and_creates_no_record
    a_refused_write_returns_the_present_record
    witnesses_of_a_sealed_batch_are_merged_and_counted
    a_batch_lives_from_open_to_complete
    batches_of_a_list_are_returned_oldest_first
    large_records_do_not_hide_later_ones_from_the_sweep
    a_complete_batch_is_never_overdue
}

fn owner() -> LeaseOwner {
    "processor/1".parse().unwrap()
}

fn lease(until: Timestamp) -> Lease {
    Lease {
        owner: owner(),
        until,
    }
}

async fn applied<S: BatchStore>(store: &S, write: BatchWrite) -> BatchRecord {
    match store.write(batch(1), &write).await.unwrap() {
        BatchReply::Applied(record) => *record,
        BatchReply::Refused(record) => panic!("{write:?} refused by {record:?}"),
    }
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

async fn a_record_of_either_layout_reads_back_as_it_was_opened<S: BatchStore>(store: &S) {
    for (text, number) in ["items", "table", "s3://bucket/", "s3://bucket/a/b/"]
        .into_iter()
        .zip(0..)
    {
        let bodies: Bodies = text.parse().unwrap();
        let window = Duration::from_secs(3_600);
        let opened = record(batch(number)).with_bodies(bodies.clone(), window);
        store.create(&opened).await.unwrap();
        let found = store.read(batch(number)).await.unwrap().unwrap();
        assert_eq!(found.bodies, bodies);
        assert_eq!(
            found.dedup_window,
            match bodies.in_chunks() {
                true => window,
                false => Duration::ZERO,
            }
        );
        assert_eq!(found, opened);
    }
}

/// Writes of an aggregator, and a resent ticket.
fn counts() -> Vec<BatchWrite> {
    let counts = BatchCounts {
        confirmed: 1,
        uncertain: 0,
        settled: (0..1).collect(),
        version: 1,
    };
    vec![
        BatchWrite::Count(counts.clone()),
        BatchWrite::Seal {
            counts,
            at: ms(0),
            due_at: None,
        },
        witness(&[0], 0),
        BatchWrite::TicketResent {
            was_due_at: ms(0),
            due_at: ms(1),
        },
    ]
}

/// Writes of a batch processor.
fn processing() -> Vec<BatchWrite> {
    vec![
        BatchWrite::AcceptSink {
            owner: owner(),
            index: 0,
            sink: "log:".to_owned(),
        },
        BatchWrite::Number {
            owner: owner(),
            index: 0,
            number: 1,
        },
        BatchWrite::SetAside {
            owner: owner(),
            part: None,
            set_aside: (0..1).collect(),
            set_asides: 0,
        },
        BatchWrite::Lease {
            lease: lease(ms(1)),
            at: ms(0),
            operator: Some(OperatorDecision::Retry),
        },
        BatchWrite::Freeze {
            owner: owner(),
            index: 0,
            part: PartRecord::frozen((0..1).collect(), [7; 32], None),
        },
        BatchWrite::Delivered {
            owner: owner(),
            index: 0,
            receipt: "r".to_owned(),
            delivered: None,
            at: Timestamp::EPOCH,
            rejects: None,
        },
        BatchWrite::GiveUp {
            owner: owner(),
            due_at: ms(0),
            verify_at: None,
            turn_at: None,
            failure: None,
        },
        BatchWrite::Fail {
            owner: owner(),
            error: "no".to_owned(),
            notice: None,
        },
        BatchWrite::Complete {
            owner: owner(),
            counts_version: 0,
            witnesses: 0,
            parts: 0,
            at: ms(0),
            expires_at: Timestamp::EPOCH,
            notice: None,
        },
    ]
}

async fn a_write_without_a_record_is_refused_and_creates_no_record<S: BatchStore>(store: &S) {
    for write in [counts(), processing()].concat() {
        let reply = store.write(batch(1), &write).await.unwrap();
        assert!(
            matches!(reply, BatchReply::Refused(None)),
            "{write:?}: {reply:?}"
        );
        assert_eq!(store.read(batch(1)).await.unwrap(), None, "{write:?}");
    }
}

async fn a_refused_write_returns_the_present_record<S: BatchStore>(store: &S) {
    store.create(&record(batch(1))).await.unwrap();
    let early = BatchWrite::Lease {
        lease: lease(ms(20_000)),
        at: ms(9_999),
        operator: None,
    };
    let reply = store.write(batch(1), &early).await.unwrap();
    assert!(matches!(reply, BatchReply::Refused(Some(found)) if *found == record(batch(1))));
}

/// Seals batch 1 with three of four seats claimed.
async fn seal<S: BatchStore>(store: &S) -> BatchRecord {
    store.create(&record(batch(1))).await.unwrap();
    let counts = BatchCounts {
        confirmed: 3,
        uncertain: 0,
        settled: (0..4).collect(),
        version: 1,
    };
    let at = ms(5_000);
    let due_at = None;
    applied(store, BatchWrite::Seal { counts, at, due_at }).await
}

fn witness(seqs: &[u32], witnesses: u64) -> BatchWrite {
    BatchWrite::Witness {
        witnessed: seqs.iter().copied().collect(),
        witnesses,
        chunks: SeqSet::new(),
    }
}

async fn witnesses_of_a_sealed_batch_are_merged_and_counted<S: BatchStore>(store: &S) {
    seal(store).await;
    applied(store, witness(&[2], 0)).await;
    let late = store.write(batch(1), &witness(&[0], 0)).await.unwrap();
    assert!(
        matches!(late, BatchReply::Refused(Some(_))),
        "another came first: {late:?}"
    );
    let both = applied(store, witness(&[0, 2], 1)).await;
    assert_eq!(both.witnesses, 2);
    assert_eq!(both.witnessed, [0, 2].into_iter().collect());
}

async fn a_batch_lives_from_open_to_complete<S: BatchStore>(store: &S) {
    assert_eq!(seal(store).await.status, Some(Status::Sealed));
    let take = BatchWrite::Lease {
        lease: lease(ms(60_000)),
        at: ms(6_000),
        operator: None,
    };
    let leased = applied(store, take).await;
    assert_eq!(
        (leased.status, leased.attempts),
        (Some(Status::Processing), 1)
    );
    let part = PartRecord::frozen((0..3).collect(), [7; 32], None);
    let frozen = applied(
        store,
        BatchWrite::Freeze {
            owner: owner(),
            index: 0,
            part: part.clone(),
        },
    )
    .await;
    assert_eq!(frozen.parts, [part]);
    let receipt = "where it went".to_owned();
    let at = Timestamp::from_ms(7);
    let delivered = BatchWrite::Delivered {
        owner: owner(),
        index: 0,
        receipt: receipt.clone(),
        delivered: None,
        at,
        rejects: None,
    };
    let delivered = applied(store, delivered).await;
    assert_eq!(
        delivered.parts[0].state,
        PartState::Delivered {
            receipt,
            at: Some(at)
        }
    );
    let end = BatchWrite::Complete {
        owner: owner(),
        counts_version: 1,
        witnesses: 0,
        parts: 1,
        at: ms(8_000),
        expires_at: Timestamp::EPOCH,
        notice: None,
    };
    let complete = applied(store, end).await;
    assert_eq!(
        (complete.status, &complete.lease, complete.completed_at),
        (None, &None, Some(ms(8_000)))
    );
    assert_eq!(store.read(batch(1)).await.unwrap(), Some(complete));
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

async fn a_complete_batch_is_never_overdue<S: BatchStore>(store: &S) {
    store.create(&record(batch(1))).await.unwrap();
    applied(
        store,
        BatchWrite::Lease {
            lease: lease(ms(60_000)),
            at: ms(10_000),
            operator: None,
        },
    )
    .await;
    let processing = Listing::Status(Status::Processing);
    assert_eq!(listed(store, processing, ms(1_000_000)).await.len(), 1);
    applied(
        store,
        BatchWrite::Complete {
            owner: owner(),
            counts_version: 0,
            witnesses: 0,
            parts: 0,
            at: ms(11_000),
            expires_at: Timestamp::EPOCH,
            notice: None,
        },
    )
    .await;
    for status in Status::ALL {
        let left = listed(store, Listing::Status(status), ms(1_000_000)).await;
        assert_eq!(left, [], "{status:?}");
    }
}
