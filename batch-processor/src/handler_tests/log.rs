//! Batches of the log.

use protocol::batch::{BatchLimits, Reservation};
use protocol::bodies::ObjectPlace;
use protocol::ids::{ObjectId, PieceId, SlotId};
use protocol::limits::{BATCH_LIFE_MAX, HOLES_UNTIL, LINES_WAIT_MAX, RUNS_INCOMPLETE_MAX};
use protocol::log::{ENTRY_BYTES, IndexEpoch, Manifest, Owner, RunRef, object_hash};
use protocol::slot::Frame;
use shared::index::IndexStore;
use shared::index_run::decode_list;
use shared::load::encode_frame;
use shared::named_items::Versioned;
use shared::ports::{NamedItems, ObjectStore, Piece};
use shared::retry::{Budget, RequestPermits};

use super::*;

mod loads;
mod merges;
mod quotas;

const WINDOW: Duration = Duration::from_secs(600);

/// The batches by number; the first is [`batch`].
fn batch_of(number: u128) -> BatchId {
    let first: u128 = 0x0190163d8694739baea5966c26f8ad91;
    BatchId::new(uuid::Uuid::from_u128(first + number))
}

async fn put(processor: &Processor, object: ObjectId, bytes: Vec<u8>) {
    let piece = Piece {
        bytes,
        pieces_count: 1,
    };
    let id = PieceId { object, index: 0 };
    let store = &processor.fakes.object_store;
    store
        .put(&ObjectPlace::Table, id, &piece, START)
        .await
        .unwrap();
}

/// Opens batch `number`, whose window is over, and brings lines into it: message, event and body. Each element of `slots` is a reservation;
/// one without lines stays empty.
pub(super) async fn brought(processor: &Processor, number: u128, slots: &[&[(&str, &str, &str)]]) {
    let at = START.saturating_sub(Duration::from_secs(60));
    brought_at(processor, number, at, slots).await;
}

async fn brought_at(
    processor: &Processor,
    number: u128,
    at: Timestamp,
    slots: &[&[(&str, &str, &str)]],
) {
    let source = "arn:q".parse().unwrap();
    let record = BatchRecord::open(batch_of(number), source, None, 1, at, at);
    let record = record.with_bodies("log:table".parse().unwrap(), WINDOW);
    processor.fakes.batch_store.create(&record).await.unwrap();
    for lines in slots {
        let count = lines.len().max(1) as u64;
        let wanted = Reservation {
            seats: count,
            bytes: 1,
            at,
            until: at + LINES_WAIT_MAX,
            limits: BatchLimits {
                items_max: 100,
                bytes_max: 1_000,
            },
        };
        let store = &processor.fakes.batch_store;
        let write = BatchWrite::Reserve(wanted);
        let reply = store.write(batch_of(number), &write);
        let shared::ports::BatchReply::Applied(record) = reply.await.unwrap() else {
            panic!("the batch is open");
        };
        if !lines.is_empty() {
            fill(processor, &record, lines, at).await;
        }
    }
}

async fn fill(
    processor: &Processor,
    record: &BatchRecord,
    lines: &[(&str, &str, &str)],
    at: Timestamp,
) {
    let reserved = record.reserved(lines.len() as u64).unwrap();
    let candidates: Vec<Candidate> = lines
        .iter()
        .map(|(message, event, body)| Candidate {
            event_id: event.parse().unwrap(),
            sqs_message_id: message.parse().unwrap(),
            body_hash: BodyHash::of(body.as_bytes()),
            body: (*body).into(),
            quota: quotas::quota_of(body),
            ..a_claim(0).candidate
        })
        .collect();
    let bytes = encode_frame(candidates.iter());
    let load = uuid::Uuid::from_u128(
        record.batch_id.opened_at().as_ms() as u128
            + u128::from(record.batch_id.random_byte()) * 99
            + u128::from(reserved.slot),
    );
    let frame = Frame {
        load,
        bodies: record.bodies.clone(),
        bytes: 0..bytes.len() as u64,
        lines: 0..lines.len() as u32,
        first_seq: reserved.first_seq,
        stored_at: at,
        hash: object_hash(&bytes),
    };
    put(processor, ObjectId::Load(load), bytes).await;
    let slot = SlotId {
        batch: record.batch_id,
        number: reserved.slot,
    };
    let value = serde_json::to_vec(&Slot::Filled(frame)).unwrap();
    put(processor, slot.into(), value).await;
}

pub(super) async fn ticket_of(processor: &Processor, number: u128) -> bool {
    let ticket = Ticket::new(batch_of(number), TicketReason::Window);
    given_back(processor, &ticket.to_body()).await
}

/// Returns the events of all parts that the sink was given.
pub(super) fn given(processor: &Processor) -> Vec<String> {
    let parts = delivered(processor).into_iter();
    parts.flat_map(|(_, ids)| ids).collect()
}

fn reasons(processor: &Processor) -> Vec<(String, String)> {
    let messages = processor.fakes.quarantine_queue.take().into_iter();
    messages
        .map(|message| (message.sqs_message_id.to_string(), message.reason))
        .collect()
}

#[tokio::test]
async fn winners_are_delivered_once_and_conflicts_go_to_the_quarantine() {
    let processor = a_processor();
    let lines: [(&str, &str, &str); 5] = [
        ("m1", "a", "1"),
        ("m1", "a", "1"),
        ("m2", "a", "1"),
        ("m3", "a", "2"),
        ("m4", "b", "1"),
    ];
    brought(&processor, 0, &[&lines[..2], &lines[2..]]).await;
    assert!(!ticket_of(&processor, 0).await);
    assert_eq!(given(&processor), ["a", "b"]);
    let record = record(&processor);
    assert!(record.completed_at.is_some());
    let resolution = record.reservations.unwrap().resolution.unwrap();
    assert_eq!(resolution.duplicates, [2].into_iter().collect());
    assert_eq!(resolution.conflicts, [3].into_iter().collect());
    let conflicts = reasons(&processor);
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    assert_eq!(conflicts[0].0, "m3");
    assert!(conflicts[0].1.contains("conflict"), "{conflicts:?}");
    let line = processor.fakes.metric_log.take().remove(0);
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&line["Duplicates"], &line["Conflicts"]),
        (&1.into(), &1.into()),
        "{line}"
    );
}

#[tokio::test]
async fn a_later_batch_knows_what_an_earlier_one_has_won() {
    let processor = a_processor();
    brought(&processor, 0, &[&[("m1", "a", "1"), ("m2", "b", "1")]]).await;
    brought(&processor, 1, &[&[("m3", "a", "1"), ("m4", "c", "1")]]).await;
    assert!(!ticket_of(&processor, 0).await);
    assert!(!ticket_of(&processor, 1).await);
    assert_eq!(given(&processor), ["a", "b", "c"]);
}

#[tokio::test]
async fn an_empty_slot_gets_a_hole_and_the_batch_goes_on() {
    let processor = a_processor();
    brought(&processor, 0, &[&[], &[("m2", "b", "1")]]).await;
    assert!(!ticket_of(&processor, 0).await);
    assert_eq!(given(&processor), ["b"]);
    let slot = SlotId {
        batch: batch_of(0),
        number: 0,
    };
    let store = &processor.fakes.object_store;
    let bytes = store.bytes(&record(&processor).bodies, slot).unwrap();
    assert_eq!(serde_json::from_slice::<Slot>(&bytes).unwrap(), Slot::Hole);
}

#[tokio::test]
async fn repro_each_attempt_waited_for_an_empty_slot_and_one_with_little_time_put_no_hole() {
    let processor = a_processor();
    brought(&processor, 0, &[&[], &[("m2", "b", "1")]]).await;
    processor.fakes.clock.advance(LINES_WAIT_MAX);
    let before = processor.fakes.clock.now();
    assert!(!ticket_of(&processor, 0).await);
    assert_eq!(given(&processor), ["b"]);
    assert_eq!(processor.fakes.clock.now(), before, "it waited again");
}

#[tokio::test]
async fn slots_that_lost_their_values_are_reported_in_one_message() {
    let processor = a_processor();
    brought(&processor, 0, &[&[], &[("m2", "b", "1")], &[], &[]]).await;
    processor.fakes.clock.advance(HOLES_UNTIL);
    assert!(!ticket_of(&processor, 0).await);
    assert_eq!(record(&processor).status, Some(Status::Error));
    assert!(!quarantine_of(&processor, 0).await);
    assert!(record(&processor).completed_at.is_some());
    let messages = processor.fakes.quarantine_queue.take();
    let [lost, event] = &messages[..] else {
        panic!("{messages:?}");
    };
    let slot = format!("slot `{}/0`, and 2 other slots: missing", batch_of(0));
    assert!(lost.body.starts_with(&slot), "{}", lost.body);
    assert_eq!(event.sqs_message_id.to_string(), "m2");
    assert_eq!(given(&processor), [""; 0]);
}

/// Returns the load that a slot of batch `number` names.
fn load_of(processor: &Processor, number: u128, slot: u32) -> ObjectId {
    let slot = SlotId {
        batch: batch_of(number),
        number: slot,
    };
    let bodies = "log:table".parse().unwrap();
    let bytes = processor.fakes.object_store.bytes(&bodies, slot).unwrap();
    match serde_json::from_slice(&bytes).unwrap() {
        Slot::Filled(frame) => ObjectId::Load(frame.load),
        Slot::Claims(_) | Slot::Hole => panic!("slot {slot} is a hole"),
    }
}

async fn quarantine_of(processor: &Processor, number: u128) -> bool {
    let ticket = Ticket::new(batch_of(number), TicketReason::Quarantine);
    given_back(processor, &ticket.to_body()).await
}

fn messages(processor: &Processor) -> Vec<String> {
    let sent = reasons(processor).into_iter();
    sent.map(|(message, _)| message).collect()
}

#[tokio::test]
async fn repro_a_conflict_was_dropped_if_the_quarantine_refused_it_while_its_batch_was_set_aside() {
    let processor = a_processor();
    // SQS takes no such text.
    brought(&processor, 0, &[&[("m1", "a", "1"), ("m2", "a", "\u{1}")]]).await;
    assert!(!ticket_of(&processor, 0).await);
    assert_eq!(record(&processor).status, Some(Status::Error));
    assert!(!quarantine_of(&processor, 0).await);
    let record = record(&processor);
    assert_eq!(record.status, Some(Status::Error));
    assert!(!record.is_reported(), "the conflict is nowhere else");
}

#[tokio::test]
async fn repro_a_batch_that_is_set_aside_stayed_undecided_for_ever_if_a_load_could_not_be_read() {
    const DAY: Duration = Duration::from_secs(86_400);
    for (age, set_aside) in [(BATCH_LIFE_MAX, 0), (BATCH_LIFE_MAX + DAY, 1)] {
        let processor = a_processor();
        let at = START.saturating_sub(age);
        let slots: [&[_]; 2] = [&[("m1", "a", "1")], &[("m2", "b", "1")]];
        brought_at(&processor, 0, at, &slots).await;
        let load = load_of(&processor, 0, 1);
        processor.fakes.object_store.throttle(load, true);
        assert!(!ticket_of(&processor, 0).await);
        assert_eq!(record(&processor).status, Some(Status::Error), "too old");
        assert!(quarantine_of(&processor, 0).await);
        assert_eq!(messages(&processor), ["m1"; 1][..set_aside]);
        processor.fakes.object_store.throttle(load, false);
        assert!(!ticket_of(&processor, 0).await);
        assert_eq!(messages(&processor), ["m1", "m2"][set_aside..]);
        assert!(record(&processor).completed_at.is_some());
    }
}

#[tokio::test]
async fn repro_one_load_with_a_conflict_that_cannot_be_read_kept_its_batch_from_being_set_aside() {
    let processor = a_processor();
    let slots: [&[_]; 2] = [&[("m1", "a", "1"), ("m2", "b", "1")], &[("m3", "a", "2")]];
    brought(&processor, 0, &slots).await;
    // The batch is decided, and not reported.
    processor.fakes.quarantine_queue.refuse(true);
    assert!(!ticket_of(&processor, 0).await);
    processor.fakes.quarantine_queue.refuse(false);
    let load = load_of(&processor, 0, 1);
    processor.fakes.object_store.deny(load, true);
    assert!(!quarantine_of(&processor, 0).await);
    assert_eq!(messages(&processor), ["m1", "m2"]);
    assert_eq!(record(&processor).status, Some(Status::Error));
    processor.fakes.object_store.deny(load, false);
    assert!(!quarantine_of(&processor, 0).await);
    assert_eq!(messages(&processor), ["m3"]);
    assert!(record(&processor).completed_at.is_some());
}

#[tokio::test]
async fn repro_runs_were_merged_only_after_a_delivery_and_a_pause_stopped_it() {
    let processor = a_processor();
    pauses::pause(&processor, "arn:q").await;
    for number in 0..RUNS_INCOMPLETE_MAX as u128 + 1 {
        let id = format!("e{number}");
        brought(&processor, number, &[&[(&id, &id, "1")]]).await;
        ticket_of(&processor, number).await;
    }
    assert_eq!(runs_of(&processor).await.len(), 2);
    assert_eq!(given(&processor), [""; 0]);
}

async fn manifest_of(processor: &Processor) -> (uuid::Uuid, Versioned<Manifest>) {
    let items: &dyn NamedItems = &*processor.fakes.named_items;
    let epoch = items.get::<IndexEpoch>(&()).await.unwrap().value.epoch;
    (epoch, items.get::<Manifest>(&epoch).await.unwrap())
}

async fn list_of(processor: &Processor) -> ObjectId {
    let (_, manifest) = manifest_of(processor).await;
    ObjectId::RunList(manifest.value.list.unwrap())
}

/// Returns the runs of the present list.
async fn runs_of(processor: &Processor) -> Vec<RunRef> {
    let store = &processor.fakes.object_store;
    let list = store.bytes(&"log:table".parse().unwrap(), list_of(processor).await);
    decode_list(&list.unwrap()).unwrap().runs
}

#[tokio::test]
async fn repro_a_run_without_entries_that_is_lost_stopped_all_merges() {
    let processor = a_processor();
    let repeats: Vec<String> = (0..10).map(|number| format!("r{number}")).collect();
    let others: Vec<String> = (0..10).map(|number| format!("e{number}")).collect();
    brought(&processor, 0, &[&[("m", "a", "1")]]).await;
    assert!(!ticket_of(&processor, 0).await);
    let mut number = 0;
    for (message, event) in repeats
        .iter()
        .map(|id| (id, "a"))
        .chain(others.iter().map(|id| (id, &**id)))
    {
        number += 1;
        brought(&processor, number, &[&[(message, event, "1")]]).await;
        assert!(!ticket_of(&processor, number).await);
        if number == 1 {
            let run = runs_of(&processor).await.pop().unwrap();
            assert_eq!(run.entries, 0);
            processor.fakes.object_store.remove(ObjectId::Run(run.run));
        }
    }
    let runs = runs_of(&processor).await;
    assert!(runs.iter().any(|run| run.batch.is_none()), "{runs:?}");
}

#[tokio::test]
async fn repro_a_turn_that_had_run_out_was_taken_over_and_its_slow_batch_refused() {
    let processor = a_processor();
    brought(&processor, 0, &[&[("m1", "a", "1")]]).await;
    assert!(!ticket_of(&processor, 0).await);
    let (epoch, before) = manifest_of(&processor).await;
    let items: &dyn NamedItems = &*processor.fakes.named_items;
    let turn = before
        .value
        .with_turn(batch_of(9), processor.fakes.clock.now());
    let replaced = items.replace(&epoch, &before, &turn).await.unwrap();
    assert!(replaced);
    brought(&processor, 1, &[&[("m2", "b", "1")]]).await;
    while ticket_of(&processor, 1).await {}
    assert_eq!(given(&processor), ["a", "b"]);
    let (_, after) = manifest_of(&processor).await;
    assert_eq!(after.version, before.version + 2, "a turn, and a commit");
}

#[tokio::test]
async fn runs_are_kept_as_far_as_they_fit() {
    let of_a_run = ENTRY_BYTES + size_of::<Owner>();
    for (index_bytes_kept, delivered) in [(of_a_run, "a b c"), (of_a_run - 1, "a b")] {
        let config = Config {
            index_bytes_kept,
            ..config()
        };
        let processor = processor_of(config, MemoryBatchStore::new());
        for (number, event) in [(0, "a"), (1, "b"), (2, "c")] {
            brought(&processor, number, &[&[(event, event, "1")]]).await;
        }
        assert!(!ticket_of(&processor, 0).await);
        // Reads the run of the first batch, of one entry.
        assert!(!ticket_of(&processor, 1).await);
        let first = runs_of(&processor).await.swap_remove(0);
        let store = &processor.fakes.object_store;
        store.deny(ObjectId::Run(first.run), true);
        ticket_of(&processor, 2).await;
        assert_eq!(given(&processor).join(" "), delivered);
    }
}

#[tokio::test]
async fn no_index_begins_while_the_lock_table_has_events() {
    let processor = a_processor();
    claim(&processor, 1).await;
    brought(&processor, 0, &[&[("m1", "a", "1")]]).await;
    assert!(!ticket_of(&processor, 0).await);
    let error = record(&processor).error.unwrap();
    let words = "unresolved: index: none, and the lock table has items: expected";
    assert!(error.starts_with(words), "{error}");
    assert!(given(&processor).is_empty());
    // One of another batch, as an operator primes it.
    let ports = processor.fakes.ports();
    let budget = Budget::new(&ports, START + WINDOW);
    let permits = RequestPermits::new(1);
    let index = IndexStore {
        objects: &*ports.object_store,
        named_items: &*ports.named_items,
        permits: &permits,
        budget: &budget,
    };
    index.open(&"log:table".parse().unwrap()).await.unwrap();
    let retry = Ticket::new(batch_of(0), TicketReason::Operator);
    assert!(!given_back(&processor, &retry.to_body()).await);
    assert_eq!(given(&processor), ["a"]);
}

#[tokio::test]
async fn a_batch_whose_index_is_lost_is_in_error_and_can_be_set_aside() {
    let processor = a_processor();
    brought(&processor, 0, &[&[("m1", "a", "1")]]).await;
    assert!(!ticket_of(&processor, 0).await);
    let list = list_of(&processor).await;
    processor.fakes.object_store.remove(list);
    brought(&processor, 1, &[&[("m2", "b", "1"), ("m3", "c", "1")]]).await;
    assert!(!ticket_of(&processor, 1).await);
    let record = || processor.fakes.batch_store.get(batch_of(1)).unwrap();
    let error = record().error.unwrap();
    let words = format!("unresolved: index: object `{list}`: missing");
    assert!(error.starts_with(&words), "{error}");
    assert!(!quarantine_of(&processor, 1).await);
    assert!(record().completed_at.is_some());
    let quarantined = reasons(&processor);
    let messages: Vec<_> = quarantined.iter().map(|(message, _)| message).collect();
    assert_eq!(messages, ["m2", "m3"]);
    assert!(
        quarantined
            .iter()
            .all(|(_, reason)| reason.starts_with(&words))
    );
    assert_eq!(given(&processor), ["a"]);
}

#[tokio::test]
async fn a_ticket_that_came_before_its_record_is_for_nothing() {
    let processor = a_processor();
    let ticket = Ticket {
        is_ahead: true,
        ..Ticket::new(batch_of(0), TicketReason::Window)
    };
    assert!(!given_back(&processor, &ticket.to_body()).await);
    assert!(ticket_of(&processor, 0).await, "any other comes back");
}
