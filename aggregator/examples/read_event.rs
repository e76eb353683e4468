//! What it costs to read an event: run it under `valgrind --tool=callgrind`, with more and with fewer times, and divide
//! the difference by the messages. Arguments: messages in the event, how often it is read, `EVENT_ID`.
//!
//! ```text
//! cargo build --release --package aggregator --no-default-features --example read_event
//! valgrind --tool=callgrind target/release/examples/read_event 5000 3 json:id
//! ```

use std::time::Instant;

use aggregator::event::Event;
use aggregator::{Config, records};
use serde_json::json;
use shared::time::Timestamp;

const BODY_BYTES: usize = 300;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| {
        arguments
            .get(index)
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let (messages, times) = (number(0, 5_000), number(1, 10));
    let rule = arguments.get(2).map_or("json:id", String::as_str);
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
    let config = config.expect("only `EVENT_ID` can be wrong");
    let payload = event(messages);
    let started = Instant::now();
    let mut good = 0;
    for _ in 0..times {
        good += read(&payload, &config);
    }
    let elapsed = started.elapsed();
    println!(
        "{good} messages in {} bytes, {} ns each",
        payload.len() * times,
        elapsed.as_nanos() / good.max(1) as u128
    );
}

fn read(payload: &[u8], config: &Config) -> usize {
    let event = Event::parse(payload).expect("it is an event");
    let records = records::read(event, config, Timestamp::EPOCH).expect("all have ids");
    records
        .iter()
        .filter(|record| record.content.is_ok())
        .count()
}

/// An event of SQS, with everything that is in one.
fn event(messages: usize) -> Vec<u8> {
    let records: Vec<_> = (0..messages).map(message).collect();
    json!({ "Records": records }).to_string().into_bytes()
}

fn message(index: usize) -> serde_json::Value {
    json!({
        "messageId": format!("{index:08x}-1234-4abc-8def-0123456789ab"),
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
        "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:unique-events-input-queue",
        "awsRegion": "eu-west-1",
    })
}

fn body(index: usize) -> String {
    let mut body = json!({
        "id": format!("order-{index:010}"),
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
