//! The store of objects.

use protocol::bodies::{ObjectPlace, S3Prefix};
use protocol::ids::{ObjectId, PieceId, Seq, SlotId};
use protocol::limits::LOG_RETENTION;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::ports::{ObjectReply, ObjectStore, Piece, PortError};

use super::{World, now};
use crate::request_outcome::denied;

/// How long after the faults stopped somebody repairs the permission to read loads.
const REPAIR_MS: u64 = 600_000;
/// How long after the faults stopped no run can be written. By then, every batch that cannot write one must be set aside.
const RUNS_DENIED_MS: u64 = 48 * 3_600_000;

impl World {
    pub fn put_piece(
        &mut self,
        place: &ObjectPlace,
        id: PieceId,
        piece: &Piece,
        expires_at: Timestamp,
    ) -> Result<ObjectReply, PortError> {
        let is_run = matches!(id.object, ObjectId::Run(_) | ObjectId::RunList(_));
        if is_run && self.is_denied(place, false) {
            self.note("object put denied", || id.to_string());
            return Err(denied());
        }
        let reply = now(self.objects.put(place, id, piece, expires_at))?;
        self.note("object put", || format!("{id} {reply:?}"));
        let expires_at = match place {
            ObjectPlace::Table => expires_at,
            ObjectPlace::S3(_) => self.now() + LOG_RETENTION,
        };
        let expiry = self.objects_expire_at.entry(id.object);
        expiry.or_insert(expires_at);
        Ok(reply)
    }

    pub fn get_piece(
        &mut self,
        place: &ObjectPlace,
        id: PieceId,
    ) -> Result<Option<Piece>, PortError> {
        if self.is_denied(place, true) {
            self.note("object denied", || id.to_string());
            return Err(denied());
        }
        now(self.objects.get(place, id))
    }

    /// Returns whether a denial holds at a place. One that ends concerns reads, and one that does not the writes of runs.
    fn is_denied(&self, place: &ObjectPlace, ends: bool) -> bool {
        let ObjectPlace::S3(S3Prefix { prefix, .. }) = place else {
            return false;
        };
        let lasts_ms = if ends { REPAIR_MS } else { RUNS_DENIED_MS };
        let until_ms = self.plan.calm_at_ms + lasts_ms;
        self.plan.denial.is_some_and(|denial| {
            let is_now = denial.from_ms <= self.now_ms && self.now_ms < until_ms;
            denial.ends == ends && **prefix == *format!("{}/", denial.prefix) && is_now
        })
    }

    /// The quarantine gets a message about a lost slot, which names the seats whose events are lost.
    pub fn slot_reported_lost(&mut self, slot: SlotId, notice: &str) {
        self.note("slot lost", || slot.to_string());
        let (_, text) = notice.split_once("lost (seqs ").unwrap_or_default();
        let text = text.trim_end_matches(')');
        let seqs: SeqSet = text
            .split(", ")
            .filter_map(|seq| seq.parse::<Seq>().ok())
            .collect();
        let claims = self.ledger.claims_in(slot.batch);
        let of_seats = claims.filter(|one| seqs.contains(one.seat.seq));
        let messages: Vec<_> = of_seats.map(|one| one.sqs_message_id.clone()).collect();
        for id in &messages {
            if let Some(message) = self.ledger.message_mut(id) {
                message.reported = true;
            }
        }
    }
}
