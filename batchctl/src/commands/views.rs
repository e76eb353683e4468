//! Batches as JSON. Times are epoch milliseconds.

use protocol::batch::{BatchRecord, Failure, Lease, Notice, OperatorNote, Status};
use protocol::ids::BatchId;
use protocol::period::Period;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::aws::BatchSummary;

use crate::filter::is_overdue;

/// What a list says about a batch.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchView {
    pub batch_id: String,
    /// `open`, `sealed`, `processing`, `error` or `complete`.
    pub status: &'static str,
    pub overdue: bool,
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    pub created_at: Timestamp,
    pub closes_at: Timestamp,
    pub due_at: Timestamp,
    /// `items`, `table` or `s3://…`.
    pub bodies: String,
    /// Claims that were counted.
    pub confirmed: u64,
    /// Events of delivered parts that the sink has.
    pub delivered: u64,
    /// Events of delivered parts that are only in a reject list.
    pub rejected: u64,
    pub parts: usize,
    pub attempts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the batch is set aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    pub notes: Vec<OperatorNote>,
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
    pub fn of(batch: &BatchSummary, now: Timestamp) -> BatchView {
        BatchView {
            batch_id: batch.batch_id.to_string(),
            status: status_word(batch.status),
            overdue: batch
                .status
                .is_some_and(|status| is_overdue(status, batch.due_at, now)),
            source: batch.source.to_string(),
            batch_key: batch.batch_key.as_ref().map(ToString::to_string),
            period: batch.period,
            created_at: batch.created_at,
            closes_at: batch.closes_at,
            due_at: batch.due_at,
            bodies: batch.bodies.to_string(),
            confirmed: batch.confirmed,
            delivered: batch.delivered,
            rejected: batch.rejected,
            parts: batch.parts,
            attempts: batch.attempts,
            lease: batch.lease.clone(),
            error: batch.error.clone(),
            quarantine: batch.quarantine.clone(),
            completed_at: batch.completed_at,
            notes: batch.notes.clone(),
            notices: batch
                .notices
                .iter()
                .map(|notice| NoticeView::of(notice, batch.batch_id))
                .collect(),
        }
    }
}

impl NoticeView {
    fn of(notice: &Notice, batch: BatchId) -> NoticeView {
        NoticeView {
            id: notice.id(batch),
            at: notice.at,
        }
    }
}

/// Returns the last failure of a batch that is tried again.
pub fn last_failure(record: &BatchRecord) -> Option<Failure> {
    let retried = matches!(record.status, Some(status) if status != Status::Error);
    record.last_failure.clone().filter(|_| retried)
}

/// Returns the word for a status.
pub fn status_word(status: Option<Status>) -> &'static str {
    status.map_or("complete", Status::as_str)
}
