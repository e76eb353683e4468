//! Makes parts for the tests of sinks.

use protocol::ids::{BatchId, BodyHash, Seat};
use protocol::time::Timestamp;
use shared::ports::StoredEvent;
use sinks::Part;

/// Returns the first part of a batch with a batch key.
pub(crate) fn part<B: AsRef<str>>(bodies: &[B]) -> Part {
    let batch_id = "0190163d-8694-739b-aea5-966c26f8ad91";
    let batch_id: BatchId = batch_id.parse().expect("the value is an id");
    let item = |(index, body): (usize, &B)| {
        let body = body.as_ref();
        let seq = u32::try_from(index).expect("they are few");
        let seat = Seat {
            batch: batch_id,
            seq,
            shards: 10,
        };
        StoredEvent {
            event_id: format!("e{seq}").parse().expect("the value is an id"),
            sqs_message_id: format!("m{seq}").parse().expect("the value is an id"),
            body_hash: BodyHash::of(body.as_bytes()),
            shard: seat.shard(),
            seq,
            body: body.into(),
            overflow: None,
            source: "arn:q".parse().expect("the value is a source"),
            sent_at: Timestamp::from_ms(7),
            attributes: None,
            quota: None,
        }
    };
    Part {
        batch_id,
        part_index: 0,
        source: "arn:q".parse().expect("the value is a source"),
        batch_key: Some("Zo\u{eb}".parse().expect("the value is a key")),
        closed_at: Timestamp::EPOCH,
        period: None,
        file_number: None,
        link: None,
        items: bodies.iter().enumerate().map(item).collect(),
    }
}
