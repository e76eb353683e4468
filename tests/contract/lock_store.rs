//! The contract of the lock table: writes.

use protocol::claim::{Claim, LockItem, LockState};
use protocol::ids::SeatKey;
use protocol::limits::DYNAMODB_ITEM_BYTES_MAX;
use shared::config::WriteMode;
use shared::memory::MemoryLockStore;
use shared::ports::{ClaimReply, LockStore, Release, ReleaseReply};

use crate::dynamo;
use crate::events::{
    ATTRIBUTES, batch, claim, claim_all, claim_free, claim_in, event, item, ms, place, read_one,
    tombstone,
};

/// Makes every check of the contract a test of each implementation. `on` names what makes the one on DynamoDB.
macro_rules! lock_store_contract {
    ($($claim:ident)*) => {
        $crate::lock_store::lock_store_contract! { on $crate::dynamo::lock_store, $($claim)* }
    };
    (on $dynamo:path, $($claim:ident)*) => {
        mod memory {
            $(#[tokio::test] async fn $claim() {
                super::$claim(&shared::memory::MemoryLockStore::new()).await;
            })*
        }
        mod dynamo_in_batches {
            $(#[tokio::test] async fn $claim() {
                super::$claim(&$dynamo(shared::config::WriteMode::Batch).await).await;
            })*
        }
        mod dynamo_by_puts {
            $(#[tokio::test] async fn $claim() {
                super::$claim(&$dynamo(shared::config::WriteMode::Put).await).await;
            })*
        }
    };
}
pub(crate) use lock_store_contract;

lock_store_contract! {
    a_claim_is_written_once_and_the_first_one_stays
    an_event_that_is_claimed_twice_in_one_request_is_written_once
    a_claim_of_a_tombstone_finds_it
    a_claim_that_is_too_large_is_unstorable_and_the_others_are_written
    attributes_and_past_deliveries_of_a_claim_are_kept
    a_live_claim_is_replaced_only_in_the_expected_state
    a_tombstone_is_replaced_only_in_the_expected_state
    an_item_that_is_gone_is_not_replaced
    a_replacement_that_is_too_large_leaves_the_existing_item
    a_release_leaves_a_tombstone_that_remembers_the_message
    a_release_without_a_window_leaves_nothing
    a_release_of_another_seats_claim_changes_nothing
    every_release_has_a_reply_and_may_be_repeated
    a_tombstone_never_ends_too_early
    a_tombstone_of_a_set_aside_event_is_marked_and_keeps_past_deliveries_until_it_is_replaced
    a_table_has_items_from_the_first_claim_on
}

async fn a_table_has_items_from_the_first_claim_on<S: LockStore>(store: &S) {
    assert!(!store.has_items().await.unwrap());
    claim_free(store, &[claim("e", "body", 0)]).await;
    assert!(store.has_items().await.unwrap());
}

pub fn assert_exists(reply: &ClaimReply, there: &LockItem) {
    match reply {
        // A store need not return the existing item.
        ClaimReply::Exists(None) => {}
        ClaimReply::Exists(Some(item)) => assert_eq!(item, there),
        other => panic!("{other:?}"),
    }
}

pub fn assert_released(replies: &[ReleaseReply]) {
    for reply in replies {
        assert!(matches!(reply, ReleaseReply::Released), "{reply:?}");
    }
}

async fn a_claim_is_written_once_and_the_first_one_stays<S: LockStore>(store: &S) {
    let first: Vec<Claim> = (0..30)
        .map(|seq| claim(&format!("e{seq}"), "body", seq))
        .collect();
    claim_free(store, &first).await;
    // Every second claim is new.
    let second: Vec<Claim> = (0..60)
        .step_by(2)
        .map(|n| claim_in(batch(2), &format!("e{n}"), "other", n))
        .collect();
    for (claim, reply) in second.iter().zip(claim_all(store, &second).await) {
        match first.get(claim.seat.seq as usize) {
            Some(first) => {
                assert_exists(&reply, &item(first));
                assert_eq!(
                    read_one(store, first.candidate.event_id.as_str()).await,
                    Some(item(first))
                );
            }
            None => assert!(matches!(reply, ClaimReply::Written), "{reply:?}"),
        }
    }
}

async fn an_event_that_is_claimed_twice_in_one_request_is_written_once<S: LockStore>(store: &S) {
    let (first, second) = (claim("e", "one", 0), claim("e", "two", 1));
    let replies = claim_all(store, &[first.clone(), second, claim("f", "three", 2)]).await;
    assert!(
        matches!(replies[0], ClaimReply::Written),
        "{:?}",
        replies[0]
    );
    assert_exists(&replies[1], &item(&first));
    assert!(
        matches!(replies[2], ClaimReply::Written),
        "{:?}",
        replies[2]
    );
    assert_eq!(read_one(store, "e").await, Some(item(&first)));
}

async fn a_claim_of_a_tombstone_finds_it<S: LockStore>(store: &S) {
    let old = claim("e", "body", 0);
    claim_free(store, std::slice::from_ref(&old)).await;
    assert_released(
        &store
            .release(
                &[(event("e"), old.seat.key())],
                Release::Remembered(ms(5_000)),
            )
            .await,
    );
    let replies = store.claim(&[claim_in(batch(2), "e", "body", 0)]).await;
    assert_exists(&replies[0], &tombstone(&old, ms(5_000)));
    assert_eq!(read_one(store, "e").await, Some(tombstone(&old, ms(5_000))));
}

async fn a_claim_that_is_too_large_is_unstorable_and_the_others_are_written<S: LockStore>(
    store: &S,
) {
    let large = "x".repeat(DYNAMODB_ITEM_BYTES_MAX);
    let claims = [
        claim("e0", "body", 0),
        claim("e1", &large, 1),
        claim("e2", "body", 2),
    ];
    let replies = claim_all(store, &claims).await;
    assert!(
        matches!(replies[0], ClaimReply::Written),
        "{:?}",
        replies[0]
    );
    assert!(
        matches!(replies[1], ClaimReply::Unstorable(_)),
        "{:?}",
        replies[1]
    );
    assert!(
        matches!(replies[2], ClaimReply::Written),
        "{:?}",
        replies[2]
    );
    assert_eq!(read_one(store, "e1").await, None);
    // The largest claim that the adapter sends is accepted by the table.
    let mut fits = claim("fits", "", 3);
    let room = DYNAMODB_ITEM_BYTES_MAX - fits.candidate.item_bytes();
    fits.candidate.body = "x".repeat(room).into();
    claim_free(store, &[fits]).await;
}

async fn attributes_and_past_deliveries_of_a_claim_are_kept<S: LockStore>(store: &S) {
    let mut claims: Vec<Claim> = (0..4)
        .map(|seq| claim(&format!("e{seq}"), "body", seq))
        .collect();
    for claim in &mut claims[1..3] {
        claim.candidate.attributes = Some(ATTRIBUTES.into());
    }
    for claim in &mut claims[2..4] {
        claim.past = [
            ("older".parse().unwrap(), ms(1)),
            ("old".parse().unwrap(), ms(2)),
        ]
        .into();
    }
    claim_free(store, &claims).await;
    for claim in &claims {
        assert_eq!(
            read_one(store, claim.candidate.event_id.as_str()).await,
            Some(item(claim))
        );
        assert_released(
            &store
                .release(
                    &[(claim.candidate.event_id.clone(), claim.seat.key())],
                    Release::Remembered(ms(0)),
                )
                .await,
        );
        assert_eq!(
            read_one(store, claim.candidate.event_id.as_str()).await,
            Some(tombstone(claim, ms(0)))
        );
    }
}

/// Tries to replace `there` with several similar expected items, then with the correct one.
async fn only_the_expected_item_is_replaced<S: LockStore>(
    store: &S,
    there: &LockItem,
    near_misses: &[LockItem],
) {
    let mut new = claim_in(batch(2), "e", "new", 9);
    new.candidate.sqs_message_id = "the-new-message".parse().unwrap();
    new.past = [("old".parse().unwrap(), ms(2))].into();
    for expected in near_misses {
        assert_exists(&store.replace(&new, expected).await, there);
        assert_eq!(
            read_one(store, "e").await.as_ref(),
            Some(there),
            "expected {expected:?}"
        );
    }
    let reply = store.replace(&new, there).await;
    assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
    assert_eq!(read_one(store, "e").await, Some(item(&new)));
    let (events, _) = store.read_events(&[event("e")]).await.unwrap();
    assert_eq!(&*events[0].body, "new");
    // A retry of the replacement finds the item that the first attempt wrote.
    assert_exists(&store.replace(&new, there).await, &item(&new));
}

async fn a_live_claim_is_replaced_only_in_the_expected_state<S: LockStore>(store: &S) {
    let old = claim("e", "body", 4);
    claim_free(store, std::slice::from_ref(&old)).await;
    let there = item(&old);
    let shard = old.seat.shard();
    let other_shard = claim_in(batch(3), "e", "body", 4).seat.shard();
    let near_misses = [
        LockItem {
            sqs_message_id: "another".parse().unwrap(),
            ..there.clone()
        },
        LockItem {
            state: LockState::Live { shard, seq: 5 },
            ..there.clone()
        },
        LockItem {
            state: LockState::Live {
                shard: other_shard,
                seq: 4,
            },
            ..there.clone()
        },
        tombstone(&old, ms(0)),
    ];
    only_the_expected_item_is_replaced(store, &there, &near_misses).await;
}

async fn a_tombstone_is_replaced_only_in_the_expected_state<S: LockStore>(store: &S) {
    let old = claim("e", "body", 4);
    claim_free(store, std::slice::from_ref(&old)).await;
    assert_released(
        &store
            .release(
                &[(event("e"), old.seat.key())],
                Release::Remembered(ms(5_000)),
            )
            .await,
    );
    let there = tombstone(&old, ms(5_000));
    let near_misses = [
        LockItem {
            sqs_message_id: "another".parse().unwrap(),
            ..there.clone()
        },
        tombstone(&old, ms(4_000)),
        tombstone(&old, ms(6_000)),
        item(&old),
    ];
    only_the_expected_item_is_replaced(store, &there, &near_misses).await;
}

async fn an_item_that_is_gone_is_not_replaced<S: LockStore>(store: &S) {
    let old = claim("e", "body", 0);
    for expected in [item(&old), tombstone(&old, ms(0))] {
        let reply = store
            .replace(&claim_in(batch(2), "e", "new", 0), &expected)
            .await;
        assert!(matches!(reply, ClaimReply::Exists(None)), "{reply:?}");
        assert_eq!(read_one(store, "e").await, None);
    }
}

async fn a_replacement_that_is_too_large_leaves_the_existing_item<S: LockStore>(store: &S) {
    let old = claim("e", "body", 0);
    claim_free(store, std::slice::from_ref(&old)).await;
    let large = claim_in(batch(2), "e", &"x".repeat(DYNAMODB_ITEM_BYTES_MAX), 0);
    let reply = store.replace(&large, &item(&old)).await;
    assert!(matches!(reply, ClaimReply::Unstorable(_)), "{reply:?}");
    assert_eq!(read_one(store, "e").await, Some(item(&old)));
}

async fn a_release_leaves_a_tombstone_that_remembers_the_message<S: LockStore>(store: &S) {
    let claims: Vec<Claim> = (0..5)
        .map(|seq| claim(&format!("e{seq}"), "body", seq))
        .collect();
    claim_free(store, &claims).await;
    for claim in &claims {
        let released = [(claim.candidate.event_id.clone(), claim.seat.key())];
        assert_released(
            &store
                .release(&released, Release::Remembered(ms(5_000)))
                .await,
        );
        assert_eq!(
            read_one(store, claim.candidate.event_id.as_str()).await,
            Some(tombstone(claim, ms(5_000)))
        );
        let (events, unread) = store
            .read_events(std::slice::from_ref(&claim.candidate.event_id))
            .await
            .unwrap();
        assert!(
            events.is_empty() && unread.is_empty(),
            "{events:?} {unread:?}"
        );
        let page = store.index(claim.seat.shard(), None).await.unwrap();
        assert!(
            page.entries
                .iter()
                .all(|entry| entry.event_id != claim.candidate.event_id),
            "{page:?}"
        );
    }
}

async fn a_release_without_a_window_leaves_nothing<S: LockStore>(store: &S) {
    let old = claim("e", "body", 0);
    claim_free(store, std::slice::from_ref(&old)).await;
    assert_released(
        &store
            .release(&[(event("e"), old.seat.key())], Release::Deleted)
            .await,
    );
    assert_eq!(read_one(store, "e").await, None);
    assert!(
        store
            .index(old.seat.shard(), None)
            .await
            .unwrap()
            .entries
            .is_empty()
    );
    claim_free(store, &[claim_in(batch(2), "e", "body", 0)]).await;
}

async fn a_release_of_another_seats_claim_changes_nothing<S: LockStore>(store: &S) {
    let held = claim("e", "body", 0);
    claim_free(store, std::slice::from_ref(&held)).await;
    let another_batch = claim_in(batch(2), "e", "body", 0).seat.key();
    let another_shard = claim("e", "body", 1).seat.key();
    let another_seq = SeatKey {
        shard: held.seat.shard(),
        ..another_shard
    };
    for seat in [another_batch, another_shard, another_seq] {
        for release in [
            Release::Remembered(ms(5_000)),
            Release::SetAside(ms(5_000)),
            Release::Deleted,
        ] {
            assert_released(&store.release(&[(event("e"), seat)], release).await);
            assert_eq!(read_one(store, "e").await, Some(item(&held)));
            // It does not create an item either.
            assert_released(&store.release(&[(event("nothing"), seat)], release).await);
            assert_eq!(read_one(store, "nothing").await, None);
        }
    }
}

async fn every_release_has_a_reply_and_may_be_repeated<S: LockStore>(store: &S) {
    let claims: Vec<Claim> = (0..25)
        .map(|seq| claim(&format!("e{seq}"), "body", seq))
        .collect();
    claim_free(store, &claims).await;
    let all: Vec<_> = claims
        .iter()
        .map(|claim| (claim.candidate.event_id.clone(), claim.seat.key()))
        .collect();
    for release in [
        Release::Remembered(ms(5_000)),
        Release::SetAside(ms(9_000)),
        Release::Deleted,
    ] {
        for request in all.chunks(store.items_per_request()) {
            let replies = store.release(request, release).await;
            assert_eq!(replies.len(), request.len());
            assert_released(&replies);
        }
        // Only the first release finds a live claim with its seat.
        for claim in &claims {
            let there = read_one(store, claim.candidate.event_id.as_str()).await;
            assert_eq!(there, Some(tombstone(claim, ms(5_000))));
        }
    }
}

async fn a_tombstone_never_ends_too_early<S: LockStore>(store: &S) {
    let old = claim("e", "body", 0);
    claim_free(store, std::slice::from_ref(&old)).await;
    assert_released(
        &store
            .release(
                &[(event("e"), old.seat.key())],
                Release::Remembered(ms(5_001)),
            )
            .await,
    );
    assert_expires_in_the_next_second(store).await;
}

/// Checks that the item of `e`, which was to expire at 5,001 ms, expires in whole seconds and not before, and that a
/// replacement may expect the item as it was read.
pub(crate) async fn assert_expires_in_the_next_second<S: LockStore>(store: &S) {
    let there = read_one(store, "e").await.unwrap();
    // The TTL of the table is in seconds.
    let expires_at = there.expires_at().unwrap();
    assert!(
        expires_at >= ms(5_001) && expires_at <= ms(6_000),
        "{expires_at}"
    );
    let reply = store
        .replace(&claim_in(batch(2), "e", "new", 0), &there)
        .await;
    assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
}

#[tokio::test]
async fn a_request_carries_25_items_in_batches_and_1_otherwise() {
    assert_eq!(MemoryLockStore::new().items_per_request(), 25);
    assert_eq!(
        dynamo::lock_store(WriteMode::Batch)
            .await
            .items_per_request(),
        25
    );
    assert_eq!(
        dynamo::lock_store(WriteMode::Put).await.items_per_request(),
        1
    );
}

#[tokio::test]
async fn a_refused_put_returns_the_existing_item() {
    let store = dynamo::lock_store(WriteMode::Put).await;
    let there = claim("e", "body", 0);
    claim_free(&store, std::slice::from_ref(&there)).await;
    let reply = store
        .claim(&[claim_in(batch(2), "e", "other", 0)])
        .await
        .remove(0);
    assert!(
        matches!(&reply, ClaimReply::Exists(Some(met)) if *met == item(&there)),
        "{reply:?}"
    );
}

async fn a_tombstone_of_a_set_aside_event_is_marked_and_keeps_past_deliveries_until_it_is_replaced<
    S: LockStore,
>(
    store: &S,
) {
    let mut old = claim("e", "body", 0);
    old.past.insert("earlier".parse().unwrap(), ms(4_000));
    old.place = Some(place(false));
    claim_free(store, std::slice::from_ref(&old)).await;
    let seats = [(event("e"), old.seat.key())];
    let release = Release::SetAside(ms(5_000));
    assert_released(&store.release(&seats, release).await);
    let there = LockItem {
        set_aside: true,
        ..tombstone(&old, ms(5_000))
    };
    assert_eq!(read_one(store, "e").await, Some(there.clone()));
    let mut new = claim("e", "other", 1);
    new.place = Some(place(true));
    let reply = store.replace(&new, &there).await;
    assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
    assert_eq!(read_one(store, "e").await, Some(item(&new)));
}
