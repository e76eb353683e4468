//! How a batch comes to be open: its record is acknowledged first, then its ticket.

use crate::ids::{BatchId, BatchKey, SourceArn};
use crate::time::Timestamp;

/// What has a current batch of its own: an event source and, where `BATCH_KEY` is set, a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// The event source.
    pub source: SourceArn,
    /// The batch key.
    pub key: Option<BatchKey>,
}

/// A batch being opened. Nothing may be claimed into it yet.
#[derive(Debug)]
#[must_use = "an opening that is neither finished nor failed blocks its slot"]
#[non_exhaustive]
pub struct Opening {
    /// Whose batch it will be.
    pub slot: Slot,
}

/// An opening whose record is acknowledged and whose ticket is not.
#[derive(Debug)]
#[must_use = "an opening that is neither finished nor failed blocks its slot"]
pub struct Recorded {
    slot: Slot,
    id: BatchId,
    closes_at: Timestamp,
}

/// An opening whose record and ticket are both acknowledged: now the batch may enter the state.
#[derive(Debug)]
#[must_use = "an opened batch must be handed to the allocator"]
pub struct Opened {
    pub(super) slot: Slot,
    pub(super) id: BatchId,
    pub(super) closes_at: Timestamp,
}

impl Opening {
    /// The batch record is in the table.
    pub fn record_acknowledged(self, id: BatchId, closes_at: Timestamp) -> Recorded {
        Recorded {
            slot: self.slot,
            id,
            closes_at,
        }
    }
}

impl Recorded {
    /// The ticket is in the queue.
    pub fn ticket_acknowledged(self) -> Opened {
        Opened {
            slot: self.slot,
            id: self.id,
            closes_at: self.closes_at,
        }
    }
}
