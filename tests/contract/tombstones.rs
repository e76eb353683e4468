//! Tombstones that an operator puts.

use protocol::claim::LockItem;
use shared::config::WriteMode;
use shared::ports::{ClaimReply, LockItems, LockStore};

use crate::dynamo::lock_store;
use crate::events::{batch, claim_free, claim_in, event, item, ms, read_one, tombstone};

#[tokio::test]
async fn a_tombstone_is_put_if_there_is_no_item_and_again_but_not_in_the_place_of_another() {
    let store = lock_store(WriteMode::Put).await;
    let claim = claim_in(batch(1), "a", "body", 3);
    let seat = Some((claim.seat.batch, claim.seat.seq));
    let put = async |item: &LockItem| store.remember(&event("a"), item, seat, None).await.unwrap();
    let mut delivered = tombstone(&claim, ms(9_000));
    delivered.past = [("p".parse().unwrap(), ms(5))].into();
    assert!(put(&delivered).await);
    assert!(put(&delivered).await, "it may be a retry");
    assert!(!put(&tombstone(&claim, ms(10_000))).await);
    assert_eq!(read_one(&store, "a").await, Some(delivered));
    assert_eq!(store.last_seat(&event("a")).await.unwrap(), seat);
}

#[tokio::test]
async fn a_tombstone_is_put_in_the_place_of_an_item_that_is_as_expected() {
    let store = lock_store(WriteMode::Put).await;
    let claim = claim_in(batch(1), "live", "body", 3);
    claim_free(&store, std::slice::from_ref(&claim)).await;
    let id = &claim.candidate.event_id;
    let ended = tombstone(&claim, ms(1_000));
    let other = item(&claim_in(batch(1), "live", "body", 9));
    let refused = store.remember(id, &ended, None, Some(&other));
    assert!(!refused.await.unwrap());
    let mut present = item(&claim);
    for expires_at in [ms(1_000), ms(2_000)] {
        let mut next = tombstone(&claim, expires_at);
        next.set_aside = true;
        let put = store.remember(id, &next, None, Some(&present));
        assert!(put.await.unwrap());
        assert_eq!(read_one(&store, id.as_str()).await.as_ref(), Some(&next));
        present = next;
    }
    // A claim meets it as any other tombstone.
    let reply = store.claim(std::slice::from_ref(&claim)).await;
    assert!(matches!(reply[..], [ClaimReply::Exists(_)]), "{reply:?}");
}
