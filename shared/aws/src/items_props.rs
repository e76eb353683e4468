//! Properties of claims and batch records that are written as items and read back.

use std::fmt::Debug;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use proptest::prelude::*;
use protocol::batch::{
    BatchRecord, Failure, Lease, OperatorNote, PartRecord, PartState, Reservations, Resolution,
    Status,
};
use protocol::bodies::{Bodies, ObjectPlace, S3Prefix};
use protocol::chain::{ChainHash, Link};
use protocol::claim::{Candidate, Claim, LockState, Overflow};
use protocol::ids::{BatchId, BodyHash, Seat, Seq};
use protocol::limits::{FAILURE_BYTES_MAX, NOTES_MAX};
use protocol::period::Period;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::compression::compress;
use shared::memory::Stored;
use shared::message_attributes::{AttributeMap, MessageAttribute, MessageAttributes};
use shared::ports::IndexEntry;

use crate::attributes::{Item, ttl};
use crate::batch_items::{read_record, record_item};
use crate::lock_items::{
    ClaimForm, EXPIRES_AT, LAST_SEAT, OF_LIVE_CLAIMS, claim_item, claim_names, claim_values,
    index_key, last_seat_value, past_bytes, read_event, read_index_entry, read_last_seat,
    read_lock_item, tombstone_item,
};
use crate::partiql::Statements;

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
        prop::option::of(attributes()),
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
                    quota: None,
                }
                .compressed(compress),
                seat: Seat { batch, seq, shards },
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
        (text(0..=20), prop::option::of(time()))
            .prop_map(|(receipt, at)| PartState::Delivered { receipt, at }),
    ];
    let sink = prop::option::of(text(1..=20));
    let members = seqs().prop_filter("a frozen part has members", |seqs| !seqs.is_empty());
    let link = (time(), any::<u64>(), any::<[u8; 32]>()).prop_map(|(taken_at, after, hash)| Link {
        taken_at,
        after,
        previous: ChainHash::new(hash),
    });
    let number = (prop::option::of(any::<u64>()), prop::option::of(link));
    (members, any::<[u8; 32]>(), state, sink, number).prop_map(
        |(members, hash, state, sink, (file_number, link))| PartRecord {
            state,
            file_number,
            link,
            ..PartRecord::frozen(members, hash, sink)
        },
    )
}

fn bodies() -> impl Strategy<Value = Bodies> {
    let s3 = ("[a-z0-9.-]{3,30}", "([a-z]{1,10}/){0,3}").prop_map(|(bucket, prefix)| S3Prefix {
        bucket: bucket.into(),
        prefix: prefix.into(),
    });
    let place = s3.prop_map(ObjectPlace::S3);
    let log = prop_oneof![Just(ObjectPlace::Table), place].prop_map(Bodies::Log);
    prop_oneof![Just(Bodies::Items), log]
}

fn reservations() -> impl Strategy<Value = Reservations> {
    let resolution = (seqs(), seqs(), seqs(), any::<bool>());
    let resolution =
        resolution.prop_map(
            |(duplicates, conflicts, beyond_quota, is_reported)| Resolution {
                duplicates,
                conflicts,
                beyond_quota,
                is_reported,
            },
        );
    let counts = any::<(u64, u64, u32)>();
    (counts, (time(), time()), prop::option::of(resolution)).prop_map(
        |((reserved, reserved_bytes, slots), (last_at, busy_until), resolution)| Reservations {
            reserved,
            reserved_bytes,
            slots,
            last_at,
            busy_until,
            resolution,
        },
    )
}

/// Draws the record of a new batch.
fn opened() -> impl Strategy<Value = BatchRecord> {
    let ids = (batch_ids(), id(), prop::option::of(id()));
    let drawn = (ids, time(), 0..u64::MAX / 2, any::<(u16, u32)>(), bodies());
    drawn.prop_map(|(ids, now, closes_at, (shards, window), bodies)| {
        let (batch, source, key) = ids;
        let closes_at = Timestamp::from_ms(closes_at);
        BatchRecord::open(batch, source, key, shards, now, closes_at)
            .with_bodies(bodies, Duration::from_secs(u64::from(window)))
    })
}

/// Draws any record, also one that the protocol never writes.
fn records() -> impl Strategy<Value = BatchRecord> {
    let status = prop::option::of(prop::sample::select(Status::ALL.to_vec()));
    let lease = (id(), time()).prop_map(|(owner, until)| Lease { owner, until });
    // A few parts, or as many as a record may have.
    let times = prop::sample::select(vec![1, 33]);
    let parts = (prop::collection::vec(parts(), 0..4), times);
    let parts = parts.prop_map(|(parts, times)| vec![parts; times].concat());
    let note = (time(), text(0..=20), text(0..=20), text(0..=300));
    let note = note.prop_map(|(at, by, action, why)| OperatorNote::new(at, &by, &action, &why));
    let notes = prop::collection::vec(note, 0..=NOTES_MAX);
    let times = prop::array::uniform3(prop::option::of(time()));
    let texts = prop::array::uniform2(prop::option::of(text(0..=20)));
    let sets = prop::array::uniform5(seqs());
    let others = (reservations(), prop::option::of(lease), parts, notes);
    let ends = (times, texts, prop::option::of(time_secs()));
    let counts = any::<[u64; 7]>();
    let drawn = (opened(), status, counts, sets, others, ends);
    drawn.prop_map(|(opened, status, counts, sets, others, ends)| {
        let (reservations, lease, parts, notes) = others;
        let (times, texts, expires_at) = ends;
        let [settled, witnessed, delivered, set_aside, winners] = sets;
        let claimed = match opened.bodies.is_log() {
            true => winners,
            false => SeqSet::new(),
        };
        let [quarantine, error] = texts;
        BatchRecord {
            status,
            lease,
            confirmed: counts[0],
            uncertain: counts[1],
            counts_version: counts[2],
            witnesses: counts[3],
            attempts: counts[4],
            settled,
            claimed,
            // A version before 0.3 opened batches without them.
            reservations: (opened.bodies.is_log() || counts[2] % 2 == 0).then_some(reservations),
            witnessed,
            parts,
            delivered,
            set_aside,
            set_asides: counts[5],
            quarantine,
            period: times[1].map(|begins| Period {
                begins,
                ends: begins + Duration::from_secs(3_600),
            }),
            sealed_at: times[0],
            verify_at: times[1],
            turn_at: times[2],
            last_failure: times[0].map(|at| Failure {
                at,
                text: "f".repeat(FAILURE_BYTES_MAX),
            }),
            completed_at: times[2],
            error,
            expires_at,
            notes,
            notes_count: counts[6],
            ..opened
        }
    })
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
    item.insert(LAST_SEAT.to_owned(), last_seat_value(claim.seat.key()));
    item
}

/// Draws message attributes as they are stored.
fn attributes() -> impl Strategy<Value = String> {
    prop::collection::btree_map(text(1..=8), text(1..=50), 1..4).prop_map(|all| {
        let attribute = |(name, value)| (name, MessageAttribute::string(value));
        let all: AttributeMap = all.into_iter().map(attribute).collect();
        MessageAttributes::of(all)
            .expect("there are some")
            .as_text()
            .to_string()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_claim_reads_back_as_lock_item_and_as_event(claim in claims()) {
        let Stored { item, event, .. } = Stored::of(&claim);
        let read = read_lock_item("t", claim_item(&claim));
        prop_assert_eq!(read.unwrap(), (claim.candidate.event_id.clone(), item));
        prop_assert_eq!(read_event("t", claim_item(&claim), &mut None).unwrap(), event);
    }

    /// Checks that a claim is refused as too large before DynamoDB would refuse it.
    #[test]
    fn a_claim_is_never_larger_than_its_own_count_of_bytes(claim in claims()) {
        let item = claim_item(&claim);
        let bytes: usize = item.iter().map(|(name, value)| name.len() + bytes_of(value)).sum();
        let counted = claim.item_bytes() + past_bytes(&claim.past);
        prop_assert!(bytes <= counted, "{bytes} bytes, counted as {counted}");
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
    fn an_insert_writes_the_item_of_the_claim(claim in claims()) {
        let request = Statements::new("t").insert(&claim);
        let fields = request.statement();
        let fields = fields.strip_prefix("INSERT INTO \"t\" VALUE {'").unwrap();
        let fields = fields.strip_suffix("': ?}").unwrap().split("': ?, '");
        let parameters = request.parameters().to_vec();
        prop_assert_eq!(fields.clone().count(), parameters.len());
        let written: Item = fields.map(str::to_owned).zip(parameters).collect();
        prop_assert_eq!(written, claim_item(&claim));
    }

    #[test]
    fn a_tombstone_reads_back_and_is_not_read_as_an_event(
        claim in claims(), expires_at in time_secs(),
    ) {
        let (id, item) = read_lock_item("t", released(&claim, expires_at)).unwrap();
        prop_assert_eq!(id, claim.candidate.event_id.clone());
        prop_assert_eq!(item.state, LockState::Tombstone { expires_at });
        prop_assert_eq!(&item.sqs_message_id, &claim.candidate.sqs_message_id);
        prop_assert_eq!(&item.past, &claim.past);
        prop_assert_eq!(read_event("t", released(&claim, expires_at), &mut None).unwrap(), None);
        let seat = read_last_seat("t", released(&claim, expires_at)).unwrap();
        prop_assert_eq!(seat, Some((claim.seat.batch, claim.seat.seq)));
        prop_assert_eq!(tombstone_item(&claim.candidate.event_id, &item, seat), released(&claim, expires_at));
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
