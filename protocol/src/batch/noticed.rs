//! A batch record as a notice shows it: in the state in which the notice was written.

use std::time::Duration;

use super::notice::{Notice, NoticeCounts, NoticeKind};
use super::part::PartState;
use super::record::BatchRecord;
use crate::limits::{BATCH_LIFE_MAX, NOTICE_ERROR_BYTES_MAX, NOTICES_MAX};
use crate::text::cut;
use crate::time::Timestamp;

const DAY: Duration = Duration::from_secs(24 * 3_600);

impl Notice {
    /// Returns a notice that the batch is complete.
    pub fn of_completion(record: &BatchRecord, at: Timestamp) -> Notice {
        Notice::new(record, NoticeKind::Complete, at)
    }

    /// Returns a notice that the batch goes into error.
    pub fn of_error(record: &BatchRecord, error: &str, at: Timestamp) -> Notice {
        let error = cut(error, NOTICE_ERROR_BYTES_MAX);
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
            set_aside: record.quarantined().len(),
        }
    }
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
                counts.delivered += part.taken();
                counts.rejected += part.rejected;
            }
        }
        counts
    }

    /// Returns when a batch in error without a waiting notice is due: at the end of its batch life, when the sweep has it set
    /// aside. Until then, the sweep need not look at it. After that, once a day.
    pub fn error_due_at(&self, now: Timestamp) -> Timestamp {
        (self.created_at + BATCH_LIFE_MAX).max(now + DAY)
    }
}
