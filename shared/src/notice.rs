//! The message of a notice: the manifest of the batch, as JSON. docs/notices.md describes it.
//!
//! It is a function of the notice and of what never changes in the record, so that every message of a notice is the same.

use protocol::batch::{BatchRecord, Notice, NoticeKind, PartState};
use protocol::ids::{BatchId, BatchKey, SourceArn};
use protocol::limits::NOTICE_BYTES_MAX;
use serde::Serialize;

use crate::ports::NoticeMessage;

/// The result of a batch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    format_version: u64,
    id: &'a str,
    kind: &'static str,
    batch_id: BatchId,
    source: &'a SourceArn,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_key: Option<&'a BatchKey>,
    /// All times are in milliseconds since 1970.
    opened_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    counts: Counts,
    parts: Vec<PartManifest<'a>>,
    /// Present if receipts are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

/// Numbers of events. Delivered events are at the sink, and not rejected.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    delivered: u64,
    rejected: u64,
    set_aside: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PartManifest<'a> {
    part: usize,
    key: String,
    state: &'static str,
    count: u64,
    hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<&'a str>,
}

/// Returns the message of a notice of this record.
pub fn notice_message(record: &BatchRecord, notice: &Notice) -> NoticeMessage {
    let id = notice.id(record.batch_id);
    let mut manifest = manifest(record, notice, &id, false);
    // No record that this code writes has a manifest as large as this.
    if manifest.len() > NOTICE_BYTES_MAX {
        manifest = self::manifest(record, notice, &id, true);
    }
    NoticeMessage {
        source: record.source.clone(),
        kind: kind(notice),
        at: notice.at,
        manifest,
        id,
    }
}

fn kind(notice: &Notice) -> &'static str {
    match notice.kind {
        NoticeKind::Complete => "complete",
        NoticeKind::Error { .. } => "error",
    }
}

/// The version of the manifest in a notice.
const NOTICE_FORMAT_VERSION: u64 = 1;

/// Returns the manifest; without receipts if it must be `cut`.
fn manifest(record: &BatchRecord, notice: &Notice, id: &str, cut: bool) -> String {
    let counts = record.counts_in(notice);
    let (completed_at, failed_at, error) = match &notice.kind {
        NoticeKind::Complete => (Some(notice.at.as_ms()), None, None),
        NoticeKind::Error { error } => (None, Some(notice.at.as_ms()), Some(error.as_str())),
    };
    let manifest = Manifest {
        format_version: NOTICE_FORMAT_VERSION,
        id,
        kind: kind(notice),
        batch_id: record.batch_id,
        source: &record.source,
        batch_key: record.batch_key.as_ref(),
        opened_at: record.created_at.as_ms(),
        sealed_at: record.sealed_at.map(|at| at.as_ms()),
        completed_at,
        failed_at,
        error,
        counts: Counts {
            delivered: counts.delivered,
            rejected: counts.rejected,
            set_aside: counts.set_aside,
        },
        parts: parts(record, notice, cut),
        cut,
    };
    serde_json::to_string(&manifest).expect("texts and numbers can be written as JSON")
}

fn parts<'a>(record: &'a BatchRecord, notice: &Notice, cut: bool) -> Vec<PartManifest<'a>> {
    let parts = record.parts.iter().enumerate().take(notice.parts);
    let part = |(index, part): (usize, &'a protocol::batch::PartRecord)| {
        let was_frozen = record.part_state_in(notice, index) == PartState::Frozen;
        let (state, delivered_at, receipt) = match &part.state {
            _ if was_frozen => ("frozen", None, None),
            PartState::Frozen => ("frozen", None, None),
            PartState::SetAside => ("setAside", None, None),
            PartState::Delivered { receipt, at } => {
                ("delivered", at.map(|at| at.as_ms()), Some(receipt.as_str()))
            }
        };
        PartManifest {
            part: index,
            key: format!("{}/{index}", record.batch_id),
            state,
            count: part.count,
            hash: part.hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            delivered_at,
            rejected: (!was_frozen && part.rejected > 0).then_some(part.rejected),
            receipt: receipt.filter(|_| !cut),
        }
    };
    parts.map(part).collect()
}

#[cfg(test)]
mod tests {
    use protocol::batch::PartRecord;
    use protocol::limits::{PARTS_MAX, RECEIPT_BYTES_MAX};
    use protocol::time::Timestamp;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn record() -> BatchRecord {
        let id = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let source = "arn:aws:sqs:eu-west-1:1:q".parse().unwrap();
        BatchRecord::open(id, source, None, 10, at(1_000), at(2_000))
    }

    fn part(receipt: &str) -> PartRecord {
        PartRecord {
            state: PartState::Delivered {
                receipt: receipt.to_owned(),
                at: Some(at(3_000)),
            },
            ..PartRecord::frozen((0..3).collect(), [9; 32], None)
        }
    }

    #[test]
    fn a_notice_of_an_error_stays_the_same_when_its_frozen_part_is_delivered_later() {
        let mut record = record();
        record.parts = vec![
            part("first"),
            PartRecord::frozen((3..5).collect(), [8; 32], None),
        ];
        record.attempts = 7;
        let notice = Notice::of_error(&record, "refused", at(4_000));
        let first = notice_message(&record, &notice);
        assert_eq!(first.id, "0190163d-8694-739b-aea5-966c26f8ad91/error/7");
        record.parts[1].state = part("second").state;
        record.parts[1].rejected = 1;
        record.parts.push(part("third"));
        record.set_aside = (10..12).collect();
        record.confirmed = 9;
        record.attempts = 8;
        assert_eq!(notice_message(&record, &notice), first);
        let complete = notice_message(&record, &Notice::of_completion(&record, at(5_000)));
        assert_eq!(complete.id, "0190163d-8694-739b-aea5-966c26f8ad91/complete");
        assert!(
            complete
                .manifest
                .contains(r#""counts":{"delivered":7,"rejected":1,"setAside":2}"#),
            "{}",
            complete.manifest
        );
    }

    #[test]
    fn the_manifest_of_the_largest_record_fits_and_a_larger_one_says_that_it_is_cut() {
        let mut record = record();
        record.batch_key = Some("k".repeat(1_024).parse().unwrap());
        // The longest form of a character in JSON.
        record.parts = vec![part(&"\u{1}".repeat(RECEIPT_BYTES_MAX)); PARTS_MAX];
        let error = "\u{1}".repeat(9_999);
        let notice = Notice::of_error(&record, &error, at(4_000));
        let message = notice_message(&record, &notice);
        assert!(message.manifest.len() < NOTICE_BYTES_MAX);
        assert!(!message.manifest.contains(r#""cut""#));
        record.parts = vec![part(&"r".repeat(9_999)); PARTS_MAX];
        let cut = notice_message(&record, &notice).manifest;
        assert!(cut.len() < NOTICE_BYTES_MAX && cut.ends_with(r#","cut":true}"#));
    }
}
