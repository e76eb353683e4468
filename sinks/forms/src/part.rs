//! The input of a sink: one numbered delivery of a batch.

use protocol::batch::BatchRecord;
use protocol::chain::Link;
use protocol::ids::{BatchId, BatchKey, Seq, SourceArn};
use protocol::period::Period;
use protocol::time::Timestamp;
use shared::ports::StoredEvent;

/// One numbered delivery of a batch. Its content and its key are the same at every attempt.
#[derive(Debug)]
pub struct Part {
    /// Which batch the part is of.
    pub batch_id: BatchId,
    /// The index of the part in its batch, from 0.
    pub part_index: usize,
    /// The queue that the events came from.
    pub source: SourceArn,
    /// The batch key that all events share, if `BATCH_KEY` is set.
    pub batch_key: Option<BatchKey>,
    /// When the batch closed: when it was full, or else the end of its window. It is the same at every attempt.
    pub closed_at: Timestamp,
    /// The period that all events are in, if `CLOSE_AT` is set.
    pub period: Option<Period>,
    /// The number of the part among those of its source and batch key, if the sink [needs one](crate::Sink::needs_sequence).
    pub file_number: Option<u64>,
    /// The link to the part before it, with `PROOF`.
    pub link: Option<Link>,
    /// The events, in seq order.
    pub items: Vec<StoredEvent>,
}

impl Part {
    /// Returns a part of a batch, as its record describes it.
    pub fn of(record: &BatchRecord, part_index: usize, items: Vec<StoredEvent>) -> Part {
        Part {
            batch_id: record.batch_id,
            part_index,
            source: record.source.clone(),
            batch_key: record.batch_key.clone(),
            closed_at: record.closed_at(),
            period: record.period,
            file_number: record.file_number(part_index),
            link: record.link(part_index),
            items,
        }
    }

    /// Returns the idempotency key, `<batchId>/<part>`. A sink that ignores keys it has seen stores each part exactly once.
    pub fn key(&self) -> String {
        format!("{}/{}", self.batch_id, self.part_index)
    }

    /// Returns the event with a seq, if it is in the part.
    pub fn item(&self, seq: Seq) -> Option<&StoredEvent> {
        let index = self.items.binary_search_by_key(&seq, |item| item.seq);
        Some(&self.items[index.ok()?])
    }
}

/// Returns a hash over the seq, event id, message id and body hash of every item, in order.
pub fn content_hash(items: &[StoredEvent]) -> [u8; 32] {
    // Items are collected first: blake3 is several times as fast over large inputs as over many small ones.
    const BYTES_AT_ONCE: usize = 64 * 1_024;
    let mut hasher = blake3::Hasher::new();
    let mut bytes = Vec::new();
    for item in items {
        bytes.extend_from_slice(&item.seq.to_be_bytes());
        for text in [item.event_id.as_str(), item.sqs_message_id.as_str()] {
            bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes.extend_from_slice(item.body_hash.as_bytes());
        if bytes.len() >= BYTES_AT_ONCE {
            hasher.update(&bytes);
            bytes.clear();
        }
    }
    *hasher.update(&bytes).finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_support;

    #[test]
    fn the_content_hash_depends_on_every_item_and_its_position() {
        let hash = |bodies: &[&str]| content_hash(&tests_support::part(0, bodies).items);
        assert_eq!(hash(&["a", "b"]), hash(&["a", "b"]));
        assert_ne!(hash(&["a", "b"]), hash(&["b", "a"]));
        assert_ne!(hash(&["a", "b"]), hash(&["a"]));
        assert_eq!(
            tests_support::part(3, &[]).key(),
            "0190163d-8694-739b-aea5-966c26f8ad91/3"
        );
    }
}
