//! `QUOTA`.

use protocol::ids::BatchId;
use protocol::quota::{QuotaAccount, QuotaScope};
use shared::named_items::Versioned;
use shared::ports::BatchStore;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3_600);
const QUOTA: [(&str, &str); 3] = [("QUOTA", "content"), ("QUOTA_MAX", "2"), QUARANTINE];

/// Returns the account of a key on the first day of 1970, in which the tests begin.
async fn account(aggregator: &Aggregator, key: &str) -> QuotaAccount {
    account_of(aggregator, &scope(key)).await
}

async fn account_of(aggregator: &Aggregator, scope: &QuotaScope) -> QuotaAccount {
    let read = aggregator.fakes.named_items.get(scope).await;
    read.unwrap().value
}

fn scope(key: &str) -> QuotaScope {
    scope_from(key, Timestamp::EPOCH)
}

fn scope_from(key: &str, begins: Timestamp) -> QuotaScope {
    QuotaScope {
        key: key.parse().unwrap(),
        begins,
        ends: begins + DAY,
    }
}

#[tokio::test]
async fn each_key_has_its_own_quota_and_what_is_beyond_it_goes_to_the_quarantine() {
    let aggregator = aggregator_with(&QUOTA);
    let first = [("m1", "e1", "a"), ("m2", "e2", "a"), ("m3", "e3", "b")];
    assert!(invoke(&aggregator, &first).await.is_empty());
    assert_eq!(confirmed(&aggregator), 3);
    let full = account(&aggregator, "a").await;
    assert_eq!((full.taken, full.reserved.is_empty()), (2, true));
    let more = [("m4", "e4", "a"), ("m5", "e5", "b")];
    assert!(invoke(&aggregator, &more).await.is_empty());
    let reason = "`QUOTA` exceeded: more than 2 events for this key from 1970-01-01T00:00:00Z to 1970-01-02T00:00:00Z";
    assert_eq!(reasons(&aggregator), [reason]);
    assert_eq!(confirmed(&aggregator), 4);
    let line = aggregator.fakes.metric_log.take().pop().unwrap();
    assert!(line.contains(r#""BeyondQuota":1"#), "{line}");
}

#[tokio::test]
async fn redeliveries_and_duplicates_take_no_place_and_are_not_beyond_a_full_quota() {
    let aggregator = aggregator_with(&QUOTA);
    invoke(&aggregator, &[("m1", "e1", "a"), ("m2", "e2", "a")]).await;
    let other = another(&aggregator, &QUOTA);
    let again = [("m1", "e1", "a"), ("m9", "e2", "a"), ("m3", "e3", "a")];
    assert!(invoke(&other, &again).await.is_empty());
    let reasons = reasons(&other);
    assert_eq!(reasons.len(), 1, "only e3 is beyond: {reasons:?}");
    assert_eq!(account(&other, "a").await.taken, 2);
}

#[tokio::test]
async fn places_that_duplicates_did_not_need_are_free_for_other_environments_at_once() {
    let aggregator = aggregator_with(&QUOTA);
    invoke(&aggregator, &[("m1", "e1", "a")]).await;
    let other = another(&aggregator, &QUOTA);
    // The duplicate has a place for as long as its claim is tried.
    assert!(invoke(&other, &[("m9", "e1", "a")]).await.is_empty());
    let left = account(&aggregator, "a").await;
    assert_eq!((left.taken, left.reserved.is_empty()), (1, true));
    let third = another(&aggregator, &QUOTA);
    let more = [("m2", "e2", "a")];
    assert!(invoke(&third, &more).await.is_empty());
    assert_eq!(account(&aggregator, "a").await.taken, 2);
    assert!(reasons(&aggregator).is_empty());
}

#[tokio::test]
async fn while_a_place_may_be_given_back_an_event_waits() {
    let aggregator = aggregator_with(&QUOTA);
    // An environment that died has reserved a place.
    let batch: BatchId = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
    let record = BatchRecord::open(batch, "arn:q".parse().unwrap(), None, 1, START, START);
    aggregator.fakes.batch_store.create(&record).await.unwrap();
    let mut reserved = QuotaAccount::default();
    reserved.reserve(batch, 7..8, 2);
    let store = &aggregator.fakes.named_items;
    let none = Versioned::default();
    let replaced = store.replace(&scope("a"), &none, &reserved).await;
    assert!(replaced.unwrap());
    let both = [("m1", "e1", "a"), ("m2", "e2", "a")];
    assert_eq!(invoke(&aggregator, &both).await, ["m2"]);
    assert!(reasons(&aggregator).is_empty());
    assert_eq!(account(&aggregator, "a").await.places(), 2);
    // Its batch is complete without the claim.
    aggregator.fakes.batch_store.remove(batch);
    let complete = BatchRecord {
        status: None,
        ..record
    };
    let store = &aggregator.fakes.batch_store;
    store.create(&complete).await.unwrap();
    assert!(invoke(&aggregator, &[("m2", "e2", "a")]).await.is_empty());
    assert_eq!(account(&aggregator, "a").await.taken, 2);
}

#[tokio::test]
async fn an_event_beyond_its_quota_has_a_place_if_it_is_sent_again_in_the_next_period() {
    let aggregator = aggregator_with(&QUOTA);
    invoke(&aggregator, &[("m1", "e1", "a"), ("m2", "e2", "a")]).await;
    assert!(invoke(&aggregator, &[("m3", "e3", "a")]).await.is_empty());
    assert_eq!(reasons(&aggregator).len(), 1);
    aggregator.fakes.clock.advance(DAY);
    assert!(invoke(&aggregator, &[("m4", "e3", "a")]).await.is_empty());
    assert!(reasons(&aggregator).is_empty());
    let next = scope_from("a", Timestamp::EPOCH + DAY);
    assert_eq!(account_of(&aggregator, &next).await.taken, 1);
}

#[tokio::test]
async fn an_event_of_a_quota_long_ago_goes_to_the_quarantine() {
    let aggregator = aggregator_with(&[("QUOTA_TIME", "id"), QUOTA[0], QUOTA[1], QUOTA[2]]);
    aggregator.fakes.clock.advance(40 * DAY);
    let messages = [
        ("m1", "1970-01-01T00:00:00Z", "a"),
        ("m2", "1970-02-09T00:00:00Z", "a"),
    ];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let reason = "`QUOTA_TIME`: got 1970-01-01T00:00:00Z, expected a time in a period that ended at most 30 days ago";
    assert_eq!(reasons(&aggregator), [reason]);
}

/// Sets the event `e1`, which message `m1` claimed in the only batch, aside, and completes the batch.
async fn set_aside(aggregator: &Aggregator) {
    let fakes = &aggregator.fakes;
    let mut record = only_batch(aggregator);
    let items = fakes.lock_store.items();
    let (_, item) = items.iter().find(|(id, _)| id.as_str() == "e1").unwrap();
    let (batch, seq) = item.state.claimed_seat().unwrap();
    assert_eq!(batch, record.batch_id);
    record.set_aside.insert(seq);
    record.status = None;
    record.completed_at = Some(START);
    fakes.batch_store.remove(batch);
    fakes.batch_store.create(&record).await.unwrap();
}

/// Returns whether the claim of `e1` took its place over.
fn is_taken_over(aggregator: &Aggregator) -> bool {
    let items = aggregator.fakes.lock_store.items();
    let (_, item) = items.iter().find(|(id, _)| id.as_str() == "e1").unwrap();
    item.place.unwrap().is_taken_over
}

/// Has an event set aside in a quota that is full or not. Then another message of it takes its
/// place over, and a third event the last one.
async fn keeps_its_place(is_full: bool) {
    let aggregator = aggregator_with(&QUOTA);
    invoke(&aggregator, &[("m1", "e1", "a")]).await;
    set_aside(&aggregator).await;
    let other = another(&aggregator, &QUOTA);
    if is_full {
        assert!(invoke(&other, &[("m2", "e2", "a")]).await.is_empty());
    }
    // It comes beside one that is beyond the quota, if it is full.
    let both = [("m8", "e8", "b"), ("m9", "e1", "a")];
    assert!(invoke(&other, &both).await.is_empty());
    assert!(is_taken_over(&other));
    let taken = account(&other, "a").await;
    let expected = if is_full { 2 } else { 1 };
    assert_eq!((taken.taken, taken.reserved.is_empty()), (expected, true));
    assert!(reasons(&other).is_empty());
    if !is_full {
        assert!(invoke(&other, &[("m2", "e2", "a")]).await.is_empty());
    }
    assert_eq!(account(&other, "a").await.taken, 2);
    // Its redelivery and a third message of it find the claim.
    let again = [("m9", "e1", "a"), ("m7", "e3", "a")];
    assert!(invoke(&other, &again).await.is_empty());
    assert!(invoke(&other, &[("m6", "e1", "a")]).await.is_empty());
    assert_eq!(reasons(&other).len(), 1, "only e3 is beyond the quota");
}

#[tokio::test]
async fn repro_an_event_that_was_set_aside_was_beyond_its_quota_when_it_came_again() {
    for is_full in [true, false] {
        keeps_its_place(is_full).await;
    }
}

#[tokio::test]
async fn an_event_that_was_set_aside_needs_a_place_in_another_period() {
    let aggregator = aggregator_with(&QUOTA);
    invoke(&aggregator, &[("m1", "e1", "a")]).await;
    set_aside(&aggregator).await;
    aggregator.fakes.clock.advance(DAY);
    let other = another(&aggregator, &QUOTA);
    assert!(invoke(&other, &[("m9", "e1", "a")]).await.is_empty());
    assert!(!is_taken_over(&other));
    let next = scope_from("a", Timestamp::EPOCH + DAY);
    assert_eq!(account_of(&other, &next).await.taken, 1);
    assert_eq!(account(&other, "a").await.taken, 1);
}
