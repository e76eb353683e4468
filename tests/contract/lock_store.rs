//! The contract of the lock table: writes.

use protocol::claim::{Claim, LockItem, LockState};
use protocol::ids::SeatKey;
use protocol::limits::DYNAMODB_ITEM_BYTES_MAX;
use shared::config::WriteMode;
use shared::memory::MemoryLockStore;
use shared::ports::{ClaimReply, LockStore, Release, ReleaseReply};

use crate::dynamo;
use crate::events::{
    ATTRIBUTES, assert_written, batch, claim, claim_all, claim_free, claim_in, claimed, claims,
    event, item, item_of, ms, past, read_one, releases, replacements, tombstone,
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
    a_set_aside_tombstone_is_marked_and_keeps_past_deliveries_until_it_is_replaced
    only_the_own_tombstone_of_a_seat_is_marked_as_rejected
    a_table_has_items_from_the_first_claim_on
}

async fn a_table_has_items_from_the_first_claim_on(store: &dyn LockStore) {
    assert!(!store.has_items().await.unwrap());
    claimed(store, 0).await;
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

async fn release(store: &dyn LockStore, claim: &Claim, release: Release) {
    let seats = [(claim.candidate.event_id.clone(), claim.seat.key())];
    assert_released(&store.release(&seats, release).await);
}

async fn a_claim_is_written_once_and_the_first_one_stays(store: &dyn LockStore) {
    let first = claims(30);
    claim_free(store, &first).await;
    // Every second claim is new.
    let other = |seq: u32| claim_in(batch(2), &format!("e{seq}"), "other", seq);
    let second: Vec<Claim> = (0..60).step_by(2).map(other).collect();
    for (claim, reply) in second.iter().zip(claim_all(store, &second).await) {
        match first.get(claim.seat.seq as usize) {
            Some(first) => {
                assert_exists(&reply, &item(first));
                assert_eq!(item_of(store, first).await, Some(item(first)));
            }
            None => assert_written(&reply),
        }
    }
}

async fn an_event_that_is_claimed_twice_in_one_request_is_written_once(store: &dyn LockStore) {
    let (first, second) = (claim("e", "one", 0), claim("e", "two", 1));
    let replies = claim_all(store, &[first.clone(), second, claim("f", "three", 2)]).await;
    assert_written(&replies[0]);
    assert_exists(&replies[1], &item(&first));
    assert_written(&replies[2]);
    assert_eq!(item_of(store, &first).await, Some(item(&first)));
}

async fn a_claim_of_a_tombstone_finds_it(store: &dyn LockStore) {
    let old = claimed(store, 0).await;
    release(store, &old, Release::Remembered(ms(5_000))).await;
    let replies = store.claim(&[claim_in(batch(2), "e", "body", 0)]).await;
    assert_exists(&replies[0], &tombstone(&old, ms(5_000)));
    assert_eq!(item_of(store, &old).await, Some(tombstone(&old, ms(5_000))));
}

async fn a_claim_that_is_too_large_is_unstorable_and_the_others_are_written(store: &dyn LockStore) {
    let mut claims = claims(3);
    claims[1] = claim("e1", &"x".repeat(DYNAMODB_ITEM_BYTES_MAX), 1);
    let replies = claim_all(store, &claims).await;
    assert_written(&replies[0]);
    let reply = &replies[1];
    assert!(matches!(reply, ClaimReply::Unstorable(_)), "{reply:?}");
    assert_written(&replies[2]);
    assert_eq!(read_one(store, "e1").await, None);
    // The largest claim that the adapter sends is accepted by the table.
    let mut fits = claim("fits", "", 3);
    let room = DYNAMODB_ITEM_BYTES_MAX - fits.candidate.item_bytes();
    fits.candidate.body = "x".repeat(room).into();
    claim_free(store, &[fits]).await;
}

async fn attributes_and_past_deliveries_of_a_claim_are_kept(store: &dyn LockStore) {
    let mut claims = claims(4);
    for claim in &mut claims[1..3] {
        claim.candidate.attributes = Some(ATTRIBUTES.into());
    }
    for claim in &mut claims[2..4] {
        claim.past = past();
    }
    claim_free(store, &claims).await;
    for claim in &claims {
        assert_eq!(item_of(store, claim).await, Some(item(claim)));
        release(store, claim, Release::Remembered(ms(0))).await;
        let ended = tombstone(claim, ms(0));
        assert_eq!(item_of(store, claim).await, Some(ended));
    }
}

/// Returns an item like this one, of another message.
pub fn of_another_message(item: &LockItem) -> LockItem {
    LockItem {
        sqs_message_id: "another".parse().unwrap(),
        ..item.clone()
    }
}

/// Tries to replace `there`, the item of event `e`, with several similar expected items, then with the correct one.
pub async fn only_the_expected_item_is_replaced(
    store: &dyn LockStore,
    new: &Claim,
    there: &LockItem,
    near_misses: &[LockItem],
) {
    for expected in near_misses {
        assert_exists(&store.replace(new, expected).await, there);
        let found = read_one(store, "e").await;
        assert_eq!(found.as_ref(), Some(there), "expected {expected:?}");
    }
    assert_written(&store.replace(new, there).await);
    assert_eq!(read_one(store, "e").await, Some(item(new)));
    let (events, _) = store.read_events(&[event("e")]).await.unwrap();
    assert_eq!((events.len(), &*events[0].body), (1, "new"));
    // A retry of the replacement finds the item that the first attempt wrote.
    assert_exists(&store.replace(new, there).await, &item(new));
}

async fn a_live_claim_is_replaced_only_in_the_expected_state(store: &dyn LockStore) {
    let old = claimed(store, 4).await;
    let there = item(&old);
    let live = |shard, seq| LockItem {
        state: LockState::Live { shard, seq },
        ..there.clone()
    };
    let near_misses = [
        of_another_message(&there),
        live(old.seat.shard(), 5),
        live(claim_in(batch(3), "e", "body", 4).seat.shard(), 4),
        tombstone(&old, ms(0)),
    ];
    let [_, new] = replacements();
    only_the_expected_item_is_replaced(store, &new, &there, &near_misses).await;
}

async fn a_tombstone_is_replaced_only_in_the_expected_state(store: &dyn LockStore) {
    let old = claimed(store, 4).await;
    release(store, &old, Release::Remembered(ms(5_000))).await;
    let there = tombstone(&old, ms(5_000));
    let near_misses = [
        of_another_message(&there),
        tombstone(&old, ms(4_000)),
        tombstone(&old, ms(6_000)),
        item(&old),
    ];
    let [_, new] = replacements();
    only_the_expected_item_is_replaced(store, &new, &there, &near_misses).await;
}

async fn an_item_that_is_gone_is_not_replaced(store: &dyn LockStore) {
    let old = claim("e", "body", 0);
    for expected in [item(&old), tombstone(&old, ms(0))] {
        let new = claim_in(batch(2), "e", "new", 0);
        let reply = store.replace(&new, &expected).await;
        assert!(matches!(reply, ClaimReply::Exists(None)), "{reply:?}");
        assert_eq!(item_of(store, &old).await, None);
    }
}

async fn a_replacement_that_is_too_large_leaves_the_existing_item(store: &dyn LockStore) {
    let old = claimed(store, 0).await;
    let large = claim_in(batch(2), "e", &"x".repeat(DYNAMODB_ITEM_BYTES_MAX), 0);
    let reply = store.replace(&large, &item(&old)).await;
    assert!(matches!(reply, ClaimReply::Unstorable(_)), "{reply:?}");
    assert_eq!(item_of(store, &old).await, Some(item(&old)));
}

async fn a_release_leaves_a_tombstone_that_remembers_the_message(store: &dyn LockStore) {
    let claims = claims(5);
    claim_free(store, &claims).await;
    for claim in &claims {
        release(store, claim, Release::Remembered(ms(5_000))).await;
        let ended = tombstone(claim, ms(5_000));
        assert_eq!(item_of(store, claim).await, Some(ended));
        let id = &claim.candidate.event_id;
        let (events, unread) = store.read_events(std::slice::from_ref(id)).await.unwrap();
        assert!(events.is_empty() && unread.is_empty(), "{events:?}");
        let page = store.index(claim.seat.shard(), None).await.unwrap();
        let is_listed = page.entries.iter().any(|entry| entry.event_id == *id);
        assert!(!is_listed, "{page:?}");
    }
}

async fn a_release_without_a_window_leaves_nothing(store: &dyn LockStore) {
    let old = claimed(store, 0).await;
    release(store, &old, Release::Deleted).await;
    assert_eq!(item_of(store, &old).await, None);
    let page = store.index(old.seat.shard(), None).await.unwrap();
    assert!(page.entries.is_empty());
    claim_free(store, &[claim_in(batch(2), "e", "body", 0)]).await;
}

async fn a_release_of_another_seats_claim_changes_nothing(store: &dyn LockStore) {
    let held = claimed(store, 0).await;
    let another_batch = claim_in(batch(2), "e", "body", 0).seat.key();
    let another_shard = claim("e", "body", 1).seat.key();
    let another_seq = SeatKey {
        shard: held.seat.shard(),
        ..another_shard
    };
    for seat in [another_batch, another_shard, another_seq] {
        for release in releases() {
            assert_released(&store.release(&[(event("e"), seat)], release).await);
            assert_eq!(item_of(store, &held).await, Some(item(&held)));
            // It does not create an item either.
            assert_released(&store.release(&[(event("nothing"), seat)], release).await);
            assert_eq!(read_one(store, "nothing").await, None);
        }
    }
}

async fn every_release_has_a_reply_and_may_be_repeated(store: &dyn LockStore) {
    let claims = claims(25);
    claim_free(store, &claims).await;
    let seat = |claim: &Claim| (claim.candidate.event_id.clone(), claim.seat.key());
    let all: Vec<_> = claims.iter().map(seat).collect();
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
            let there = item_of(store, claim).await;
            assert_eq!(there, Some(tombstone(claim, ms(5_000))));
        }
    }
}

async fn a_tombstone_never_ends_too_early(store: &dyn LockStore) {
    let old = claimed(store, 0).await;
    release(store, &old, Release::Remembered(ms(5_001))).await;
    let there = item_of(store, &old).await.unwrap();
    // The TTL of the table is in seconds. A replacement may expect the item as it was read.
    let ends = there.expires_at().unwrap();
    assert!((ms(5_001)..=ms(6_000)).contains(&ends), "{ends}");
    let new = claim_in(batch(2), "e", "new", 0);
    assert_written(&store.replace(&new, &there).await);
}

async fn a_set_aside_tombstone_is_marked_and_keeps_past_deliveries_until_it_is_replaced(
    store: &dyn LockStore,
) {
    let mut old = claim("e", "body", 0);
    old.past.insert("earlier".parse().unwrap(), ms(4_000));
    claim_free(store, std::slice::from_ref(&old)).await;
    release(store, &old, Release::SetAside(ms(5_000))).await;
    let there = LockItem {
        set_aside: true,
        ..tombstone(&old, ms(5_000))
    };
    assert_eq!(item_of(store, &old).await, Some(there.clone()));
    let new = claim("e", "other", 1);
    assert_written(&store.replace(&new, &there).await);
    assert_eq!(item_of(store, &new).await, Some(item(&new)));
}

async fn only_the_own_tombstone_of_a_seat_is_marked_as_rejected(store: &dyn LockStore) {
    let old = claim("e", "body", 0);
    let (id, message) = (&old.candidate.event_id, &old.candidate.sqs_message_id);
    let mark = async |seat: SeatKey| {
        let marked = store.mark_rejected(id, message, seat, ms(9_000)).await;
        marked.unwrap();
        item_of(store, &old).await
    };
    assert_eq!(mark(old.seat.key()).await, None);
    claim_free(store, std::slice::from_ref(&old)).await;
    assert_eq!(mark(old.seat.key()).await, Some(item(&old)));
    release(store, &old, Release::Remembered(ms(5_000))).await;
    let another = claim("e", "body", 1).seat.key();
    assert_eq!(mark(another).await, Some(tombstone(&old, ms(5_000))));
    let marked = LockItem {
        set_aside: true,
        ..tombstone(&old, ms(9_000))
    };
    for _ in 0..2 {
        assert_eq!(mark(old.seat.key()).await, Some(marked.clone()));
    }
}

#[tokio::test]
async fn a_request_carries_25_items_in_batches_and_1_otherwise() {
    assert_eq!(MemoryLockStore::new().items_per_request(), 25);
    for (mode, items) in [(WriteMode::Batch, 25), (WriteMode::Put, 1)] {
        let store = dynamo::lock_store(mode).await;
        assert_eq!(store.items_per_request(), items);
    }
}

#[tokio::test]
async fn a_refused_put_returns_the_existing_item() {
    let store = dynamo::lock_store(WriteMode::Put).await;
    let there = item(&claimed(&store, 0).await);
    let replies = store.claim(&[claim_in(batch(2), "e", "other", 0)]).await;
    let is_met = matches!(&replies[..], [ClaimReply::Exists(Some(met))] if *met == there);
    assert!(is_met, "{replies:?}");
}
