//! Notices that batches are complete, or went into error.

use protocol::batch::{BatchRecord, BatchWrite};
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
