//! Measures the CPU time of the steps without I/O, for 5,000 messages of 300 bytes: `cargo xtask bench parts`.

use std::io;
use std::sync::Arc;

use aggregator::{Config, records};
use divan::Bencher;
use divan::counter::ItemsCount;
use protocol::allocator::{Allocator, BatchLimits, BatchScope, SeatEnd, Seating};
use protocol::batch::BatchRecord;
use protocol::claim::Candidate;
use protocol::ids::{BatchId, BodyHash, Seat};
use protocol::time::Timestamp;
use serde_json::json;
use shared::ports::StoredEvent;
use sinks::{Format, Part, content_hash};

const MESSAGES: usize = 5_000;
const BODY_BYTES: usize = 300;
const SOURCE: &str = "arn:aws:sqs:eu-west-1:123456789012:unique-events-input-queue";
const DEADLINE: Timestamp = Timestamp::from_ms(15_000);
const CLOSES_AT: Timestamp = Timestamp::from_ms(300_000);

fn main() {
    divan::main();
}

/// Reads the payload of an invocation into candidates: ids, and hashes of the bodies.
#[divan::bench(args = ["message-id", "body-hash", "json:id", "json:join('-', [id, type])"])]
fn read_event(bencher: Bencher<'_, '_>, rule: &str) {
    let payload = payload();
    let config = config(rule);
    bencher.counter(ItemsCount::new(MESSAGES)).bench_local(|| {
        let event: aggregator::event::SqsEvent =
            serde_json::from_slice(&payload).expect("it is an event");
        records::read(event, &config, Timestamp::EPOCH).expect("all have ids")
    });
}

/// Gives out seats for all messages, and settles them.
#[divan::bench]
fn seat_and_settle(bencher: Bencher<'_, '_>) {
    let slot = slot();
    bencher
        .counter(ItemsCount::new(MESSAGES))
        .with_inputs(|| open(&slot))
        .bench_local_refs(|allocator| {
            for seat in seats(allocator, &slot) {
                allocator.finish(seat, BODY_BYTES as u64, SeatEnd::Claimed);
            }
        });
}

/// Remembers claims.
#[divan::bench]
fn remember(bencher: Bencher<'_, '_>) {
    let slot = slot();
    let candidates = candidates();
    bencher
        .counter(ItemsCount::new(MESSAGES))
        .with_inputs(|| {
            let mut allocator = open(&slot);
            let seats = seats(&mut allocator, &slot);
            (allocator, seats)
        })
        .bench_local_refs(|(allocator, seats)| {
            for (seat, candidate) in seats.iter().zip(&candidates) {
                allocator.remember(*seat, candidate);
            }
        });
}

/// Looks up remembered claims, all of which exist.
#[divan::bench]
fn known(bencher: Bencher<'_, '_>) {
    let slot = slot();
    let candidates = candidates();
    let mut allocator = open(&slot);
    for (seat, candidate) in seats(&mut allocator, &slot).into_iter().zip(&candidates) {
        allocator.finish(seat, BODY_BYTES as u64, SeatEnd::Claimed);
        allocator.remember(seat, candidate);
    }
    let counts = allocator.counts(batch()).expect("the batch is open");
    allocator.counted(batch(), counts.version);
    bencher.counter(ItemsCount::new(MESSAGES)).bench_local(|| {
        let known = |one: &&Candidate| allocator.known(&slot, one, DEADLINE).is_some();
        assert_eq!(candidates.iter().filter(known).count(), MESSAGES);
    });
}

/// Calculates the content hash of a part.
#[divan::bench]
fn hash_part(bencher: Bencher<'_, '_>) {
    let part = part();
    bencher
        .counter(ItemsCount::new(MESSAGES))
        .bench_local(|| content_hash(&part.items));
}

/// Renders a part for its sink.
#[divan::bench(args = [Format::Envelope, Format::Body])]
fn render_part(bencher: Bencher<'_, '_>, format: &Format) {
    let part = part();
    bencher.counter(ItemsCount::new(MESSAGES)).bench_local(|| {
        let mut to = io::BufWriter::with_capacity(1 << 18, io::sink());
        format
            .write(&part, &mut to)
            .expect("a sink takes everything");
    });
}

fn batch() -> BatchId {
    BatchId::new(uuid::Uuid::from_u128(1))
}

fn slot() -> BatchScope {
    BatchScope {
        period: None,
        source: SOURCE.parse().expect("the value is an ARN"),
        key: None,
    }
}

fn open(slot: &BatchScope) -> Allocator {
    let mut allocator = Allocator::new(BatchLimits {
        items_max: 50_000,
        bytes_max: 128 << 20,
        shards: 10,
        keys_max: 1,
        seats_max: 1_000_000,
        known_claims_max: 1_000_000,
    });
    let Seating::Open(opening) = allocator.seat(slot, &[1], DEADLINE) else {
        panic!("nothing is open");
    };
    let source = slot.source.clone();
    let record = BatchRecord::open(batch(), source, None, 10, Timestamp::EPOCH, CLOSES_AT);
    let recorded = opening.record_acknowledged(&record);
    allocator.opened(recorded.ticket_acknowledged());
    allocator
}

fn seats(allocator: &mut Allocator, slot: &BatchScope) -> Vec<Seat> {
    match allocator.seat(slot, &[BODY_BYTES as u64; MESSAGES], DEADLINE) {
        Seating::Seats(seats) => seats,
        other => panic!("expected seats, got {other:?}"),
    }
}

fn candidates() -> Vec<Candidate> {
    (0..MESSAGES)
        .map(|index| {
            let body = body(index);
            Candidate {
                event_id: event_id(index).parse().expect("the value is an id"),
                sqs_message_id: message_id(index).parse().expect("the value is an id"),
                body_hash: BodyHash::of(body.as_bytes()),
                body: body.into(),
                compressed: None,
                source: slot().source,
                sent_at: Timestamp::EPOCH,
                attributes: None,
                quota: None,
            }
        })
        .collect()
}

fn part() -> Part {
    let item = |(index, candidate): (usize, Candidate)| {
        let seat = Seat {
            batch: batch(),
            seq: index as u32,
            shards: 10,
        };
        StoredEvent {
            event_id: candidate.event_id,
            sqs_message_id: candidate.sqs_message_id,
            body_hash: candidate.body_hash,
            shard: seat.shard(),
            seq: seat.seq,
            body: Arc::clone(&candidate.body),
            overflow: None,
            source: candidate.source,
            sent_at: candidate.sent_at,
            attributes: None,
        }
    };
    Part {
        batch_id: batch(),
        part_index: 0,
        source: slot().source,
        batch_key: None,
        closed_at: Timestamp::EPOCH,
        period: None,
        file_number: None,
        items: candidates().into_iter().enumerate().map(item).collect(),
    }
}

fn config(rule: &str) -> Config {
    let config = Config::read(&|name| {
        let value = match name {
            "DDB_LOCK_TABLE" => "lock-table",
            "DDB_BATCH_TABLE" => "batch-table",
            "BATCH_QUEUE_URL" => "https://sqs.eu-west-1.amazonaws.com/1/batch-queue",
            "EVENT_ID" => rule,
            _ => return None,
        };
        Some(value.to_owned())
    });
    config.expect("the rule is good")
}

/// Returns an SQS event with all its usual fields.
fn payload() -> Vec<u8> {
    let records: Vec<_> = (0..MESSAGES).map(message).collect();
    json!({ "Records": records }).to_string().into_bytes()
}

fn message(index: usize) -> serde_json::Value {
    json!({
        "messageId": message_id(index),
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a+Zk/".repeat(9),
        "body": body(index),
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "1700000000000",
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "ApproximateFirstReceiveTimestamp": "1700000000001",
        },
        "messageAttributes": {},
        "md5OfBody": "098f6bcd4621d373cade4e832627b4f6",
        "eventSource": "aws:sqs",
        "eventSourceARN": SOURCE,
        "awsRegion": "eu-west-1",
    })
}

fn message_id(index: usize) -> String {
    format!("{index:08x}-1234-4abc-8def-0123456789ab")
}

fn event_id(index: usize) -> String {
    format!("order-{index:010}")
}

fn body(index: usize) -> String {
    let mut body = json!({
        "id": event_id(index),
        "customer": index % 997,
        "type": "order.created",
        "at": "2025-11-21T10:00:00.000Z",
        "items": [{ "sku": "a-1", "count": 2, "price": 12.5 }, { "sku": "b-2", "count": 1, "price": 3 }],
        "note": "",
    });
    let missing = BODY_BYTES - body.to_string().len();
    body["note"] = "x".repeat(missing).into();
    body.to_string()
}
