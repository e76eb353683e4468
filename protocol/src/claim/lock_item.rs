//! One item of the lock table.

use super::candidate::PastDeliveries;
use crate::ids::{BatchId, BatchShard, BodyHash, Seat, Seq, SqsMessageId};
use crate::planted::planted;
use crate::time::Timestamp;

/// One item of the lock table, without the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockItem {
    /// The message that made the claim.
    pub sqs_message_id: SqsMessageId,
    pub body_hash: BodyHash,
    pub past: PastDeliveries,
    pub state: LockState,
    /// Whether the item is the tombstone of an event that was set aside or rejected. Then the event was not delivered.
    pub set_aside: bool,
}

impl LockItem {
    /// Returns whether the item is still in the state of `expected`: the condition of a replacement.
    pub fn is_same_state(&self, expected: &LockItem) -> bool {
        self.sqs_message_id == expected.sqs_message_id && self.state == expected.state
    }

    /// Returns the TTL of the item: the end of a tombstone's window; `None` for a live claim.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match self.state {
            LockState::Live { .. } if planted("ttl-on-live-claim") => Some(Timestamp::EPOCH),
            LockState::Live { .. } => None,
            LockState::Tombstone { expires_at } => Some(expires_at),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// A claim that is not released yet.
    Live {
        /// The index key of the claim: its batch and shard.
        shard: BatchShard,
        seq: Seq,
    },
    /// The event was delivered and its claim released.
    Tombstone {
        /// End of the dedup window.
        expires_at: Timestamp,
    },
}

impl LockState {
    /// Returns the seat of a claim; `None` for a tombstone.
    pub fn claimed_seat(&self) -> Option<(BatchId, Seq)> {
        match *self {
            LockState::Live { shard, seq } => Some((shard.batch, seq)),
            LockState::Tombstone { .. } => None,
        }
    }

    /// Returns whether this is a claim of `seat`.
    pub fn is_claim_of(&self, seat: Seat) -> bool {
        match *self {
            LockState::Live { shard, seq } => seat.shard() == shard && seat.seq == seq,
            LockState::Tombstone { .. } => false,
        }
    }
}
