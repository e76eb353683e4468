//! Events that the sink rejects because of their bodies, and the corrected bodies that producers send then.

use std::sync::Arc;
use std::time::Duration;

use protocol::batch::BatchRecord;
use protocol::ids::{BodyHash, EventId, SeatKey};
use protocol::seqs::SeqSet;
use shared::ports::Quarantined;
use shared::quarantine_attributes::CONFLICT;

use super::World;
use crate::checks;
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
    /// Records that the sink rejected an event. In two of three cases the producer sends a corrected body.
    pub(super) fn reject(&mut self, id: &EventId, seat: SeatKey) {
        let rejected = self.ledger.rejected.entry(seat.shard.batch).or_default();
        rejected.insert(seat.seq);
        let Some(occurrence) = self.ledger.occurrence(id, seat) else {
            return;
        };
        let message = occurrence.sqs_message_id.clone();
        self.note("rejected", || format!("{id} of {message}"));
        let Some(sent) = self.ledger.message(&message) else {
            return;
        };
        // It is in the reject list.
        sent.reported = true;
        let sent = sent.clone();
        if self.plan.id_kind == IdKind::MessageId || self.rng.u8(..3) == 0 {
            return;
        }
        let index = self.ledger.messages.len();
        let at_ms = self.now_ms + self.rng.u64(..CORRECTED_AFTER_MAX_MS);
        let body = sent.body.replace(WRONG, CORRECTED);
        let mut corrected = sent;
        corrected.sqs_message_id = format!("m{index}").parse().expect("a short text is an id");
        corrected.body_hash = BodyHash::of(body.as_bytes());
        corrected.body = Arc::from(body);
        corrected.sent_at = self.plan.start + Duration::from_millis(at_ms);
        (corrected.acknowledged_at, corrected.reported) = (None, false);
        self.note("corrected", || format!("{id} by m{index} at {at_ms}"));
        let source = source_index(&corrected.source);
        let message = corrected.sqs_message_id.clone();
        self.ledger.by_id.insert(message.clone(), index);
        self.ledger.corrections.insert(message);
        self.ledger.messages.push(corrected);
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
        let index = self.ledger.by_id.get(&message.sqs_message_id);
        let Some(sent) = index.map(|index| self.ledger.messages[*index].clone()) else {
            return;
        };
        let occurrences = sent
            .event_id
            .as_ref()
            .and_then(|id| self.ledger.occurrences.get(id));
        let occurrences = occurrences.cloned().unwrap_or_default();
        let edited = |id| self.ledger.edited.contains(id);
        if !occurrences.iter().any(|one| edited(&one.sqs_message_id)) {
            self.check(checks::p1_a_conflict_has_another_body(&sent, &occurrences));
        }
    }
}
