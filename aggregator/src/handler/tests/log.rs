//! Batches of the log.

use protocol::bodies::{Bodies, ObjectPlace};
use protocol::ids::ObjectId;
use protocol::slot::Frame;
use shared::dry_run::NO_LOAD;
use shared::load::decode_frame;
use shared::ports::{StoredEvent, in_range};
use shared::wire::TicketReason;

use super::*;

fn aggregator(variables: &[(&str, &str)]) -> Aggregator {
    over(variables, Fakes::at(START))
}

/// Another environment over the same fakes.
fn over(variables: &[(&str, &str)], fakes: Fakes) -> Aggregator {
    let config = Config {
        bodies: Bodies::Log(ObjectPlace::Table),
        ..config_of(variables)
    };
    let ports = fakes.ports();
    environment(config, fakes, ports)
}

fn read_slot(fakes: &Fakes, record: &BatchRecord, number: u32) -> Slot {
    let batch = record.batch_id;
    let slot = SlotId { batch, number };
    let bytes = fakes.object_store.bytes(&record.bodies, slot);
    serde_json::from_slice(&bytes.unwrap()).unwrap()
}

fn frame(fakes: &Fakes, record: &BatchRecord, number: u32) -> Frame {
    match read_slot(fakes, record, number) {
        Slot::Filled(frame) => frame,
        other => panic!("slot {number} has no lines: {other:?}"),
    }
}

pub(super) fn events(fakes: &Fakes, record: &BatchRecord, number: u32) -> Vec<StoredEvent> {
    let frame = frame(fakes, record, number);
    let load = ObjectId::Load(frame.load);
    let bytes = fakes.object_store.bytes(&record.bodies, load).unwrap();
    let bytes = in_range(&bytes, &frame.bytes);
    decode_frame(record.batch_id, &frame, &bytes).unwrap()
}

/// Returns the seq, the event and the message of each line of a slot.
fn lines(fakes: &Fakes, record: &BatchRecord, number: u32) -> Vec<(u32, String, String)> {
    let line = |event: StoredEvent| {
        let (id, message) = (event.event_id.to_string(), event.sqs_message_id.to_string());
        (event.seq, id, message)
    };
    let events = events(fakes, record, number).into_iter();
    events.map(line).collect()
}

fn line(seq: u32, id: &str, message: &str) -> (u32, String, String) {
    (seq, id.to_owned(), message.to_owned())
}

fn reserved(record: &BatchRecord) -> (u64, u32) {
    let log = record.reservations.as_ref().unwrap();
    (log.reserved, log.slots)
}

#[tokio::test]
async fn every_message_is_a_line_of_the_batch_that_all_environments_share() {
    let first = aggregator(&[]);
    let messages = [("m1", "a", ""), ("m2", "b", ""), ("m3", "a", "other")];
    assert!(invoke(&first, &messages).await.is_empty());
    let second = over(&[], first.fakes.clone());
    assert!(invoke(&second, &[("m4", "a", "")]).await.is_empty());

    let record = only_batch(&first);
    assert_eq!(reserved(&record), (4, 2));
    let expected = [line(0, "a", "m1"), line(1, "b", "m2"), line(2, "a", "m3")];
    assert_eq!(lines(&first.fakes, &record, 0), expected);
    assert_eq!(lines(&first.fakes, &record, 1), [line(3, "a", "m4")]);
    assert!(first.fakes.lock_store.items().is_empty());
    let tickets = first.fakes.batch_queue.take();
    let reasons: Vec<_> = tickets.iter().map(|(ticket, _)| ticket.reason).collect();
    assert_eq!(reasons, [Some(TicketReason::Window)]);
    assert!(tickets[0].0.is_ahead);
}

#[tokio::test]
async fn an_environment_of_the_other_layout_opens_a_batch_of_its_own() {
    let first = aggregator(&[]);
    assert!(invoke(&first, &[("m1", "a", "")]).await.is_empty());
    let of_items = another(&first, &[]);
    assert!(invoke(&of_items, &[("m2", "b", "")]).await.is_empty());
    let again = over(&[], first.fakes.clone());
    assert!(invoke(&again, &[("m3", "c", "")]).await.is_empty());

    let records = first.fakes.batch_store.records();
    let layouts: Vec<bool> = records.iter().map(|one| one.bodies.is_log()).collect();
    assert_eq!(layouts.len(), 3, "{records:?}");
    assert_eq!(layouts.iter().filter(|is_log| **is_log).count(), 2);
    assert_eq!(first.fakes.lock_store.items().len(), 1);
}

#[tokio::test]
async fn what_does_not_fit_goes_into_the_next_batch_and_the_full_one_is_sealed() {
    let aggregator = aggregator(&[("MAX_BATCH_SIZE", "3")]);
    let messages = [
        ("m0", "e0", ""),
        ("m1", "e1", ""),
        ("m2", "e2", ""),
        ("m3", "e3", ""),
        ("m4", "e4", ""),
    ];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let records = aggregator.fakes.batch_store.records();
    let [full, next] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!((reserved(full), reserved(next)), ((3, 1), (2, 1)));
    assert!(full.sealed_at.is_some() && next.sealed_at.is_none());
    assert_eq!(frame(&aggregator.fakes, full, 0).lines, 0..3);
    assert_eq!(frame(&aggregator.fakes, next, 0).lines, 3..5);
    let expected = [line(0, "e3", "m3"), line(1, "e4", "m4")];
    assert_eq!(lines(&aggregator.fakes, next, 0), expected);
    let tickets = aggregator.fakes.batch_queue.take();
    let sealed = tickets.iter().find(|(_, delay)| delay.is_zero()).unwrap();
    assert_eq!(sealed.0.batch_id, full.batch_id);
}

#[tokio::test]
async fn a_slot_that_was_closed_is_not_acknowledged_and_its_lines_are_reserved_anew() {
    let aggregator = aggregator(&[]);
    assert!(invoke(&aggregator, &[("m1", "a", "")]).await.is_empty());
    // The closer of the batch comes before the writer of slot 1.
    let record = close_next_slot(&aggregator).await;
    assert!(invoke(&aggregator, &[("m2", "b", "")]).await.is_empty());
    let fakes = &aggregator.fakes;
    let records = fakes.batch_store.records();
    let closed = fakes.batch_store.get(record.batch_id).unwrap();
    assert_eq!(read_slot(fakes, &closed, 1), Slot::Hole);
    let next = records.last().unwrap();
    assert_ne!(next.batch_id, record.batch_id);
    assert_eq!(lines(fakes, next, 0), [line(0, "b", "m2")]);
}

#[tokio::test]
async fn a_batch_whose_opener_died_gets_its_record_from_the_next_invocation() {
    let first = aggregator(&[]);
    assert!(invoke(&first, &[("m1", "a", "")]).await.is_empty());
    let record = only_batch(&first);
    // As if the opener had died after it made the batch the current one.
    first.fakes.batch_store.remove(record.batch_id);
    let batch = record.batch_id;
    first.fakes.object_store.remove(SlotId { batch, number: 0 });
    let second = over(&[], first.fakes.clone());
    assert!(invoke(&second, &[("m2", "b", "")]).await.is_empty());
    let again = only_batch(&second);
    assert_eq!(again.batch_id, record.batch_id);
    assert_eq!(reserved(&again), (1, 1));
}

#[tokio::test]
async fn an_urgent_event_seals_its_batch_and_no_other() {
    let aggregator = aggregator(&[("BYPASS", "content == 'now'"), ("BATCH_KEY", "id")]);
    let messages = [("m1", "a", "now"), ("m2", "b", "")];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let mut records = aggregator.fakes.batch_store.records();
    records.sort_unstable_by_key(|record| record.batch_key.clone());
    let sealed = records.iter().map(|record| record.sealed_at.is_some());
    assert_eq!(Vec::from_iter(sealed), [true, false]);
}

#[tokio::test]
async fn as_many_keys_have_an_open_batch_as_the_cap_allows_and_records_of_others_fail() {
    let variables = [("BATCH_KEY", "id"), ("BATCH_KEYS_MAX", "2")];
    let aggregator = aggregator(&variables);
    let messages = [
        ("m1", "a", ""),
        ("m2", "b", ""),
        ("m3", "c", ""),
        ("m4", "a", ""),
    ];
    assert_eq!(invoke(&aggregator, &messages).await, ["m3"]);
    assert_eq!(aggregator.fakes.batch_store.records().len(), 2);
    // Another environment seals a batch.
    let variables = [("BATCH_KEY", "id"), ("BYPASS", "content == 'now'")];
    let other = over(&variables, aggregator.fakes.clone());
    assert!(invoke(&other, &[("m5", "b", "now")]).await.is_empty());
    let messages = [("m6", "c", ""), ("m7", "d", "")];
    assert_eq!(invoke(&aggregator, &messages).await, ["m7"]);
    // The windows have ended.
    aggregator.fakes.clock.advance(Duration::from_secs(3_600));
    assert!(invoke(&aggregator, &[("m8", "d", "")]).await.is_empty());
}

#[tokio::test]
async fn a_batch_is_idle_once_no_environment_has_reserved_seats_in_it_for_a_while() {
    let variables = [("BATCH_KEY", "id"), ("CLOSE_AFTER_IDLE", "60")];
    let first = aggregator(&variables);
    let second = over(&variables, first.fakes.clone());
    let is_sealed = || {
        let mut records = first.fakes.batch_store.records();
        records.retain(|record| record.batch_key == "a".parse().ok());
        records[0].sealed_at.is_some()
    };
    for (environment, id, message, sealed) in [
        (&first, "a", "m1", false),
        (&second, "a", "m2", false),
        (&first, "b", "m3", false),
        (&first, "b", "m4", true),
    ] {
        assert!(invoke(environment, &[(message, id, "")]).await.is_empty());
        assert_eq!(is_sealed(), sealed);
        first.fakes.clock.advance(Duration::from_secs(40));
    }
}

#[tokio::test]
async fn an_event_without_messages_stores_a_load_that_no_batch_has() {
    let aggregator = aggregator(&[]);
    // The second one finds it.
    for _ in 0..2 {
        assert!(invoke(&aggregator, &[]).await.is_empty());
    }
    let bodies = Bodies::Log(ObjectPlace::Table);
    let stored = aggregator.fakes.object_store.bytes(&bodies, NO_LOAD);
    assert_eq!(stored.unwrap(), b"dry run");
    assert!(aggregator.fakes.batch_store.records().is_empty());
}
