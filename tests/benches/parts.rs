//! Measures the CPU time of the steps without I/O, for 5,000 messages of 300 bytes: `cargo xtask bench parts`.

use std::io;
use std::sync::Arc;

use aggregator::{Config, records};
use divan::Bencher;
use divan::counter::ItemsCount;
use protocol::batch::BatchRecord;
use protocol::claim::Candidate;
use protocol::ids::{BatchId, BodyHash, Seat, SourceArn};
use protocol::log::{
    ENTRY_BYTES, Entry, IdHash, Line, Matches, Owner, RunHeader, RunList, object_hash, resolve,
};
use protocol::time::Timestamp;
use serde_json::json;
use shared::index_run::{decode_run, encode_run};
use shared::ports::StoredEvent;
use sinks::{Format, Part, content_hash};

const MESSAGES: usize = 5_000;
/// Lines of a batch of the log.
const LINES: u64 = 50_000;
/// Entries of a merged run, and runs of an index with ten million entries.
const RUN_ENTRIES: u64 = 65_536;
const RUNS: u64 = 153;
const BODY_BYTES: usize = 300;
const SOURCE: &str = "arn:aws:sqs:eu-west-1:123456789012:unique-events-input-queue";
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

/// Finds the ids of the lines of a batch in an index of ten million entries, which is in memory, and decides. One line in twenty is a
/// duplicate.
#[divan::bench(sample_count = 20)]
fn resolve_lines(bencher: Bencher<'_, '_>) {
    let runs: Vec<_> = (0..RUNS).map(entries_of_run).collect();
    let runs: Vec<Vec<_>> = runs.iter().map(|run| to_bytes(run)).collect();
    let lines = lines();
    let owners = [owner()];
    let (record, list) = (record(), RunList::default());
    bencher.counter(ItemsCount::new(LINES)).bench_local(|| {
        let mut matches = Matches::of_ids(lines.iter().map(|line| line.id));
        for run in &runs {
            matches.add(&owners, run).expect("the owner is there");
        }
        let record_of = |_| Some(&record);
        let decided = resolve(&lines, &matches, &list, record_of, Timestamp::EPOCH);
        let decided = decided.expect("every owner has a record");
        assert_eq!(decided.duplicates.len(), LINES / 20);
        decided
    });
}

/// Reads a run from its bytes, and finds the ids of a batch in it: what an entry takes that is not in memory.
#[divan::bench]
fn read_run(bencher: Bencher<'_, '_>) {
    let header = RunHeader {
        owners: vec![owner()],
        ..RunHeader::default()
    };
    let bytes = encode_run(&header, &entries_of_run(0));
    let hash = object_hash(&bytes);
    let lines = lines();
    bencher
        .counter(ItemsCount::new(RUN_ENTRIES))
        .with_inputs(|| Matches::of_ids(lines.iter().map(|line| line.id)))
        .bench_local_values(|mut matches| {
            let (header, entries) = decode_run(&bytes, hash).expect("the run is whole");
            let added = matches.add(&header.owners, &entries);
            added.expect("the owner is there");
            matches
        });
}

/// Returns the hash of the id of an event. Neighbours are far apart, as hashes are.
fn id_hash(event: u64) -> IdHash {
    let hash = blake3::hash(&event.to_be_bytes());
    let bytes = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
    IdHash::new(u128::from_be_bytes(*bytes))
}

fn entries_of_run(run: u64) -> Vec<Entry> {
    let entry = |event: u64| Entry {
        id: id_hash(event),
        owner: 0,
        seq: (event % LINES) as u32,
        message: event,
        body: 0,
    };
    let events = run * RUN_ENTRIES..(run + 1) * RUN_ENTRIES;
    let mut entries: Vec<Entry> = events.map(entry).collect();
    entries.sort_unstable();
    entries
}

fn to_bytes(entries: &[Entry]) -> Vec<[u8; ENTRY_BYTES]> {
    entries.iter().copied().map(Entry::to_bytes).collect()
}

/// Returns the lines of a batch. One in twenty has the id of an event in the index.
fn lines() -> Vec<Line> {
    let line = |index: u64| Line {
        id: match index % 20 {
            0 => id_hash(index * 150),
            _ => id_hash(RUNS * RUN_ENTRIES + index),
        },
        message: u64::MAX - index,
        body: 0,
        seq: index as u32,
        stored_at: Timestamp::EPOCH,
        quota: None,
    };
    (0..LINES).map(line).collect()
}

fn owner() -> Owner {
    let window = std::time::Duration::from_secs(86_400);
    Owner::batch(batch(), Timestamp::EPOCH, window)
}

/// Returns the record of the batch that has the entries of the index: its events are alive.
fn record() -> BatchRecord {
    BatchRecord::open(batch(), source(), None, 10, Timestamp::EPOCH, CLOSES_AT)
}

fn batch() -> BatchId {
    BatchId::new(uuid::Uuid::from_u128(1))
}

fn source() -> SourceArn {
    SOURCE.parse().expect("the value is an ARN")
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
                source: source(),
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
            quota: None,
        }
    };
    Part {
        batch_id: batch(),
        part_index: 0,
        source: source(),
        batch_key: None,
        closed_at: Timestamp::EPOCH,
        period: None,
        file_number: None,
        link: None,
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
