use std::time::Duration;

use protocol::batch::{PartRecord, Reservations, Resolution};
use protocol::bodies::ObjectSizes;
use protocol::claim::Candidate;
use protocol::ids::{BatchId, BodyHash, ObjectId, SlotId};
use protocol::log::object_hash;
use protocol::quota::Quota;
use protocol::seqs::SeqSet;
use protocol::slot::{Frame, Slot};
use shared::compression::compress_bytes;
use shared::load::encode_frame;
use shared::memory::Fakes;
use shared::ports::BatchStore;
use shared::retry::{ObjectRules, store_object};

use super::*;
use crate::fake_service::service;

async fn put(service: &Service, object: ObjectId, bytes: &[u8]) {
    let rules = ObjectRules {
        bodies: "log:table".parse().unwrap(),
        sizes: ObjectSizes::default(),
        retention: Duration::from_secs(60),
    };
    let (objects, permits) = (&*service.object_store, &service.permits);
    let budget = service.budget();
    let stored = store_object(objects, &rules, object, bytes, permits, &budget);
    stored.await.unwrap();
}

async fn rebuild(service: &Service) -> Result<Done, Failure> {
    let args = RebuildArgs {
        bodies: None,
        change: ChangeArgs {
            yes: true,
            why: Some("lost".to_owned()),
            by: Some("me".to_owned()),
        },
    };
    run(service, &args, &Interrupt::never(), Output::Nothing).await
}

#[tokio::test]
async fn a_list_that_may_not_be_read_is_not_taken_for_a_lost_one() {
    let fakes = Fakes::at(Timestamp::from_ms(1_000_000_000));
    let service = service(&fakes, &[]);
    let budget = service.budget();
    let index = store(&service, &budget);
    let bodies: Bodies = "log:table".parse().unwrap();
    let open = index.open(&bodies).await.unwrap();
    let list = RunList::default();
    assert!(index.commit(&open, &bodies, &list).await.unwrap());
    let manifest = async || index.read().await.unwrap().unwrap().manifest;
    let before = manifest().await;
    let list = ObjectId::RunList(before.value.list.unwrap());

    fakes.object_store.deny(list, true);
    let error = rebuild(&service).await.unwrap_err().to_string();
    assert!(error.contains("access denied"), "{error}");
    assert_eq!(manifest().await, before);

    fakes.object_store.deny(list, false);
    fakes.object_store.remove(list);
    let of_later_version = compress_bytes(br#"{"formatVersion":9,"runs":[]}"#).unwrap();
    put(&service, list, &of_later_version).await;
    let error = rebuild(&service).await.unwrap_err().to_string();
    assert!(error.contains("written by a later version"), "{error}");
    assert_eq!(manifest().await, before);

    fakes.object_store.remove(list);
    assert_eq!(rebuild(&service).await.unwrap(), Done::Yes);
    assert_ne!(manifest().await.value.list, before.value.list);
}

#[tokio::test]
async fn a_place_is_counted_anew_for_each_winner_with_a_quota() {
    let now = Timestamp::from_ms(1_000_000_000);
    let fakes = Fakes::at(now);
    let batch: BatchId = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
    let service = service(&fakes, &[batch]);
    let bodies: Bodies = "log:table".parse().unwrap();
    let quota = Quota {
        key: "customer".parse().unwrap(),
        begins: now,
        ends: now + Duration::from_secs(3_600),
        max: 5,
    };
    let line = |number: u32| Candidate {
        event_id: format!("e{number}").parse().unwrap(),
        sqs_message_id: format!("m{number}").parse().unwrap(),
        body_hash: BodyHash::of(b"body"),
        body: "body".into(),
        compressed: None,
        source: "arn:q".parse().unwrap(),
        sent_at: now,
        attributes: None,
        quota: (number < 3).then(|| quota.clone()),
    };
    let load = encode_frame((0..4).map(line).collect::<Vec<_>>().iter());
    let frame = Frame {
        load: uuid::Uuid::nil(),
        bodies: bodies.clone(),
        bytes: 0..load.len() as u64,
        lines: 0..4,
        first_seq: 0,
        stored_at: now,
        hash: object_hash(&load),
    };
    put(&service, ObjectId::Load(frame.load), &load).await;
    let slot = serde_json::to_vec(&Slot::Filled(frame)).unwrap();
    put(&service, SlotId { batch, number: 0 }.into(), &slot).await;
    let source = "arn:q".parse().unwrap();
    let record = BatchRecord::open(batch, source, None, 1, now, now);
    let mut record = record.with_bodies(bodies.clone(), Duration::from_secs(60));
    (record.status, record.completed_at) = (None, Some(now));
    // The third line did not win.
    (record.claimed, record.confirmed) = ([0, 1, 3].into_iter().collect(), 3);
    record.reservations = Some(Reservations {
        reserved: 4,
        slots: 1,
        resolution: Some(Resolution {
            is_reported: true,
            ..Resolution::default()
        }),
        ..Reservations::default()
    });
    fakes.batch_store.create(&record).await.unwrap();
    let budget = service.budget();
    let index = store(&service, &budget);
    let open = index.open(&bodies).await.unwrap();
    let list = RunList::default();
    assert!(index.commit(&open, &bodies, &list).await.unwrap());
    let manifest = index.read().await.unwrap().unwrap().manifest.value;
    let lost = ObjectId::RunList(manifest.list.unwrap());
    fakes.object_store.remove(lost);

    assert_eq!(rebuild(&service).await.unwrap(), Done::Yes);
    let manifest = index.read().await.unwrap().unwrap().manifest.value;
    let list = index.list_for(&manifest, now).await.unwrap();
    assert!(list.counted_from > Timestamp::EPOCH);
    let mut places = Vec::new();
    let mut tallies = Vec::new();
    for run in &list.runs {
        let run = index.run(run).await.unwrap();
        places.extend(run.header.owners.iter().map(|owner| owner.place()));
        tallies.extend(run.header.tallies);
    }
    let accounts = places.iter().flatten().map(|(_, place)| place.account);
    assert_eq!(
        (places.len(), Vec::from_iter(accounts)),
        (2, vec![quota.account()])
    );
    let counted = tallies.iter().map(|tally| (tally.account, tally.count));
    assert_eq!(Vec::from_iter(counted), [(quota.account(), 2)]);
}

#[test]
fn what_was_rejected_or_set_aside_loses_its_place_and_what_the_sink_may_have_counts() {
    let source = "arn:q".parse().unwrap();
    let batch = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
    let now = Timestamp::EPOCH;
    let open = BatchRecord::open(batch, source, None, 1, now, now);
    let with_part = |state| {
        let mut record = open.clone();
        record.parts.push(PartRecord {
            state,
            ..PartRecord::frozen((0..2).collect(), [0; 32], None)
        });
        record.set_aside.insert(1);
        record
    };
    let delivered = || PartState::Delivered {
        receipt: String::new(),
        at: None,
    };
    let is_delivered = |record: &BatchRecord| [0, 1, 2].map(|seq| delivery_of(record, seq));
    let [yes, no, unknown] = [Some(true), Some(false), None];
    assert_eq!(is_delivered(&with_part(delivered())), [yes, no, yes]);
    let frozen = BatchRecord {
        quarantine: Some("too old".to_owned()),
        ..with_part(PartState::Frozen)
    };
    assert_eq!(is_delivered(&frozen), [unknown, unknown, no]);
    let mut part_set_aside = BatchRecord {
        set_aside: (0..3).collect(),
        ..frozen.clone()
    };
    part_set_aside.parts[0].members = SeqSet::new();
    assert_eq!(is_delivered(&part_set_aside), [no; 3]);
    part_set_aside.parts[0].state = PartState::SetAside;
    assert_eq!(is_delivered(&part_set_aside), [unknown; 3]);
}
