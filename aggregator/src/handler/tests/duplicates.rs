//! Duplicates, with both values of `ON_DUPLICATE`.

use protocol::batch::Status;
use protocol::claim::LockState;
use protocol::ids::Seat;
use shared::ports::{LockStore, Release};

use super::*;

/// Removes the item of an event from the table, so that only the environment still remembers the event.
fn remove_item(aggregator: &Aggregator, event: &str) -> EventId {
    let event: EventId = event.parse().unwrap();
    assert!(aggregator.fakes.lock_store.get(&event).is_some());
    aggregator.fakes.lock_store.remove(&event);
    event
}

#[tokio::test]
async fn duplicates_of_remembered_claims_take_no_seats_and_full_batches_start_at_once() {
    let aggregator = aggregator_with(&[("MAX_BATCH_SIZE", "3")]);
    let messages = [
        ("m1", "e1", ""),
        ("m2", "e1", ""),
        ("m3", "e2", ""),
        ("m4", "e3", ""),
        ("m5", "e4", ""),
    ];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let messages = [("m6", "e4", ""), ("m7", "e5", ""), ("m8", "e6", "")];
    invoke(&aggregator, &messages).await;
    let records = aggregator.fakes.batch_store.records();
    let sizes = records
        .iter()
        .map(|record| (record.status, confirmed_in(&aggregator, record)));
    assert_eq!(Vec::from_iter(sizes), [(Some(Status::Sealed), 3); 2]);
    // Of a sealed batch, only the table knows.
    invoke(&aggregator, &[("m9", "e1", ""), ("m10", "e7", "")]).await;
    let records = aggregator.fakes.batch_store.records();
    let mut open = records
        .iter()
        .filter(|record| record.status == Some(Status::Open));
    let open = open.next().unwrap();
    let reserved = open.reservations.as_ref().unwrap().reserved;
    assert_eq!((reserved, confirmed_in(&aggregator, open)), (2, 1));
    let tickets = aggregator.fakes.batch_queue.take().into_iter();
    assert_eq!(tickets.filter(|(_, delay)| delay.is_zero()).count(), 2);
}

#[tokio::test]
async fn duplicates_of_counted_claims_of_the_open_batch_send_no_request_to_the_table() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", ""), ("m2", "e2", "")]).await;
    let event = remove_item(&aggregator, "e1");
    let messages = [("m1", "e1", ""), ("m3", "e1", ""), ("m4", "e3", "")];
    let failed = invoke(&aggregator, &messages).await;
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(aggregator.fakes.lock_store.get(&event), None);
    // Duplicates take no seats.
    let counts = counts(&aggregator, &only_batch(&aggregator));
    assert_eq!((counts.confirmed, counts.settled.len()), (3, 3));
    let line = aggregator.fakes.metric_log.take().pop().unwrap();
    assert!(line.contains(r#""Duplicates":1"#), "{line}");
    assert!(line.contains(r#""Redelivered":1"#), "{line}");
}

#[tokio::test]
async fn conflicting_content_under_a_remembered_id_is_compared_with_the_table() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    invoke(&aggregator, &[("m2", "e1", "other")]).await;
    let quarantine = aggregator.fakes.quarantine_queue;
    assert_eq!(quarantine.take().len(), 1);
}

#[tokio::test]
async fn events_of_a_closed_or_full_batch_are_not_remembered() {
    let aggregator = aggregator_with(&[("MAX_BATCH_SIZE", "2")]);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    let event = remove_item(&aggregator, "e1");
    let is_claimed = |event: &EventId| aggregator.fakes.lock_store.get(event).is_some();
    aggregator.fakes.clock.advance(Duration::from_secs(300));
    invoke(&aggregator, &[("m2", "e1", "")]).await;
    assert!(is_claimed(&event), "claimed again");
    invoke(&aggregator, &[("m3", "e2", "")]).await;
    let event = remove_item(&aggregator, "e2");
    invoke(&aggregator, &[("m4", "e2", "")]).await;
    assert!(is_claimed(&event), "claimed again");
}

#[tokio::test]
async fn with_requeue_duplicates_fail_until_the_first_event_was_delivered() {
    let aggregator = aggregator_with(&[("ON_DUPLICATE", "requeue")]);
    let both = [("m1", "e1", ""), ("m2", "e1", "")];
    // Then a redelivery of both.
    for _ in 0..2 {
        assert_eq!(invoke(&aggregator, &both).await, ["m2"]);
    }
    let seat = Seat {
        batch: only_batch(&aggregator).batch_id,
        seq: 0,
        shards: 10,
    };
    let released = [("e1".parse().unwrap(), seat.key())];
    let expires_at = aggregator.fakes.clock.now() + Duration::from_secs(3_600);
    let store = &aggregator.fakes.lock_store;
    store
        .release(&released, Release::Remembered(expires_at))
        .await;
    aggregator.fakes.clock.advance(Duration::from_secs(300));
    assert!(invoke(&aggregator, &[("m2", "e1", "")]).await.is_empty());
    let (_, item) = &aggregator.fakes.lock_store.items()[0];
    assert!(matches!(item.state, LockState::Live { .. }) && item.past.len() == 1);
    // The first message is still remembered.
    let before = confirmed(&aggregator);
    assert!(invoke(&aggregator, &[("m1", "e1", "")]).await.is_empty());
    assert_eq!(confirmed(&aggregator), before);
}
