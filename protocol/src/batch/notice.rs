//! Notices: messages to others that a batch is complete, or went into error.
//!
//! A notice is in the record from the write that it is about until it was sent. So a notice is sent at least once, however
//! the process ends, and none is sent about something that did not happen.
//!
//! The record may change while a notice waits, but the manifest in the notice may not. So a notice keeps what may change (how
//! many parts there were, whether the last one was frozen, how many events were set aside). All else is taken from the
//! record, and never changes: the parts that were there, except a frozen one, and when the batch was opened and sealed.

use crate::ids::BatchId;
use crate::limits::{DUE_GRACE, NOTICE_OVERHEAD_BYTES};
use crate::time::Timestamp;

/// The subject of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// The batch is complete.
    Complete,
    /// The batch went into error.
    Error { error: String },
}

/// A notice about a batch that may not have been sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub kind: NoticeKind,
    /// The number of the lease that ended with it, which tells the notices of a batch apart.
    pub number: u64,
    /// When it happened.
    pub at: Timestamp,
    /// Number of parts at that time.
    pub parts: usize,
    /// Whether the last of these parts was frozen and not delivered.
    pub frozen: bool,
    /// Number of events that were set aside by then.
    pub set_aside: u64,
}

impl Notice {
    /// Returns the id, which is the same whenever the notice is sent: `<batch id>/complete` or `<batch id>/error/<number>`.
    pub fn id(&self, batch: BatchId) -> String {
        match self.kind {
            NoticeKind::Complete => format!("{batch}/complete"),
            NoticeKind::Error { .. } => format!("{batch}/error/{}", self.number),
        }
    }

    /// Returns when the sweep should look for the notice, if it was not sent by then.
    pub fn due_at(&self) -> Timestamp {
        self.at + DUE_GRACE
    }

    pub(super) fn bytes(&self) -> usize {
        let error = match &self.kind {
            NoticeKind::Complete => 0,
            NoticeKind::Error { error } => error.len(),
        };
        NOTICE_OVERHEAD_BYTES + error
    }
}

/// Events of a batch, by what became of them when a notice was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoticeCounts {
    /// Events of delivered parts that the sink has.
    pub delivered: u64,
    /// Events of delivered parts that are only in a reject list.
    pub rejected: u64,
    /// Events that were sent to the quarantine.
    pub set_aside: u64,
}
