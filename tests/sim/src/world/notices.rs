//! Notices that batches are complete, or went into error.

use std::collections::BTreeSet;

use protocol::batch::{BatchRecord, BatchWrite};
use protocol::ids::BatchId;
use protocol::seqs::SeqSet;
use serde_json::Value;
use shared::ports::NoticeMessage;

use super::World;
use crate::checks;

impl World {
    /// A notice arrives.
    pub fn notice(&mut self, notice: &NoticeMessage) {
        let id = &notice.id;
        let first = self.ledger.notices.get(id).cloned();
        let kind = if first.is_none() {
            "notice"
        } else {
            "notice repeated"
        };
        self.note(kind, || id.clone());
        if notice.kind == "complete" {
            self.check_counts_of(notice);
        }
        let happened = self.ledger.may_be_noticed.contains(id);
        self.check(checks::inv27_a_notice_is_about_what_happened(id, happened));
        match first {
            Some(first) => self.check(checks::inv28_a_notice_never_changes(
                id,
                &first,
                &notice.manifest,
            )),
            None => {
                let manifest = notice.manifest.clone();
                self.ledger.notices.insert(id.clone(), manifest);
            }
        }
    }

    /// Records that a notice is to be sent because of a write that was applied to `before`.
    pub fn note_notice(&mut self, before: &BatchRecord, write: &BatchWrite) {
        let batch = before.batch_id;
        match write {
            BatchWrite::Complete { notice: None, .. } if !self.plan.always_notices() => {
                // `COMPLETION` was not set where the batch was completed.
                for notice in &before.notices {
                    self.ledger.to_be_noticed.remove(&notice.id(batch));
                }
            }
            BatchWrite::Complete { .. } => self.note_due(format!("{batch}/complete")),
            BatchWrite::Fail {
                notice: Some(notice),
                ..
            } => self.note_due(notice.id(batch)),
            BatchWrite::Fail { notice: None, .. } if self.plan.always_notices() => {
                self.note("notice dropped", || batch.to_string());
                self.check(checks::inv30_a_notice_is_dropped_only_for_others(before));
            }
            _ => {}
        }
    }

    /// Checks that the numbers in the notice of a complete batch are those of the sink.
    fn check_counts_of(&mut self, notice: &NoticeMessage) {
        let manifest: Value = serde_json::from_str(&notice.manifest).unwrap_or_default();
        let batch = manifest["batchId"].as_str();
        let Some(batch) = batch.and_then(|id| id.parse::<BatchId>().ok()) else {
            return;
        };
        // The sink may have got a part before it was set aside.
        if self.ledger.aside.iter().any(|(other, _)| *other == batch) {
            return;
        }
        let parts = (0..).map_while(|index| self.ledger.parts.get(&format!("{batch}/{index}")));
        let given: usize = parts.map(|part| part.count).sum();
        let rejected = self.ledger.rejected.get(&batch).map_or(0, SeqSet::len);
        let count = |name: &str| manifest["counts"][name].as_u64();
        let check = checks::p8_a_notice_counts_what_the_sink_has(
            &notice.id,
            [count("delivered"), count("rejected")],
            [given as u64 - rejected, rejected],
        );
        self.check(check);
    }

    /// Checks that the notices which a write removes were sent.
    pub fn check_removed(&mut self, before: &BatchRecord, write: &BatchWrite, after: &BatchRecord) {
        let batch = before.batch_id;
        // Without `COMPLETION` there are no notices.
        let drops = matches!(write, BatchWrite::Complete { notice: None, .. });
        if drops && !self.plan.always_notices() {
            return;
        }
        let kept: BTreeSet<String> = after.notices.iter().map(|one| one.id(batch)).collect();
        let removed = before.notices.iter().map(|one| one.id(batch));
        let unsent: Vec<String> = removed
            .filter(|id| !kept.contains(id) && !self.ledger.notices.contains_key(id))
            .collect();
        self.check(checks::inv33_what_is_removed_was_sent(batch, &unsent));
    }

    fn note_due(&mut self, id: String) {
        self.ledger.may_be_noticed.insert(id.clone());
        self.ledger.to_be_noticed.insert(id);
    }

    /// The TTL removes a record, and notices with it that could not be sent for as long as the record was kept.
    pub fn forget_notices(&mut self, record: &BatchRecord) {
        for notice in &record.notices {
            let id = notice.id(record.batch_id);
            self.note("notice expired", || id.clone());
            self.ledger.to_be_noticed.remove(&id);
        }
    }

    /// Returns the notices that were never sent.
    pub fn unsent_notices(&self) -> Vec<String> {
        let ids = self.ledger.to_be_noticed.iter();
        ids.filter(|id| !self.ledger.notices.contains_key(*id))
            .cloned()
            .collect()
    }
}
