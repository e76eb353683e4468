//! Batches: records, tickets, windows, keys and deadlines.

use protocol::batch::{BatchCounts, BatchWrite, Lease, Status};
use protocol::ids::LeaseOwner;
use shared::ports::BatchStore;
use shared::wire::TicketReason;

use super::*;

#[tokio::test]
async fn claims_are_counted_in_a_batch_that_has_a_record_and_a_ticket() {
    let aggregator = aggregator_with(&[]);
    let messages = [("m1", "e1", ""), ("m2", "e2", "")];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let record = only_batch(&aggregator);
    assert_eq!(record.status, Some(Status::Open));
    assert_eq!((record.confirmed, record.settled.len()), (2, 2));
    let tickets = aggregator.fakes.batch_queue.take();
    let [(ticket, delay)] = &tickets[..] else {
        panic!("one ticket: {tickets:?}");
    };
    assert_eq!(ticket.batch_id, record.batch_id);
    assert_eq!(ticket.reason, Some(TicketReason::Window));
    // 15 s to the deadline, 300 s of window, 2 s of clock skew.
    assert_eq!(*delay, Duration::from_secs(317));
    assert!(aggregator.fakes.metric_log.take()[0].contains(r#""Claimed":2"#));
}

#[tokio::test]
async fn later_invocations_join_the_batch_until_its_window_closes() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    aggregator.fakes.clock.advance(Duration::from_secs(299));
    invoke(&aggregator, &[("m2", "e2", "")]).await;
    assert_eq!(only_batch(&aggregator).confirmed, 2);
    aggregator.fakes.clock.advance(Duration::from_secs(1));
    invoke(&aggregator, &[("m3", "e3", "")]).await;
    let records = aggregator.fakes.batch_store.records();
    assert_eq!(records.len(), 2);
    // It was found past its window.
    assert_eq!(records[0].status, Some(Status::Sealed));
    let tickets = aggregator.fakes.batch_queue.take().into_iter();
    let reasons = tickets.map(|(ticket, _)| ticket.reason.unwrap());
    use TicketReason::{Sealed, Window};
    assert_eq!(Vec::from_iter(reasons), [Window, Sealed, Window]);
}

#[tokio::test]
async fn each_batch_key_has_a_batch_of_its_own_up_to_the_cap() {
    let aggregator = aggregator_with(&[("BATCH_KEY", "content"), ("BATCH_KEYS_MAX", "2")]);
    let messages = [
        ("m1", "e1", "a"),
        ("m2", "e2", "b"),
        ("m3", "e3", "a"),
        ("m4", "e4", "c"),
        ("m5", "e5", "c"),
    ];
    assert_eq!(invoke(&aggregator, &messages).await, ["m4", "m5"]);
    let of = |record: BatchRecord| (record.batch_key.unwrap().to_string(), record.confirmed);
    let records = aggregator.fakes.batch_store.records().into_iter();
    let mut batches: Vec<_> = records.map(of).collect();
    batches.sort();
    assert_eq!(batches, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
}

#[tokio::test]
async fn an_invocation_that_begins_within_the_margin_fails_with_both_times_and_starts_nothing() {
    let aggregator = aggregator_with(&[]);
    let deadline = aggregator.fakes.clock.now() + Duration::from_millis(2_999);
    let messages = [("m1", "e1", ""), ("m2", "e2", "")];
    let error = try_invoke_until(&aggregator, &messages, deadline).await;
    let error = error.unwrap_err().to_string();
    let words = "`DEADLINE_MARGIN_MS`: as long as the timeout, or longer: got `3000`, expected less than 2999, ";
    assert!(error.starts_with(words), "{error}");
    assert!(aggregator.fakes.batch_store.records().is_empty());
    assert!(aggregator.fakes.lock_store.items().is_empty());
}

#[tokio::test]
async fn a_claim_whose_batch_ended_before_it_was_counted_is_not_acknowledged() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    let batch = only_batch(&aggregator).batch_id;
    let owner: LeaseOwner = "p".parse().unwrap();
    // A processor with a wrong clock leases and completes the batch while the aggregator still claims into it.
    let at = START + Duration::from_secs(900);
    for write in [
        BatchWrite::Count(BatchCounts {
            confirmed: 0,
            uncertain: 0,
            settled: Default::default(),
            version: 9,
        }),
        BatchWrite::Lease {
            lease: Lease {
                owner: owner.clone(),
                until: at,
            },
            at,
            operator: None,
        },
        BatchWrite::Complete {
            owner,
            counts_version: 9,
            witnesses: 0,
            parts: 0,
            at,
            expires_at: Timestamp::EPOCH,
            notice: None,
        },
    ] {
        let store = &aggregator.fakes.batch_store;
        store.write(batch, &write).await.unwrap();
    }
    assert_eq!(invoke(&aggregator, &[("m2", "e2", "")]).await, ["m2"]);
}
