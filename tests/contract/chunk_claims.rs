//! The contract of the lock table: claims whose bodies are in chunks.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::claim::{Claim, LockItem, LockState};
use protocol::ids::{BatchShard, ChunkSeat, EventId, SeatKey};
use protocol::limits::DYNAMODB_ITEM_BYTES_MAX;
use shared::aws::DynamoLockStore;
use shared::config::WriteMode;
use shared::ports::{ClaimReply, LockStore, Release};

use crate::dynamo::{self, BATCH_INDEX};
use crate::events::{
    ATTRIBUTES, CHUNK_CLAIMS_EXPIRE_AT, SHARDS, batch, chunk_claim, chunk_claim_in, claim,
    claim_all, claim_free, claim_in, event, item, ms, read_one, tombstone,
};
use crate::lock_store::{
    assert_exists, assert_expires_in_the_next_second, assert_released, lock_store_contract,
};

lock_store_contract! {
    a_chunk_claim_is_written_once_and_reads_back
    claims_of_every_form_are_written_by_one_request
    a_chunk_claim_has_room_whatever_the_size_of_its_body
    a_chunk_claim_never_expires_too_early
    a_chunk_claim_is_not_read_as_an_event
    a_chunk_claim_is_never_in_the_index
    a_release_of_a_chunk_claim_changes_nothing
    a_chunk_claim_is_replaced_only_in_the_expected_state
    a_claim_with_its_body_is_replaced_by_a_chunk_claim_only_in_the_expected_state
    a_tombstone_is_replaced_by_a_chunk_claim_only_in_the_expected_state
    a_tombstone_that_became_a_chunk_claim_since_it_was_read_is_not_replaced
    a_chunk_claim_that_is_gone_is_not_replaced
}

fn past_of(mut claim: Claim) -> Claim {
    claim.past = [
        ("older".parse().unwrap(), ms(1)),
        ("old".parse().unwrap(), ms(2)),
    ]
    .into();
    claim
}

async fn release_of<S: LockStore>(store: &S, claim: &Claim, release: Release) {
    let seats = [(claim.candidate.event_id.clone(), claim.seat.key())];
    assert_released(&store.release(&seats, release).await);
}

async fn a_chunk_claim_is_written_once_and_reads_back<S: LockStore>(store: &S) {
    // Seats of several chunks; every second claim has past deliveries.
    let first: Vec<Claim> = (0..30)
        .map(|seq| match seq % 2 {
            0 => chunk_claim(&format!("e{seq}"), "body", seq),
            _ => past_of(chunk_claim(&format!("e{seq}"), "body", seq)),
        })
        .collect();
    claim_free(store, &first).await;
    let ids: Vec<EventId> = first.iter().map(|c| c.candidate.event_id.clone()).collect();
    let read = store.read(&ids).await.unwrap();
    for (claim, found) in first.iter().zip(read) {
        let seat = claim.seat;
        let found = found.unwrap();
        let in_chunk = LockState::InChunk {
            batch: batch(1),
            seq: seat.seq,
            chunk: seat.seq.saturating_sub(3),
            expires_at: CHUNK_CLAIMS_EXPIRE_AT,
        };
        assert_eq!(found.state, in_chunk);
        assert_eq!(found, item(claim));
    }
    // Neither a chunk claim nor a claim with its body takes its place.
    for other in [claim_in, chunk_claim_in] {
        let second: Vec<Claim> = (0..30)
            .map(|seq| other(batch(2), &format!("e{seq}"), "other", seq + 7))
            .collect();
        for (first, reply) in first.iter().zip(claim_all(store, &second).await) {
            assert_exists(&reply, &item(first));
            let found = read_one(store, first.candidate.event_id.as_str()).await;
            assert_eq!(found, Some(item(first)));
        }
    }
}

async fn claims_of_every_form_are_written_by_one_request<S: LockStore>(store: &S) {
    let mut claims: Vec<Claim> = (0..4)
        .map(|seq| claim(&format!("e{seq}"), "body", seq))
        .chain((4..8).map(|seq| chunk_claim(&format!("e{seq}"), "body", seq)))
        .collect();
    for claim in claims.iter_mut().skip(1).step_by(2) {
        *claim = past_of(claim.clone());
    }
    for index in [2, 3, 6, 7] {
        claims[index].candidate.attributes = Some(ATTRIBUTES.into());
    }
    claim_free(store, &claims).await;
    for claim in &claims {
        let found = read_one(store, claim.candidate.event_id.as_str()).await;
        assert_eq!(found, Some(item(claim)));
    }
}

async fn a_chunk_claim_has_room_whatever_the_size_of_its_body<S: LockStore>(store: &S) {
    let large = "x".repeat(DYNAMODB_ITEM_BYTES_MAX + 1);
    let mut there = chunk_claim("e", &large, 0);
    there.candidate.attributes = Some(large.as_str().into());
    claim_free(store, std::slice::from_ref(&there)).await;
    let new = chunk_claim_in(batch(2), "e", &large, 5);
    let reply = store.replace(&new, &item(&there)).await;
    assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
    assert_eq!(read_one(store, "e").await, Some(item(&new)));
}

async fn a_chunk_claim_never_expires_too_early<S: LockStore>(store: &S) {
    let mut old = chunk_claim("e", "body", 5);
    old.seat.chunk = Some(ChunkSeat {
        first: 2,
        claim_expires_at: ms(5_001),
    });
    claim_free(store, &[old]).await;
    assert_expires_in_the_next_second(store).await;
}

async fn a_chunk_claim_is_not_read_as_an_event<S: LockStore>(store: &S) {
    let claims = [
        claim("with its body", "body", 0),
        chunk_claim("in a chunk", "body", 1),
    ];
    claim_free(store, &claims).await;
    let ids = ["in a chunk", "with its body"].map(event);
    let (events, unread) = store.read_events(&ids).await.unwrap();
    let found: Vec<&str> = events.iter().map(|event| event.event_id.as_str()).collect();
    assert_eq!(found, ["with its body"]);
    assert!(unread.is_empty(), "{unread:?}");
}

/// Returns every event id that the index lists for batch 1 or batch 2.
async fn indexed<S: LockStore>(store: &S) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (number, shard) in (1..=2).flat_map(|batch| (0..SHARDS).map(move |shard| (batch, shard))) {
        let shard = BatchShard {
            batch: batch(number),
            shard,
        };
        let page = store.index(shard, None).await.unwrap();
        assert_eq!(page.next, None);
        let ids = page.entries.into_iter();
        found.extend(ids.map(|entry| entry.event_id.as_str().to_owned()));
    }
    found
}

async fn a_chunk_claim_is_never_in_the_index<S: LockStore>(store: &S) {
    let chunk_claims: Vec<Claim> = (0..10)
        .map(|seq| chunk_claim(&format!("in a chunk {seq}"), "body", seq))
        .collect();
    claim_free(store, &chunk_claims).await;
    claim_free(store, &[claim("with its body", "body", 10)]).await;
    let with_its_body = BTreeSet::from(["with its body".to_owned()]);
    assert_eq!(indexed(store).await, with_its_body);
    // A replacement takes the entry away, or adds one.
    let there = item(&claim("with its body", "body", 10));
    let new = chunk_claim_in(batch(2), "with its body", "body", 0);
    let reply = store.replace(&new, &there).await;
    assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
    assert_eq!(indexed(store).await, BTreeSet::new());
    let back = claim_in(batch(2), "in a chunk 4", "body", 1);
    let reply = store.replace(&back, &item(&chunk_claims[4])).await;
    assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
    let listed = BTreeSet::from(["in a chunk 4".to_owned()]);
    assert_eq!(indexed(store).await, listed);
}

async fn a_release_of_a_chunk_claim_changes_nothing<S: LockStore>(store: &S) {
    let held = past_of(chunk_claim("e", "body", 4));
    claim_free(store, std::slice::from_ref(&held)).await;
    let another_seat = SeatKey {
        seq: 1,
        ..held.seat.key()
    };
    for seat in [held.seat.key(), another_seat] {
        for release in [
            Release::Remembered(ms(5_000)),
            Release::SetAside(ms(5_000)),
            Release::Deleted,
        ] {
            assert_released(&store.release(&[(event("e"), seat)], release).await);
            assert_eq!(read_one(store, "e").await, Some(item(&held)), "{release:?}");
        }
    }
}

/// Tries to replace `there` by `new` with several similar expected items, then with the correct one.
async fn only_the_expected_item_is_replaced<S: LockStore>(
    store: &S,
    new: &Claim,
    there: &LockItem,
    near_misses: &[LockItem],
) {
    for expected in near_misses {
        assert_exists(&store.replace(new, expected).await, there);
        let found = read_one(store, "e").await;
        assert_eq!(found.as_ref(), Some(there), "expected {expected:?}");
    }
    let reply = store.replace(new, there).await;
    assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
    assert_eq!(read_one(store, "e").await, Some(item(new)));
    // A retry of the replacement finds the item that the first attempt wrote.
    assert_exists(&store.replace(new, there).await, &item(new));
    assert_eq!(read_one(store, "e").await, Some(item(new)));
    let is_event = new.seat.chunk.is_none();
    let (events, _) = store.read_events(&[event("e")]).await.unwrap();
    assert_eq!(events.len(), usize::from(is_event));
    let listed = BTreeSet::from_iter(is_event.then(|| "e".to_owned()));
    assert_eq!(indexed(store).await, listed);
}

/// Returns claims of event `e` that replace another: of both forms, with and without past deliveries.
fn replacements() -> Vec<Claim> {
    let mut chunk_claim = chunk_claim_in(batch(2), "e", "new", 9);
    let mut claim = claim_in(batch(2), "e", "new", 9);
    for claim in [&mut chunk_claim, &mut claim] {
        claim.candidate.sqs_message_id = "the-new-message".parse().unwrap();
    }
    vec![
        chunk_claim.clone(),
        past_of(chunk_claim),
        claim.clone(),
        past_of(claim),
    ]
}

/// Returns items like `there`, of another message and in other states.
fn near_misses(there: &LockItem, states: &[LockState]) -> Vec<LockItem> {
    let with = |state: &LockState| LockItem {
        state: *state,
        ..there.clone()
    };
    let mut misses: Vec<LockItem> = states.iter().map(with).collect();
    misses.push(LockItem {
        sqs_message_id: "another".parse().unwrap(),
        ..there.clone()
    });
    misses
}

/// Removes the claim `there` of event `e` in whatever form it is, by replacing it with a claim that is then released.
async fn clear<S: LockStore>(store: &S) {
    let there = read_one(store, "e").await.unwrap();
    let last = claim_in(batch(2), "e", "last", 0);
    let reply = store.replace(&last, &there).await;
    assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
    release_of(store, &last, Release::Deleted).await;
    assert_eq!(read_one(store, "e").await, None);
}

async fn a_chunk_claim_is_replaced_only_in_the_expected_state<S: LockStore>(store: &S) {
    let old = past_of(chunk_claim("e", "body", 4));
    let there = item(&old);
    let expires_at = CHUNK_CLAIMS_EXPIRE_AT;
    let in_chunk = |batch, seq| LockState::InChunk {
        batch,
        seq,
        chunk: 1,
        expires_at,
    };
    let misses = near_misses(
        &there,
        &[
            in_chunk(batch(1), 5),
            in_chunk(batch(3), 4),
            LockState::Live {
                shard: old.seat.shard(),
                seq: 4,
            },
            LockState::Tombstone { expires_at },
        ],
    );
    for new in replacements() {
        claim_free(store, std::slice::from_ref(&old)).await;
        only_the_expected_item_is_replaced(store, &new, &there, &misses).await;
        clear(store).await;
    }
}

async fn a_claim_with_its_body_is_replaced_by_a_chunk_claim_only_in_the_expected_state<
    S: LockStore,
>(
    store: &S,
) {
    let mut old = past_of(claim("e", "body", 4));
    old.candidate.attributes = Some(ATTRIBUTES.into());
    let there = item(&old);
    let expires_at = CHUNK_CLAIMS_EXPIRE_AT;
    let in_chunk = LockState::InChunk {
        batch: batch(1),
        seq: 4,
        chunk: 1,
        expires_at,
    };
    let misses = near_misses(&there, &[in_chunk, LockState::Tombstone { expires_at }]);
    for new in replacements() {
        claim_free(store, std::slice::from_ref(&old)).await;
        only_the_expected_item_is_replaced(store, &new, &there, &misses).await;
        clear(store).await;
    }
}

async fn a_tombstone_is_replaced_by_a_chunk_claim_only_in_the_expected_state<S: LockStore>(
    store: &S,
) {
    let old = past_of(claim("e", "body", 4));
    let expires_at = ms(5_000);
    let in_chunk = LockState::InChunk {
        batch: batch(1),
        seq: 4,
        chunk: 1,
        expires_at,
    };
    let live = LockState::Live {
        shard: old.seat.shard(),
        seq: 4,
    };
    for release in [
        Release::Remembered(expires_at),
        Release::SetAside(expires_at),
    ] {
        let there = LockItem {
            set_aside: matches!(release, Release::SetAside(_)),
            ..tombstone(&old, expires_at)
        };
        let misses = near_misses(&there, &[in_chunk, live]);
        for new in replacements() {
            claim_free(store, std::slice::from_ref(&old)).await;
            release_of(store, &old, release).await;
            only_the_expected_item_is_replaced(store, &new, &there, &misses).await;
            clear(store).await;
        }
    }
}

async fn a_tombstone_that_became_a_chunk_claim_since_it_was_read_is_not_replaced<S: LockStore>(
    store: &S,
) {
    let old = claim("e", "body", 4);
    claim_free(store, std::slice::from_ref(&old)).await;
    release_of(store, &old, Release::Remembered(CHUNK_CLAIMS_EXPIRE_AT)).await;
    let read = read_one(store, "e").await.unwrap();
    // Another invocation claims the event for the same message. Only its batch tells the claim from the tombstone,
    // because the claim's TTL happens to be the end of the tombstone.
    let first = chunk_claim("e", "body", 5);
    let reply = store.replace(&first, &read).await;
    assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
    for new in replacements() {
        assert_exists(&store.replace(&new, &read).await, &item(&first));
        assert_eq!(read_one(store, "e").await, Some(item(&first)));
    }
}

async fn a_chunk_claim_that_is_gone_is_not_replaced<S: LockStore>(store: &S) {
    let old = chunk_claim("e", "body", 0);
    for expected in [item(&old), tombstone(&old, ms(0)), item(&claim("e", "", 0))] {
        for new in replacements() {
            let reply = store.replace(&new, &expected).await;
            assert!(matches!(reply, ClaimReply::Exists(None)), "{reply:?}");
            assert_eq!(read_one(store, "e").await, None);
        }
    }
}

/// Returns the names of the attributes of event `e`.
async fn attributes(client: &Client, table: &str) -> BTreeSet<String> {
    let key = AttributeValue::S("e".to_owned());
    let get = client.get_item().table_name(table).key("messageId", key);
    let got = get.consistent_read(true).send().await.unwrap();
    got.item.unwrap().into_keys().collect()
}

/// Returns the attributes that docs/protocol.md lists for a claim.
fn documented(claim: &Claim) -> BTreeSet<String> {
    let mut names = vec!["messageId", "sqsMessageId", "bodyHash", "seq"];
    names.extend(match claim.seat.chunk {
        Some(_) => ["batch", "chunk", "expiresAt"].as_slice(),
        None => ["batchId", "message", "source", "sentAt"].as_slice(),
    });
    let with_body = claim.seat.chunk.is_none();
    if with_body && claim.candidate.attributes.is_some() {
        names.push("attributes");
    }
    if !claim.past.is_empty() {
        names.push("pastDeliveries");
    }
    names.into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_replacement_has_exactly_the_attributes_of_its_form() {
    let dynamodb = dynamo::dynamodb();
    let table = dynamo::lock_table(&dynamodb).await;
    let with_attributes = |mut claim: Claim| {
        claim.candidate.attributes = Some(ATTRIBUTES.into());
        claim
    };
    let former = [
        with_attributes(past_of(claim("e", "body", 4))),
        with_attributes(past_of(chunk_claim("e", "body", 4))),
    ];
    for mode in [WriteMode::Batch, WriteMode::Put] {
        let store = DynamoLockStore::new(dynamodb.clone(), &table, BATCH_INDEX, mode);
        for old in &former {
            for new in replacements() {
                claim_free(&store, std::slice::from_ref(old)).await;
                assert_eq!(attributes(&dynamodb, &table).await, documented(old));
                let reply = store.replace(&new, &item(old)).await;
                assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
                assert_eq!(attributes(&dynamodb, &table).await, documented(&new));
                clear(&store).await;
            }
        }
        // From the tombstone of an event that was set aside, which has an attribute of its own.
        for new in replacements() {
            claim_free(&store, &former[..1]).await;
            release_of(&store, &former[0], Release::SetAside(ms(5_000))).await;
            let there = read_one(&store, "e").await.unwrap();
            let reply = store.replace(&new, &there).await;
            assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
            assert_eq!(attributes(&dynamodb, &table).await, documented(&new));
            clear(&store).await;
        }
    }
}

#[tokio::test]
async fn a_refused_put_returns_the_existing_chunk_claim() {
    let store = dynamo::lock_store(WriteMode::Put).await;
    let there = past_of(chunk_claim("e", "body", 4));
    claim_free(&store, std::slice::from_ref(&there)).await;
    let met = |reply: ClaimReply| match reply {
        ClaimReply::Exists(item) => item,
        other => panic!("{other:?}"),
    };
    let other = chunk_claim_in(batch(2), "e", "other", 0);
    let mut replies = store.claim(std::slice::from_ref(&other)).await;
    assert_eq!(met(replies.remove(0)), Some(item(&there)));
    let reply = store.replace(&other, &tombstone(&there, ms(0))).await;
    assert_eq!(met(reply), Some(item(&there)));
}
