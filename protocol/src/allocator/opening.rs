//! The steps of opening a batch: its record is acknowledged first, then its ticket.

use serde::{Deserialize, Serialize};

use crate::batch::BatchRecord;
use crate::ids::{BatchId, BatchKey, SourceArn};
use crate::period::Period;
use crate::time::Timestamp;

/// Names the events of one current batch: those of a source, of a batch key with `BATCH_KEY`, and of a period with `CLOSE_AT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchScope {
    pub source: SourceArn,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<BatchKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
}

impl BatchScope {
    /// Returns whether the batch is one of many that are open at once: one of a key or of a period.
    pub fn is_one_of_many(&self) -> bool {
        self.key.is_some() || self.period.is_some()
    }
}

/// A batch that is being opened. It gives out no seats yet.
#[derive(Debug)]
#[must_use = "an opening that is neither finished nor failed blocks its scope"]
#[non_exhaustive]
pub struct Opening {
    pub scope: BatchScope,
}

/// An opening whose record is acknowledged and whose ticket is not yet.
#[derive(Debug)]
#[must_use = "an opening that is neither finished nor failed blocks its scope"]
pub struct Recorded {
    scope: BatchScope,
    id: BatchId,
    closes_at: Timestamp,
}

/// An opening whose record is acknowledged, and its ticket too, unless the sweep sends that. The allocator takes only these.
#[derive(Debug)]
#[must_use = "an opened batch must be handed to the allocator"]
pub struct Opened {
    pub(super) scope: BatchScope,
    pub(super) id: BatchId,
    pub(super) closes_at: Timestamp,
}

impl Opening {
    /// Notes that the batch record is in the table.
    pub fn record_acknowledged(self, record: &BatchRecord) -> Recorded {
        Recorded {
            scope: self.scope,
            id: record.batch_id,
            closes_at: record.closes_at,
        }
    }
}

impl Recorded {
    /// Notes that the ticket is in the queue, or that the window ends so late that the sweep sends the ticket.
    pub fn ticket_acknowledged(self) -> Opened {
        Opened {
            scope: self.scope,
            id: self.id,
            closes_at: self.closes_at,
        }
    }
}
