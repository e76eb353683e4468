//! The contract of the lock table: reads.

use std::collections::BTreeMap;

use protocol::claim::Claim;
use protocol::ids::EventId;
use shared::message_attributes::MessageAttributes;
use shared::ports::{IndexEntry, LockStore, Release, StoredEvent};

use crate::events::{ATTRIBUTES, batch, claim, claim_free, claim_in, event, item, ms};
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

async fn items_are_returned_in_the_order_of_the_ids<S: LockStore>(store: &S) {
    let claims: Vec<Claim> = (0..50)
        .map(|seq| claim(&format!("e{seq}"), "body", seq))
        .collect();
    claim_free(store, &claims).await;
    let ids: Vec<EventId> = (0..100).rev().map(|n| event(&format!("e{n}"))).collect();
    let items = store.read(&ids).await.unwrap();
    assert_eq!(items.len(), 100);
    for (id, found) in ids.iter().zip(items) {
        let claim = claims.iter().find(|claim| claim.candidate.event_id == *id);
        assert_eq!(found, claim.map(item), "{id}");
    }
}

async fn an_id_that_is_requested_twice_is_returned_twice<S: LockStore>(store: &S) {
    let there = claim("e", "body", 0);
    claim_free(store, std::slice::from_ref(&there)).await;
    let items = store
        .read(&[event("e"), event("f"), event("e")])
        .await
        .unwrap();
    assert_eq!(items, [Some(item(&there)), None, Some(item(&there))]);
    let (events, unread) = store
        .read_events(&[event("e"), event("f"), event("e")])
        .await
        .unwrap();
    assert!(!events.is_empty() && unread.is_empty());
    assert!(events.iter().all(|found| found.event_id == event("e")));
}

async fn a_read_of_no_ids_returns_nothing<S: LockStore>(store: &S) {
    assert!(store.read(&[]).await.unwrap().is_empty());
    let (events, unread) = store.read_events(&[]).await.unwrap();
    assert!(events.is_empty() && unread.is_empty());
    assert!(store.claim(&[]).await.is_empty());
    assert!(store.release(&[], Release::Deleted).await.is_empty());
}

async fn events_are_read_as_they_were_claimed<S: LockStore>(store: &S) {
    let mut claims: Vec<Claim> = [
        "",
        "{\"n\":1}",
        "zeile\nz\u{e4}hlt \u{1f980} '?' \"quoted\"",
    ]
    .iter()
    .zip(0..)
    .map(|(body, seq)| claim(&format!("e{seq} '\"?#"), body, seq))
    .collect();
    claims[1].candidate.attributes = Some(ATTRIBUTES.into());
    claim_free(store, &claims).await;
    let ids: Vec<EventId> = claims
        .iter()
        .map(|claim| claim.candidate.event_id.clone())
        .collect();
    let (mut events, unread) = store.read_events(&ids).await.unwrap();
    events.sort_by_key(|event| event.seq);
    assert!(unread.is_empty());
    let stored =
        |claim: &Claim| StoredEvent {
            event_id: claim.candidate.event_id.clone(),
            sqs_message_id: claim.candidate.sqs_message_id.clone(),
            body_hash: claim.candidate.body_hash,
            shard: claim.seat.shard(),
            seq: claim.seat.seq,
            body: claim.candidate.body.clone(),
            overflow: claim.overflow.clone().map(Box::new),
            source: claim.candidate.source.clone(),
            sent_at: claim.candidate.sent_at,
            attributes: claim.candidate.attributes.as_deref().and_then(|text| {
                MessageAttributes::read(text).expect("it is the JSON of attributes")
            }),
        };
    assert_eq!(events, claims.iter().map(stored).collect::<Vec<_>>());
}

async fn items_that_are_not_live_claims_are_not_read_as_events<S: LockStore>(store: &S) {
    let claims = [
        claim("live", "body", 0),
        claim_in(batch(2), "of another", "body", 0),
        claim("released", "body", 1),
    ];
    claim_free(store, &claims).await;
    store
        .release(
            &[(event("released"), claims[2].seat.key())],
            Release::Remembered(ms(5_000)),
        )
        .await;
    let ids = ["live", "of another", "released", "nothing"].map(event);
    let (events, unread) = store.read_events(&ids).await.unwrap();
    let mut found: Vec<&str> = events.iter().map(|event| event.event_id.as_str()).collect();
    found.sort_unstable();
    // Claims of any batch are returned; the event says its batch.
    assert_eq!(found, ["live", "of another"]);
    assert!(unread.is_empty());
}

async fn items_that_one_request_cannot_carry_are_read_by_further_requests<S: LockStore>(store: &S) {
    // 21 MB: DynamoDB returns at most 16 MB in one reply.
    let body = "x".repeat(350_000);
    let claims: Vec<Claim> = (0..60)
        .map(|seq| claim(&format!("e{seq}"), &body, seq))
        .collect();
    claim_free(store, &claims).await;
    let ids: Vec<EventId> = claims
        .iter()
        .map(|claim| claim.candidate.event_id.clone())
        .collect();

    let mut rest = ids.clone();
    let mut found = BTreeMap::new();
    while !rest.is_empty() {
        let (events, unread) = store.read_events(&rest).await.unwrap();
        assert!(unread.len() < rest.len() && unread.iter().all(|id| rest.contains(id)));
        found.extend(
            events
                .into_iter()
                .map(|event| (event.seq, event.body.len())),
        );
        rest = unread;
    }
    assert_eq!(found, (0..60).map(|seq| (seq, body.len())).collect());

    let mut items = Vec::new();
    while items.len() < ids.len() {
        let more = store.read(&ids[items.len()..]).await.unwrap();
        assert!(!more.is_empty());
        items.extend(more);
    }
    assert_eq!(
        items,
        claims
            .iter()
            .map(|claim| Some(item(claim)))
            .collect::<Vec<_>>()
    );
}

/// Returns every entry of a shard, and the number of pages.
async fn walk<S: LockStore>(store: &S, claim: &Claim) -> (Vec<IndexEntry>, usize) {
    let (mut entries, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let page = store
            .index(claim.seat.shard(), after.as_ref())
            .await
            .unwrap();
        entries.extend(page.entries);
        pages += 1;
        match page.next {
            None => return (entries, pages),
            Some(next) => after = Some(next),
        }
    }
}

async fn the_index_lists_exactly_the_live_claims_of_a_shard_in_order<S: LockStore>(store: &S) {
    // The ids have the maximum length, so that 600 entries of a shard do not fit a page of 1 MB.
    let id = |seq: u32| format!("{:0>2000}", (seq * 7_919) % 2_000);
    let claims: Vec<Claim> = (0..1_800).map(|seq| claim(&id(seq), "", seq)).collect();
    claim_free(store, &claims).await;
    claim_free(store, &[claim_in(batch(2), "of another batch", "", 0)]).await;
    for shard in 0..3 {
        let (entries, pages) = walk(store, &claims[shard]).await;
        let expected: Vec<IndexEntry> = claims
            .iter()
            .skip(shard)
            .step_by(3)
            .map(|claim| IndexEntry {
                event_id: claim.candidate.event_id.clone(),
                seq: claim.seat.seq,
            })
            .collect();
        assert_eq!(entries, expected);
        assert!(pages > 1, "{pages} page");
    }
}

async fn a_page_of_the_index_starts_after_the_given_entry<S: LockStore>(store: &S) {
    let claims: Vec<Claim> = (0..10)
        .map(|seq| claim(&format!("e{seq}"), "", seq * 3))
        .collect();
    claim_free(store, &claims).await;
    let shard = claims[0].seat.shard();
    // A page may also start after an entry that was released since, because the entry is only a position.
    store
        .release(&[(event("e6"), claims[6].seat.key())], Release::Deleted)
        .await;
    let after = IndexEntry {
        event_id: event("e6"),
        seq: 18,
    };
    let page = store.index(shard, Some(&after)).await.unwrap();
    assert_eq!(
        page.entries
            .iter()
            .map(|entry| entry.seq)
            .collect::<Vec<_>>(),
        [21, 24, 27]
    );
    assert_eq!(page.next, None);
    let nothing = claim_in(batch(2), "e", "", 0).seat.shard();
    let page = store.index(nothing, None).await.unwrap();
    assert!(page.entries.is_empty() && page.next.is_none());
}
