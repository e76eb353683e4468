//! Properties of claims and batch records that are written as items and read back.

use std::fmt::Debug;

use aws_sdk_dynamodb::types::AttributeValue;
use proptest::prelude::*;
use protocol::batch::{BatchRecord, Lease, PartRecord, PartState, Status};
use protocol::claim::{Candidate, Claim, LockItem, LockState, Overflow};
use protocol::ids::{BatchId, BodyHash, Seat, Seq};
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;

use super::attributes::{Item, ttl};
use super::batch_items::{read_record, record_item};
use super::lock_items::{
    ClaimForm, EXPIRES_AT, OF_LIVE_CLAIMS, claim_item, claim_names, claim_values, index_key,
    read_event, read_index_entry, read_lock_item,
};
use crate::compression::compress;
use crate::ports::{IndexEntry, StoredEvent};

fn text(bytes: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>(), bytes).prop_map(String::from_iter)
}

/// Draws a text id, which is never empty.
fn id<T: Debug + for<'a> TryFrom<&'a str>>() -> impl Strategy<Value = T> {
    text(1..=30).prop_map(|text| T::try_from(&text).ok().unwrap())
}

fn batch_ids() -> impl Strategy<Value = BatchId> {
    any::<u128>().prop_map(|id| BatchId::new(uuid::Uuid::from_u128(id)))
}

fn time() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp::from_ms)
}

/// Draws a time in whole seconds, as the TTL stores it.
fn time_secs() -> impl Strategy<Value = Timestamp> {
    any::<u32>().prop_map(|secs| Timestamp::from_ms(u64::from(secs) * 1_000))
}

fn seqs() -> impl Strategy<Value = SeqSet> {
    prop::collection::vec(any::<Seq>(), 0..20).prop_map(SeqSet::from_iter)
}

fn claims() -> impl Strategy<Value = Claim> {
    let candidate = (
        id(),
        id(),
        // A piece makes a small item; the piece repeated thirty times makes a large item that compression makes
        // smaller.
        (text(0..=100), prop::sample::select(vec![1, 30]))
            .prop_map(|(text, times)| text.repeat(times)),
        id(),
        time(),
        prop::option::of(text(0..=50)),
    );
    let seat = (batch_ids(), any::<Seq>(), 1..=100_u16);
    let past = prop::collection::btree_map(id(), time(), 0..4);
    let overflow = (text(1..=20), text(1..=20), any::<u64>());
    let overflow = overflow.prop_map(|(bucket, key, bytes)| Overflow {
        bucket: bucket.into(),
        key,
        bytes,
    });
    let overflow = prop::option::of(overflow);
    (candidate, seat, overflow, past).prop_map(
        |(candidate, (batch, seq, shards), overflow, past)| {
            let (event_id, sqs_message_id, body, source, sent_at, attributes) = candidate;
            Claim {
                candidate: Candidate {
                    event_id,
                    sqs_message_id,
                    body_hash: BodyHash::of(body.as_bytes()),
                    body: body.into(),
                    compressed: None,
                    source,
                    sent_at,
                    attributes: attributes.map(Into::into),
                }
                .compressed(compress),
                seat: Seat {
                    batch,
                    seq,
                    shards,
                    chunk: None,
                },
                overflow,
                past,
            }
        },
    )
}

fn parts() -> impl Strategy<Value = PartRecord> {
    let state = prop_oneof![
        Just(PartState::Frozen),
        Just(PartState::SetAside),
        text(0..=20).prop_map(|receipt| PartState::Delivered { receipt, at: None }),
    ];
    let sink = prop::option::of(text(1..=20));
    let members = seqs().prop_filter("a frozen part has members", |seqs| !seqs.is_empty());
    (members, any::<[u8; 32]>(), state, sink).prop_map(|(members, hash, state, sink)| PartRecord {
        state,
        ..PartRecord::frozen(members, hash, sink)
    })
}

/// Draws any record, also those that the protocol never writes.
fn records() -> impl Strategy<Value = BatchRecord> {
    let status = prop::option::of(prop::sample::select(Status::ALL.to_vec()));
    let lease = (id(), time()).prop_map(|(owner, until)| Lease { owner, until });
    let opening = (
        batch_ids(),
        id(),
        prop::option::of(id()),
        any::<u16>(),
        time(),
        0..u64::MAX / 2,
    );
    let counts = any::<[u64; 5]>();
    let shared = (seqs(), seqs(), any::<u64>(), prop::option::of(text(0..=20)));
    let sets = (seqs(), seqs(), prop::collection::vec(parts(), 0..4), shared);
    let times = prop::array::uniform3(prop::option::of(time()));
    let end = (
        prop::option::of(text(0..=20)),
        prop::option::of(time_secs()),
    );
    (
        opening,
        status,
        prop::option::of(lease),
        counts,
        sets,
        times,
        end,
    )
        .prop_map(
            |(opening, status, lease, counts, (settled, witnessed, parts, shared), times, end)| {
                let (delivered, set_aside, set_asides, quarantine) = shared;
                let (batch, source, key, shards, now, closes_at) = opening;
                let closes_at = Timestamp::from_ms(closes_at);
                BatchRecord {
                    status,
                    lease,
                    confirmed: counts[0],
                    uncertain: counts[1],
                    counts_version: counts[2],
                    witnesses: counts[3],
                    attempts: counts[4],
                    settled,
                    witnessed,
                    parts,
                    delivered,
                    set_aside,
                    set_asides,
                    quarantine,
                    sealed_at: times[0],
                    verify_at: times[1],
                    completed_at: times[2],
                    error: end.0,
                    expires_at: end.1,
                    ..BatchRecord::open(batch, source, key, shards, now, closes_at)
                }
            },
        )
}

/// Returns the size of a value as DynamoDB counts it; for numbers, the maximum.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html> (2026-08).
fn bytes_of(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(_) => 21,
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::L(list) => 3 + list.iter().map(|value| 1 + bytes_of(value)).sum::<usize>(),
        AttributeValue::M(map) => {
            let pairs = map.iter();
            3 + pairs
                .map(|(name, value)| 1 + name.len() + bytes_of(value))
                .sum::<usize>()
        }
        other => panic!("records have no {other:?}"),
    }
}

/// Returns the item of a claim after its release.
fn released(claim: &Claim, expires_at: Timestamp) -> Item {
    let mut item = claim_item(claim);
    item.retain(|name, _| !OF_LIVE_CLAIMS.contains(&name.as_str()));
    item.insert(EXPIRES_AT.to_owned(), ttl(expires_at));
    item
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_claim_reads_back_as_lock_item_and_as_event(claim in claims()) {
        let candidate = claim.candidate.clone();
        let (shard, seq) = (claim.seat.shard(), claim.seat.seq);
        let locked = LockItem {
            sqs_message_id: candidate.sqs_message_id.clone(),
            body_hash: candidate.body_hash,
            past: claim.past.clone(),
            state: LockState::Live { shard, seq },
            set_aside: false,
        };
        let read = read_lock_item("t", claim_item(&claim));
        prop_assert_eq!(read.unwrap(), (candidate.event_id.clone(), locked));
        let event = StoredEvent {
            event_id: candidate.event_id,
            sqs_message_id: candidate.sqs_message_id,
            body_hash: candidate.body_hash,
            shard,
            seq,
            body: match claim.overflow {
                None => candidate.body,
                Some(_) => "".into(),
            },
            overflow: claim.overflow.clone().map(Box::new),
            source: candidate.source,
            sent_at: candidate.sent_at,
        };
        prop_assert_eq!(read_event("t", claim_item(&claim), &mut None).unwrap(), Some(event));
    }

    /// Checks that `BatchRecord::bytes` is never less than DynamoDB counts.
    #[test]
    fn a_record_is_never_larger_than_its_own_count_of_bytes(record in records()) {
        let item = record_item(&record);
        let bytes: usize = item.iter().map(|(name, value)| name.len() + bytes_of(value)).sum();
        prop_assert!(bytes <= record.bytes(), "{bytes} bytes, counted as {}", record.bytes());
    }

    #[test]
    fn a_claim_has_a_name_for_each_of_its_values(claim in claims()) {
        let names = claim_names(ClaimForm::of(&claim));
        prop_assert_eq!(names.count(), claim_values(&claim).len());
    }

    #[test]
    fn a_tombstone_reads_back_and_is_not_read_as_an_event(claim in claims(), expires_at in time_secs()) {
        let (id, item) = read_lock_item("t", released(&claim, expires_at)).unwrap();
        prop_assert_eq!(id, claim.candidate.event_id.clone());
        prop_assert_eq!(item.state, LockState::Tombstone { expires_at });
        prop_assert_eq!(&item.sqs_message_id, &claim.candidate.sqs_message_id);
        prop_assert_eq!(&item.past, &claim.past);
        prop_assert_eq!(read_event("t", released(&claim, expires_at), &mut None).unwrap(), None);
    }

    #[test]
    fn a_key_of_the_index_reads_back(claim in claims()) {
        let entry = IndexEntry {
            event_id: claim.candidate.event_id.clone(),
            seq: claim.seat.seq,
        };
        let key = index_key(claim.seat.shard(), &entry);
        prop_assert_eq!(read_index_entry("t", key).unwrap(), entry);
    }

    #[test]
    fn any_record_reads_back_as_it_was_written(record in records()) {
        prop_assert_eq!(read_record("t", record_item(&record)).unwrap(), record);
    }

    #[test]
    fn an_item_without_one_attribute_never_causes_a_panic(
        claim in claims(), record in records(), which in any::<prop::sample::Index>(),
    ) {
        let without = |mut item: Item| {
            let mut names: Vec<String> = item.keys().cloned().collect();
            names.sort();
            item.remove(which.get(&names));
            item
        };
        let _ = read_lock_item("t", without(claim_item(&claim)));
        let _ = read_event("t", without(claim_item(&claim)), &mut None);
        let _ = read_record("t", without(record_item(&record)));
    }
}
