//! Notices: messages to others that a batch is complete, or went into error.
//!
//! A notice is in the record from the write that it is about until it was sent. So a notice is sent at least once, however
//! the process ends, and none is sent about something that did not happen.
//!
//! The record may change while a notice waits, but the manifest in the notice may not. So a notice keeps what may change (how
//! many parts there were, whether the last one was frozen, how many events were set aside). All else is taken from the
//! record, and never changes: the parts that were there, except a frozen one, and when the batch was opened and sealed.

use super::record::{BatchRecord, PartState};
use crate::ids::BatchId;
use crate::limits::{
    BATCH_LIFE_MAX, DUE_GRACE, NOTICE_ERROR_BYTES_MAX, NOTICE_OVERHEAD_BYTES, NOTICES_MAX,
    REMINDED_FOR,
};
use crate::time::Timestamp;

/// What a notice is about.
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
    /// Returns a notice that the batch is complete.
    pub fn of_completion(record: &BatchRecord, at: Timestamp) -> Notice {
        Notice::new(record, NoticeKind::Complete, at)
    }

    /// Returns a notice that the batch goes into error.
    pub fn of_error(record: &BatchRecord, error: &str, at: Timestamp) -> Notice {
        let error = error[..error.floor_char_boundary(NOTICE_ERROR_BYTES_MAX)].to_owned();
        Notice::new(record, NoticeKind::Error { error }, at)
    }

    /// Returns a notice about the batch as it is.
    fn new(record: &BatchRecord, kind: NoticeKind, at: Timestamp) -> Notice {
        Notice {
            kind,
            number: record.attempts,
            at,
            parts: record.parts.len(),
            frozen: record.frozen_part().is_some(),
            set_aside: record.set_aside.len(),
        }
    }

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
    /// Events in delivered parts.
    pub delivered: u64,
    /// Those of them that are only in a reject list.
    pub rejected: u64,
    /// Events that were sent to the quarantine.
    pub set_aside: u64,
}

impl BatchRecord {
    /// Returns whether the record has room for another notice of an error. There is always room for the one that says that the
    /// batch is complete.
    pub fn takes_notice(&self) -> bool {
        self.notices.len() < NOTICES_MAX
    }

    /// Returns the state of part `index` when `notice` was written.
    pub fn part_state_in(&self, notice: &Notice, index: usize) -> PartState {
        match notice.frozen && index + 1 == notice.parts {
            true => PartState::Frozen,
            false => self
                .parts
                .get(index)
                .map_or(PartState::Frozen, |part| part.state.clone()),
        }
    }

    /// Returns how many events were delivered, rejected and set aside when `notice` was written.
    pub fn counts_in(&self, notice: &Notice) -> NoticeCounts {
        let mut counts = NoticeCounts {
            set_aside: notice.set_aside,
            ..NoticeCounts::default()
        };
        for (index, part) in self.parts.iter().enumerate().take(notice.parts) {
            if matches!(
                self.part_state_in(notice, index),
                PartState::Delivered { .. }
            ) {
                counts.delivered += part.count;
                counts.rejected += part.rejected;
            }
        }
        counts
    }

    /// Returns when a batch in error without a waiting notice is due: at the end of its batch life, when the sweep has it set
    /// aside. Until then, the sweep need not look at it.
    pub fn error_due_at(&self, now: Timestamp) -> Timestamp {
        (self.created_at + BATCH_LIFE_MAX).max(now + REMINDED_FOR)
    }
}
