//! Makes parts for tests.

use std::sync::Arc;

use protocol::ids::{BatchId, BodyHash, Seat};
use protocol::time::Timestamp;
use shared::ports::StoredEvent;

use crate::compression::Compression;
use crate::format::Format;
use crate::layout::Layout;
use crate::part::Part;
use crate::rendering::Rendering;

/// The id of the batch of every part.
pub const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

/// Checks that a text has all of these words.
#[track_caller]
pub fn assert_has(text: &str, all: &[&str]) {
    for words in all {
        assert!(text.contains(words), "{words} in {text}");
    }
}

/// Returns a rendering in the default layout.
pub fn rendering(format: Format, compression: Compression) -> Rendering {
    Rendering {
        format,
        layout: Layout::default(),
        compression,
    }
}

/// Returns a part with these bodies.
pub fn part(number: usize, bodies: &[&str]) -> Part {
    let batch_id: BatchId = BATCH.parse().expect("it is well formed");
    let item = |(seq, body): (usize, &&str)| StoredEvent {
        event_id: format!("e{seq}").parse().expect("it is well formed"),
        sqs_message_id: format!("m{seq}").parse().expect("it is well formed"),
        body_hash: BodyHash::of(body.as_bytes()),
        shard: Seat {
            batch: batch_id,
            seq: seq as u32,
            shards: 10,
        }
        .shard(),
        seq: seq as u32,
        body: Arc::<str>::from(*body),
        overflow: None,
        source: "arn:q".parse().expect("it is well formed"),
        sent_at: Timestamp::from_ms(7),
        attributes: None,
        quota: None,
    };
    Part {
        batch_id,
        part_index: number,
        source: "arn:q".parse().expect("it is well formed"),
        batch_key: None,
        // 2026-11-25, 23:30 UTC.
        closed_at: Timestamp::from_ms(1_795_649_400_000),
        period: None,
        file_number: None,
        link: None,
        items: bodies.iter().enumerate().map(item).collect(),
    }
}
