//! Batches as JSON. Times are epoch milliseconds.

use aws::BatchSummary;
use protocol::batch::{BatchRecord, Failure, Status};
use protocol::time::Timestamp;
use serde::Serialize;

use crate::filter::is_overdue;

/// What a list says about a batch.
#[derive(Clone, Debug, Serialize)]
pub struct BatchView {
    #[serde(flatten)]
    pub summary: BatchSummary,
    /// `open`, `sealed`, `processing`, `error` or `complete`.
    pub status: &'static str,
    pub overdue: bool,
    /// Notices that may not have been sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<NoticeView>,
}

/// A notice that may not have been sent.
#[derive(Clone, Debug, Serialize)]
pub struct NoticeView {
    pub id: String,
    /// When the batch was completed or went into error.
    pub at: Timestamp,
}

impl BatchView {
    pub fn of(summary: BatchSummary, now: Timestamp) -> BatchView {
        let (id, status) = (summary.batch_id, summary.status);
        let notices = summary.notices.iter().map(|notice| NoticeView {
            id: notice.id(id),
            at: notice.at,
        });
        BatchView {
            status: status_word(status),
            overdue: status.is_some_and(|status| is_overdue(status, summary.due_at, now)),
            notices: notices.collect(),
            summary,
        }
    }
}

/// Returns how many seats of a batch are reserved, if it is not known yet what became of them.
pub fn undecided_seats(record: &BatchRecord) -> Option<u64> {
    let undecided = record
        .reservations
        .as_ref()
        .filter(|_| !record.is_resolved());
    undecided.map(|one| one.reserved)
}

/// Returns the last failure of a batch that is tried again.
pub fn last_failure(record: &BatchRecord) -> Option<Failure> {
    let retried = matches!(record.status, Some(status) if status != Status::Error);
    record.last_failure.clone().filter(|_| retried)
}

pub fn status_word(status: Option<Status>) -> &'static str {
    status.map_or("complete", Status::as_str)
}
