//! `OVERFLOW_BUCKET`.

use protocol::ids::BodyHash;
use shared::memory::noise;
use shared::ports::{LockStore, OverflowStore};

use super::*;

const BUCKET: (&str, &str) = ("OVERFLOW_BUCKET", "bodies");

#[tokio::test]
async fn a_body_that_fits_no_item_is_stored_under_its_seat_and_claimed_without_it() {
    let aggregator = aggregator_with(&[BUCKET]);
    let large = noise(600_000);
    let messages = [("m1", "e1", ""), ("m2", "e2", &*large), ("m3", "e3", "")];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let batch = only_batch(&aggregator);
    assert_eq!(confirmed_in(&aggregator, &batch), 3);
    let fakes = &aggregator.fakes;
    assert!(fakes.quarantine_queue.take().is_empty());
    let ids = ["e1", "e2", "e3"].map(|id| id.parse().unwrap());
    let (events, _) = fakes.lock_store.read_events(&ids).await.unwrap();
    let mut events = events.into_iter().filter(|event| event.overflow.is_some());
    let event = events.next().unwrap();
    assert!(events.next().is_none());
    assert_eq!((event.event_id.as_str(), &*event.body), ("e2", ""));
    let object = event.overflow.as_ref().unwrap();
    assert_eq!(object.key, format!("{}/{}", batch.batch_id, event.seq));
    assert_eq!(fakes.overflow_store.keys(), [&*object.key]);
    let body = fakes.overflow_store.get(object).await.unwrap().unwrap();
    assert_eq!(object.bytes, body.len() as u64);
    assert_eq!(BodyHash::of(body.as_bytes()), event.body_hash);
}

#[tokio::test]
async fn a_body_that_was_stored_for_a_duplicate_is_removed() {
    let aggregator = aggregator_with(&[BUCKET]);
    let large = noise(600_000);
    let failed = invoke(&aggregator, &[("m1", "e1", &large)]).await;
    assert!(failed.is_empty());
    let first = aggregator.fakes.overflow_store.keys();
    assert_eq!(first.len(), 1);
    // Past its window, the batch is no longer remembered here.
    aggregator.fakes.clock.advance(Duration::from_secs(400));
    let failed = invoke(&aggregator, &[("m2", "e1", &large)]).await;
    assert!(failed.is_empty());
    assert_eq!(aggregator.fakes.overflow_store.keys(), first);
}

#[tokio::test]
async fn without_a_bucket_it_is_quarantined_and_its_neighbours_are_claimed() {
    let aggregator = aggregator_with(&[]);
    let large = noise(600_000);
    let messages = [("m1", "e1", ""), ("m2", "e2", &*large)];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let quarantined = aggregator.fakes.quarantine_queue.take();
    assert_eq!(quarantined.len(), 1);
    assert!(quarantined[0].reason.contains("expected at most 409600"));
    assert_eq!(confirmed(&aggregator), 1);
}

#[tokio::test]
async fn an_event_without_messages_tries_out_the_bucket_and_leaves_nothing() {
    let aggregator = aggregator_with(&[BUCKET]);
    assert!(invoke(&aggregator, &[]).await.is_empty());
    assert!(aggregator.fakes.overflow_store.keys().is_empty());
    assert!(aggregator.fakes.batch_store.records().is_empty());
}
