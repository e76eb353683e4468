//! Reports of dropped duplicates, notices, and events that the sink rejects because of their bodies, with the corrected bodies that
//! producers send then.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use protocol::batch::{BatchRecord, BatchWrite};
use protocol::claim::DuplicateRule;
use protocol::ids::{BatchId, BodyHash, EventId, SeatKey, SqsMessageId};
use protocol::invariants::Check;
use protocol::seqs::SeqSet;
use serde_json::Value;
use shared::ports::{NoticeMessage, Quarantined};
use shared::quarantine_attributes::CONFLICT;

use super::World;
use crate::checks;
use crate::ledger::{Occurrence, Sent};
use crate::plan::IdKind;
use crate::sources::source_index;

/// What a body has that the sink rejects.
const WRONG: &str = r#""wrong":true"#;
/// What the corrected body has instead.
const CORRECTED: &str = r#""wrong":false"#;
/// Longest time in milliseconds from a rejection to the corrected message.
const CORRECTED_AFTER_MAX_MS: u64 = 300_000;

/// Returns whether the sink rejects an event with this body.
pub fn is_wrong(body: &str) -> bool {
    body.contains(WRONG)
}

impl World {
    pub fn duplicate_reported(&mut self, report: &Quarantined) {
        let message = &report.sqs_message_id;
        self.note("duplicate reported", || message.to_string());
        let body: Value = serde_json::from_str(&report.body).unwrap_or_default();
        let named = body["claimedBy"].as_str();
        let named: Option<SqsMessageId> = named.and_then(|id| id.parse().ok());
        let sent = self.ledger.message(message);
        let claims: &[Occurrence] = sent.map_or(&[], |sent| self.ledger.claims_for(sent));
        let check = checks::p8_a_report_names_who_claimed(message, named.as_ref(), claims);
        self.check(check);
        self.ledger.reported_duplicates.insert(message.clone());
    }

    /// Checks that every duplicate which was dropped was reported, if that was so in the whole history.
    pub fn dropped_are_reported(&self) -> Vec<Check> {
        let plan = &self.plan;
        if !plan.reports_duplicates || plan.ever(DuplicateRule::Requeue) {
            return Vec::new();
        }
        let (messages, reported) = (&self.ledger.messages, &self.ledger.reported_duplicates);
        let check = |message: &Sent| {
            let was_reported = reported.contains(&message.sqs_message_id);
            let claims = self.ledger.claims_for(message);
            checks::p8_a_dropped_duplicate_is_reported(message, claims, was_reported)
        };
        messages.iter().map(check).collect()
    }

    pub fn notice(&mut self, notice: &NoticeMessage) {
        let id = &notice.id;
        if notice.kind == "complete" {
            self.check_counts_of(notice);
        }
        let happened = self.ledger.may_be_noticed.contains(id);
        self.check(checks::inv27_a_notice_is_about_what_happened(id, happened));
        if let Some(first) = self.ledger.notices.get(id) {
            let check = checks::inv28_a_notice_never_changes(id, first, &notice.manifest);
            self.check(check);
            self.note("notice repeated", || id.clone());
        } else {
            let manifest = notice.manifest.clone();
            self.ledger.notices.insert(id.clone(), manifest);
            self.note("notice", || id.clone());
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
        let noticed = [count("delivered"), count("rejected")];
        let counted = [given as u64 - rejected, rejected];
        let check = checks::p8_a_notice_counts_what_the_sink_has(&notice.id, noticed, counted);
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

    pub fn unsent_notices(&self) -> Vec<String> {
        let ids = self.ledger.to_be_noticed.iter();
        let unsent = ids.filter(|id| !self.ledger.notices.contains_key(*id));
        unsent.cloned().collect()
    }

    /// Records that the sink rejected an event. In two of three cases the producer sends a corrected body.
    pub(super) fn reject(&mut self, id: &EventId, seat: SeatKey) {
        let rejected = self.ledger.rejected.entry(seat.shard.batch).or_default();
        rejected.insert(seat.seq);
        let Some(occurrence) = self.ledger.occurrence(id, seat) else {
            return;
        };
        let message = occurrence.sqs_message_id.clone();
        self.note("rejected", || format!("{id} of {message}"));
        let Some(sent) = self.ledger.message_mut(&message) else {
            return;
        };
        // It is in the reject list.
        sent.reported = true;
        let sent = sent.clone();
        if self.plan.id_kind == IdKind::MessageId || self.rng.u8(..3) == 0 {
            return;
        }
        let at_ms = self.now_ms + self.rng.u64(..CORRECTED_AFTER_MAX_MS);
        let body = sent.body.replace(WRONG, CORRECTED);
        let corrected = Sent {
            body_hash: BodyHash::of(body.as_bytes()),
            body: Arc::from(body),
            sent_at: self.plan.start + Duration::from_millis(at_ms),
            ..sent.again(self.ledger.next_message_id())
        };
        let message = corrected.sqs_message_id.clone();
        self.note("corrected", || format!("{id} by {message} at {at_ms}"));
        let source = source_index(&corrected.source);
        self.ledger.corrections.insert(message);
        let index = self.ledger.add_message(corrected);
        self.inputs[source].send(index, at_ms);
        self.poll_by(source, at_ms);
    }

    /// Notes that the sink got the corrected body of an event.
    pub(super) fn note_corrected(&mut self, id: &EventId, seat: SeatKey) {
        let occurrence = self.ledger.occurrence(id, seat);
        let message = occurrence.map(|one| one.sqs_message_id.clone());
        if message.is_some_and(|message| self.ledger.corrections.contains(&message)) {
            self.note("correction delivered", || id.to_string());
        }
    }

    /// Checks that the record of a part names exactly the events that the sink rejected.
    pub(super) fn check_rejects(
        &mut self,
        before: &BatchRecord,
        index: usize,
        after: &BatchRecord,
    ) {
        let members = before.parts.get(index).map(|part| part.members.clone());
        let members = members.unwrap_or_default();
        let rejected = self.ledger.rejected.get(&before.batch_id);
        let rejected = rejected.map_or_else(SeqSet::new, |all| all.intersection(&members));
        let recorded = after.rejected().intersection(&members);
        let key = format!("{}/{index}", before.batch_id);
        self.check(checks::p1_a_rejected_event_does_not_count_as_delivered(
            &key, &rejected, &recorded,
        ));
    }

    /// Checks a message that arrives in the quarantine as a conflict.
    pub(super) fn check_conflict(&mut self, message: &Quarantined) {
        if message.reason != CONFLICT {
            return;
        }
        let Some(sent) = self.ledger.message(&message.sqs_message_id) else {
            return;
        };
        let claims = self.ledger.claims_for(sent);
        let is_edited = |one: &Occurrence| self.ledger.edited.contains(&one.sqs_message_id);
        if !claims.iter().any(is_edited) {
            let check = checks::p1_a_conflict_has_another_body(sent, claims);
            self.check(check);
        }
    }
}
