//! What a sink is given: one numbered delivery of a batch.

use protocol::ids::{BatchId, BatchKey, SourceArn};
use protocol::planted::{Bug, planted};
use shared::ports::StoredEvent;

/// One numbered delivery of a batch. Its content and its key are the same at every attempt.
#[derive(Debug)]
pub struct Part {
    /// The batch.
    pub batch_id: BatchId,
    /// Number of the part in its batch, from 0.
    pub number: usize,
    /// Where the events came from.
    pub source: SourceArn,
    /// What the events have in common, where `BATCH_KEY` is set.
    pub batch_key: Option<BatchKey>,
    /// The events, in seq order.
    pub items: Vec<StoredEvent>,
}

impl Part {
    /// The idempotency key, `<batchId>/<part>`: a sink that honours it sees each part exactly once.
    pub fn key(&self) -> String {
        format!("{}/{}", self.batch_id, self.number)
    }
}

/// Hash over what identifies every item, in order: seq, event id, message id, and the hash of its body.
pub fn content_hash(items: &[StoredEvent]) -> [u8; 32] {
    // Many items at once: the hash of much is made several times as fast as that of little after little.
    const BYTES_AT_ONCE: usize = 64 * 1_024;
    let mut hasher = blake3::Hasher::new();
    let mut bytes = Vec::new();
    for item in items {
        bytes.extend_from_slice(&item.seq.to_be_bytes());
        for text in [item.event_id.as_str(), item.sqs_message_id.as_str()] {
            bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        if !planted(Bug::BodyHashLeftOut) {
            bytes.extend_from_slice(item.body_hash.as_bytes());
        }
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
    fn the_content_hash_sees_every_item_and_its_place() {
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
