//! What became of the seat of an existing claim.

use std::time::Duration;

use super::lock_item::LockState;
use crate::batch::{BatchRecord, PartState};
use crate::ids::Seq;
use crate::planted::{Bug, planted};
use crate::time::Timestamp;

/// What became of the seat of an existing claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatFate {
    /// The batch will deliver the seat, or is about to release it.
    Alive,
    /// The sink has the event, which is remembered until this time.
    Delivered { until: Timestamp },
    /// An operator sent the event to the quarantine. Its message is remembered until this time.
    SetAside { until: Timestamp },
    /// The batch ended without the seat.
    Orphan,
    /// The record that would say is missing, or contradicts the claim.
    Unknown,
}

/// Returns what became of the seat of the claim `state`, whose batch has the record `record`. `dedup_window` is that of the
/// reader, which judges claims with their bodies.
pub fn seat_fate(
    record: Option<&BatchRecord>,
    state: &LockState,
    dedup_window: Duration,
    now: Timestamp,
) -> SeatFate {
    match (*state, record) {
        (LockState::Tombstone { .. }, _) => SeatFate::Unknown,
        // The record of a batch outlasts its claims: those with their bodies are released, and those in chunks expire.
        (LockState::Live { .. }, None) if planted(Bug::UnknownFateTakenForAlive) => SeatFate::Alive,
        (LockState::Live { .. }, None) => SeatFate::Orphan,
        (LockState::InChunk { expires_at, .. }, None) if expires_at <= now => SeatFate::Orphan,
        (LockState::InChunk { .. }, None) => SeatFate::Unknown,
        (LockState::Live { .. }, Some(record)) if record.bodies.in_chunks() => SeatFate::Unknown,
        (LockState::Live { seq, .. }, Some(record)) => by_status(record, seq, dedup_window),
        (LockState::InChunk { .. }, Some(record)) if !record.bodies.in_chunks() => {
            SeatFate::Unknown
        }
        (LockState::InChunk { seq, .. }, Some(record)) => by_part(record, seq),
    }
}

/// Returns the fate of a seat whose claim has its body. While the batch is not complete, the claim may be released at any
/// time.
fn by_status(record: &BatchRecord, seq: Seq, dedup_window: Duration) -> SeatFate {
    if record.status.is_some() || planted(Bug::OrphanTakenForAlive) {
        return SeatFate::Alive;
    }
    let completed_at = record
        .completed_at
        .filter(|_| !planted(Bug::LeftoversWindowFromOpening))
        .unwrap_or(record.created_at);
    let until = completed_at + dedup_window;
    if record.set_aside.contains(seq) {
        SeatFate::SetAside { until }
    } else if record.members().contains(seq) {
        SeatFate::Delivered { until }
    } else {
        SeatFate::Orphan
    }
}

/// Returns the fate of a seat whose body is in a chunk. Its claim is never released, so the seat decides, not the status of
/// the batch.
fn by_part(record: &BatchRecord, seq: Seq) -> SeatFate {
    let until = |at: Option<Timestamp>| {
        let at = at.or(record.completed_at).unwrap_or(record.created_at);
        at + record.dedup_window
    };
    if record.set_aside.contains(seq) {
        let at = record.completed_at.unwrap_or(record.due_at);
        return SeatFate::SetAside {
            until: until(Some(at)),
        };
    }
    if record.delivered.contains(seq) {
        return SeatFate::Delivered {
            until: until(record.shared_parts_delivered_at()),
        };
    }
    let part = record.parts.iter().find(|part| part.members.contains(seq));
    match part.map(|part| &part.state) {
        Some(PartState::Delivered { at, .. }) => SeatFate::Delivered { until: until(*at) },
        Some(PartState::SetAside) => SeatFate::SetAside {
            until: until(record.completed_at),
        },
        Some(PartState::Frozen) => SeatFate::Alive,
        None if record.status.is_some() => SeatFate::Alive,
        None => SeatFate::Orphan,
    }
}
