use std::time::Duration;

use protocol::batch::{PartRecord, PartState};
use protocol::ids::BatchShard;

use super::*;
use crate::lock_table::Memory;

const NOW: Timestamp = Timestamp::from_ms(1_000_000);
const WINDOW: Duration = Duration::from_secs(100);

fn at(secs: u64) -> Timestamp {
    Timestamp::from_ms(secs * 1_000)
}

fn batch() -> BatchId {
    "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap()
}

fn item(message: &str, expires_at: Timestamp, set_aside: bool) -> LockItem {
    LockItem {
        sqs_message_id: message.parse().unwrap(),
        ..lock_table::item(LockState::Tombstone { expires_at }, set_aside)
    }
}

/// Returns what must be put for one event. `memory` is what the lock table remembers of `present`.
fn put_for(tombstone: &LockItem, present: Option<(LockItem, Option<Memory>)>) -> Option<LockItem> {
    let id: EventId = "e".parse().unwrap();
    let tombstone = Tombstone {
        item: tombstone.clone(),
        seat: Some((batch(), 0)),
    };
    let item = present.as_ref().map(|(item, _)| item.clone());
    let ended = present.map(|(item, memory)| Ended {
        id: id.clone(),
        item,
        memory,
    });
    let of_log = BTreeMap::from([(id, tombstone)]);
    let mut puts = puts(of_log, ended.into_iter().collect(), NOW);
    let put = puts.pop()?;
    assert_eq!(put.expected, item);
    Some(put.tombstone.item)
}

/// Returns a tombstone of the lock table with what it remembers.
fn remembered(item: &LockItem) -> Option<(LockItem, Option<Memory>)> {
    let memory = Memory {
        until: item.expires_at().unwrap(),
        set_aside: item.set_aside,
    };
    Some((item.clone(), Some(memory)))
}

fn past(item: &LockItem) -> Vec<(&str, Timestamp)> {
    let past = item.past.iter();
    past.map(|(message, until)| (message.as_str(), *until))
        .collect()
}

#[test]
fn a_tombstone_is_put_once() {
    let tombstone = item("m", Timestamp::from_ms(1_050_001), false);
    assert_eq!(put_for(&tombstone, None).as_ref(), Some(&tombstone));
    // The table keeps whole seconds.
    let stored = item("m", at(1_051), false);
    assert_eq!(put_for(&tombstone, remembered(&stored)), None);
    let set_aside = item("m", at(1_051), true);
    assert_eq!(put_for(&set_aside, remembered(&set_aside)), None);
}

#[test]
fn a_tombstone_that_has_ended_is_replaced() {
    let tombstone = item("m", at(1_050), false);
    let mut former = item("former", at(900), false);
    let past_deliveries = [("known", at(1_001)), ("ended", at(1_000))];
    former.past = past_deliveries
        .map(|(message, until)| (message.parse().unwrap(), until))
        .into();
    let put = put_for(&tombstone, Some((former, None))).unwrap();
    assert_eq!(put.expires_at(), Some(at(1_050)));
    assert_eq!(past(&put), [("known", at(1_001))]);
}

#[test]
fn an_event_that_was_delivered_takes_the_place_of_one_that_was_set_aside_and_keeps_its_message() {
    let (delivered, aside) = (item("d", at(1_050), false), item("s", at(9_000), true));
    let put = put_for(&delivered, remembered(&aside)).unwrap();
    assert_eq!(put.sqs_message_id, delivered.sqs_message_id);
    assert!(!put.set_aside);
    assert_eq!(past(&put), [("s", at(9_000))]);
    assert_eq!(put_for(&delivered, remembered(&put)), None, "again");
    let put = put_for(&aside, remembered(&delivered)).unwrap();
    assert_eq!(past(&put), [("s", at(9_000))]);
    assert_eq!(put.expires_at(), Some(at(1_050)));
}

#[test]
fn a_claim_that_ended_is_replaced_on_condition_of_its_seat() {
    let shard = BatchShard {
        batch: batch(),
        shard: 0,
    };
    let mut claim = item("former", at(1), false);
    claim.state = LockState::Live { shard, seq: 3 };
    let memory = |secs| Memory {
        until: at(secs),
        set_aside: false,
    };
    let tombstone = item("m", at(1_050), false);
    let put = put_for(&tombstone, Some((claim.clone(), Some(memory(1_020))))).unwrap();
    assert_eq!(put.expires_at(), Some(at(1_050)));
    assert_eq!(past(&put), [("former", at(1_020))]);
    let mut own = claim;
    own.sqs_message_id = tombstone.sqs_message_id.clone();
    let later = put_for(&tombstone, Some((own, Some(memory(1_060)))));
    assert_eq!(later, None, "it is remembered for longer");
}

#[test]
fn a_batch_is_remembered_by_its_seats_that_were_delivered_within_the_window_or_set_aside() {
    let opened = BatchRecord::open(batch(), "arn:q".parse().unwrap(), None, 1, at(1), at(2));
    let mut record = opened.with_bodies("log:table".parse().unwrap(), WINDOW);
    let part = |seqs: std::ops::Range<u32>, secs| {
        let mut part = PartRecord::frozen(seqs.collect(), [7; 32], None);
        part.state = PartState::Delivered {
            receipt: "r".to_owned(),
            at: Some(at(secs)),
        };
        part
    };
    record.parts = vec![part(0..2, 900), part(2..4, 950)];
    record.set_aside = [3, 4].into_iter().collect();
    // Seat 5 is of a duplicate.
    record.claimed = (0..5).collect();
    record.status = None;
    record.completed_at = Some(at(960));
    let owner = Owner::batch(batch(), record.created_at, WINDOW);
    let delivered = Some((at(1_050), false));
    let aside = Some((owner.ends_at(), true));
    let ends = [0, 2, 3, 4].map(|seq| end_of(&record, seq, NOW));
    assert_eq!(ends, [None, delivered, aside, aside]);
    let remembered = Remembered::of(record.clone(), NOW).unwrap();
    assert_eq!(remembered.seqs, (2..5).collect());
    assert!(Remembered::of(record, owner.ends_at()).is_none());
}

#[test]
fn a_tombstone_keeps_the_messages_that_end_last_and_has_room_for_its_own() {
    let aside = |number: u64| Tombstone {
        item: item(&format!("m{number}"), at(2_000 + number), true),
        seat: None,
    };
    let all = (1..40).map(aside).fold(aside(0), Tombstone::with).item;
    assert_eq!(all.expires_at(), Some(at(2_039)));
    assert_eq!(all.past.len(), PAST_DELIVERIES_MAX - 1);
    assert!(all.past.values().all(|until| *until >= at(2_008)));
}
