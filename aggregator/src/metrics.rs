//! The metrics of the aggregator. `docs/metrics.md` is generated from the comments of the fields.

use metrique_writer::Entry;
use protocol::claim::Outcome;
use shared::metrics::{Bytes, Count};

/// Metrics of one invocation about the messages of one source.
#[derive(Clone, Debug, Default, PartialEq, Entry)]
#[entry(rename_all = "PascalCase")]
pub struct AggregatorMetrics {
    /// Messages that the function received.
    pub received: Count,
    /// Messages whose event was claimed.
    pub claimed: Count,
    /// Messages whose event another message has claimed.
    pub duplicates: Count,
    /// Messages that were received before and claimed their event then.
    pub redelivered: Count,
    /// Messages with the event id of another message and another body.
    pub conflicts: Count,
    /// Messages that the quarantine queue has acknowledged.
    pub quarantined: Count,
    /// Messages that SQS delivers again, duplicates that wait among them.
    pub failed: Count,
    /// Bodies of the messages in `Claimed`. What is claimed and not delivered yet is the sum of this metric less the sum of
    /// `DeliveredBytes` and of what was set aside.
    pub claimed_bytes: Bytes,
    /// Seats that were reserved in batches. More than `Claimed` if there were duplicates, replies were lost, or batches were closed meanwhile.
    pub reserved: Count,
    /// Batches that were opened.
    pub batches_opened: Count,
    /// Batches that were sealed: the sum of the next five.
    pub batches_sealed: Count,
    /// Batches that were sealed because `MAX_BATCH_SIZE` seats were reserved in them.
    pub flushed_full: Count,
    /// Batches that were sealed because the next body would have taken them beyond `MAX_BATCH_BYTES`.
    pub flushed_bytes: Count,
    /// Batches that were sealed because their queue was empty (`SEAL_WHEN_DRAINED`).
    pub flushed_drained: Count,
    /// Batches that were sealed because of an urgent event (`BYPASS`).
    pub flushed_urgent: Count,
    /// Batches that were sealed because no event of theirs came for a while (`CLOSE_AFTER_IDLE`).
    pub flushed_idle: Count,
    /// Claims that DynamoDB throttled, once for each attempt.
    pub throttles: Count,
}

impl AggregatorMetrics {
    /// Counts a message by the outcome of its claim. Whether the message failed is another question: duplicates may wait.
    pub(crate) fn count_outcome(&mut self, outcome: Outcome, body_bytes: u64) {
        match outcome {
            Outcome::Claimed => {
                self.claimed.add(1);
                self.claimed_bytes.add(body_bytes);
            }
            Outcome::Redelivered | Outcome::RedeliveredLate => self.redelivered.add(1),
            Outcome::Duplicate => self.duplicates.add(1),
            Outcome::Conflict => self.conflicts.add(1),
            Outcome::Unstorable | Outcome::Failed => {}
        }
    }
}
