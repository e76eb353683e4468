//! The contract of the lock table: reads.

use std::collections::BTreeMap;

use protocol::claim::Claim;
use protocol::ids::EventId;
use shared::message_attributes::MessageAttributes;
use shared::ports::{IndexEntry, LockStore, Release, StoredEvent};

use crate::events::{
    ATTRIBUTES, batch, claim, claim_free, claim_in, claimed, claims, event, item, ms,
};
use crate::lock_store::lock_store_contract;

lock_store_contract! {
    items_are_returned_in_the_order_of_the_ids
    an_id_that_is_requested_twice_is_returned_twice
    a_read_of_no_ids_returns_nothing
    events_are_read_as_they_were_claimed
    items_that_are_not_live_claims_are_not_read_as_events
    items_that_one_request_cannot_carry_are_read_by_further_requests
    the_index_lists_exactly_the_live_claims_of_a_shard_in_order
    a_page_of_the_index_starts_after_the_given_entry
}

fn ids_of(claims: &[Claim]) -> Vec<EventId> {
    let ids = claims.iter().map(|claim| &claim.candidate.event_id);
    ids.cloned().collect()
}

async fn items_are_returned_in_the_order_of_the_ids(store: &dyn LockStore) {
    let claims = claims(50);
    claim_free(store, &claims).await;
    let ids: Vec<EventId> = (0..100).rev().map(|n| event(&format!("e{n}"))).collect();
    let items = store.read(&ids).await.unwrap();
    assert_eq!(items.len(), 100);
    for (id, found) in ids.iter().zip(items) {
        let claim = claims.iter().find(|claim| claim.candidate.event_id == *id);
        assert_eq!(found, claim.map(item), "{id}");
    }
}

async fn an_id_that_is_requested_twice_is_returned_twice(store: &dyn LockStore) {
    let there = item(&claimed(store, 0).await);
    let ids = ["e", "f", "e"].map(event);
    let items = store.read(&ids).await.unwrap();
    assert_eq!(items, [Some(there.clone()), None, Some(there)]);
    let (events, unread) = store.read_events(&ids).await.unwrap();
    assert!(!events.is_empty() && unread.is_empty());
    assert!(events.iter().all(|found| found.event_id == event("e")));
}

async fn a_read_of_no_ids_returns_nothing(store: &dyn LockStore) {
    assert!(store.read(&[]).await.unwrap().is_empty());
    let (events, unread) = store.read_events(&[]).await.unwrap();
    assert!(events.is_empty() && unread.is_empty());
    assert!(store.claim(&[]).await.is_empty());
    assert!(store.release(&[], Release::Deleted).await.is_empty());
}

async fn events_are_read_as_they_were_claimed(store: &dyn LockStore) {
    let odd = "zeile\nz\u{e4}hlt \u{1f980} '?' \"quoted\"";
    let mut claims = [
        claim("e0 '\"?#", "", 0),
        claim("e1 '\"?#", "{\"n\":1}", 1),
        claim("e2 '\"?#", odd, 2),
    ];
    claims[1].candidate.attributes = Some(ATTRIBUTES.into());
    claim_free(store, &claims).await;
    let (mut events, unread) = store.read_events(&ids_of(&claims)).await.unwrap();
    events.sort_by_key(|event| event.seq);
    assert!(unread.is_empty());
    let attributes = |text: &str| MessageAttributes::read(text).expect("it is JSON of attributes");
    let stored = claims.map(
        |Claim {
             candidate, seat, ..
         }| StoredEvent {
            shard: seat.shard(),
            seq: seat.seq,
            overflow: None,
            quota: None,
            attributes: candidate.attributes.as_deref().and_then(attributes),
            event_id: candidate.event_id,
            sqs_message_id: candidate.sqs_message_id,
            body_hash: candidate.body_hash,
            body: candidate.body,
            source: candidate.source,
            sent_at: candidate.sent_at,
        },
    );
    assert_eq!(events, stored);
}

async fn items_that_are_not_live_claims_are_not_read_as_events(store: &dyn LockStore) {
    let claims = [
        claim("live", "body", 0),
        claim_in(batch(2), "of another", "body", 0),
        claim("released", "body", 1),
    ];
    claim_free(store, &claims).await;
    let released = [(event("released"), claims[2].seat.key())];
    let until = Release::Remembered(ms(5_000));
    store.release(&released, until).await;
    let ids = ["live", "of another", "released", "nothing"].map(event);
    let (events, unread) = store.read_events(&ids).await.unwrap();
    let mut found: Vec<&str> = events.iter().map(|event| event.event_id.as_str()).collect();
    found.sort_unstable();
    // Claims of any batch are returned; the event says its batch.
    assert_eq!(found, ["live", "of another"]);
    assert!(unread.is_empty());
}

async fn items_that_one_request_cannot_carry_are_read_by_further_requests(store: &dyn LockStore) {
    // 21 MB: DynamoDB returns at most 16 MB in one reply.
    let body = "x".repeat(350_000);
    let large = |seq: u32| claim(&format!("e{seq}"), &body, seq);
    let claims: Vec<Claim> = (0..60).map(large).collect();
    claim_free(store, &claims).await;
    let ids = ids_of(&claims);

    let mut rest = ids.clone();
    let mut found = BTreeMap::new();
    while !rest.is_empty() {
        let (events, unread) = store.read_events(&rest).await.unwrap();
        assert!(unread.len() < rest.len() && unread.iter().all(|id| rest.contains(id)));
        let lengths = events.iter().map(|event| (event.seq, event.body.len()));
        found.extend(lengths);
        rest = unread;
    }
    assert_eq!(found, (0..60).map(|seq| (seq, body.len())).collect());

    let mut items = Vec::new();
    while items.len() < ids.len() {
        let more = store.read(&ids[items.len()..]).await.unwrap();
        assert!(!more.is_empty());
        items.extend(more);
    }
    let expected = claims.iter().map(|claim| Some(item(claim)));
    assert_eq!(items, Vec::from_iter(expected));
}

/// Returns every entry of a shard, and the number of pages.
async fn walk(store: &dyn LockStore, claim: &Claim) -> (Vec<IndexEntry>, usize) {
    let (mut entries, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let page = store.index(claim.seat.shard(), after.as_ref()).await;
        let page = page.unwrap();
        entries.extend(page.entries);
        pages += 1;
        match page.next {
            None => return (entries, pages),
            Some(next) => after = Some(next),
        }
    }
}

async fn the_index_lists_exactly_the_live_claims_of_a_shard_in_order(store: &dyn LockStore) {
    // The ids have the maximum length, so that 600 entries of a shard do not fit a page of 1 MB.
    let id = |seq: u32| format!("{:0>2000}", (seq * 7_919) % 2_000);
    let claims: Vec<Claim> = (0..1_800).map(|seq| claim(&id(seq), "", seq)).collect();
    claim_free(store, &claims).await;
    claim_free(store, &[claim_in(batch(2), "of another batch", "", 0)]).await;
    for shard in 0..3 {
        let (entries, pages) = walk(store, &claims[shard]).await;
        let expected = claims.iter().skip(shard).step_by(3);
        let expected = expected.map(|claim| IndexEntry {
            event_id: claim.candidate.event_id.clone(),
            seq: claim.seat.seq,
        });
        assert_eq!(entries, Vec::from_iter(expected));
        assert!(pages > 1, "{pages} page");
    }
}

async fn a_page_of_the_index_starts_after_the_given_entry(store: &dyn LockStore) {
    let third = |seq: u32| claim(&format!("e{seq}"), "", seq * 3);
    let claims: Vec<Claim> = (0..10).map(third).collect();
    claim_free(store, &claims).await;
    let shard = claims[0].seat.shard();
    // A page may also start after an entry that was released since, because the entry is only a position.
    let released = [(event("e6"), claims[6].seat.key())];
    store.release(&released, Release::Deleted).await;
    let after = IndexEntry {
        event_id: event("e6"),
        seq: 18,
    };
    let page = store.index(shard, Some(&after)).await.unwrap();
    let seqs = Vec::from_iter(page.entries.iter().map(|entry| entry.seq));
    assert_eq!(seqs, [21, 24, 27]);
    assert_eq!(page.next, None);
    let nothing = claim_in(batch(2), "e", "", 0).seat.shard();
    let page = store.index(nothing, None).await.unwrap();
    assert!(page.entries.is_empty() && page.next.is_none());
}
