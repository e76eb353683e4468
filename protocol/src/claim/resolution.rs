//! The resolution of the seat of an existing claim.

use std::time::Duration;

use super::lock_item::LockState;
use crate::batch::{BatchRecord, PartState};
use crate::ids::Seq;
use crate::time::Timestamp;

/// The resolution of the seat of an existing claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatResolution {
    /// The batch will deliver the seat, or is about to release it.
    Alive,
    /// The sink has the event, which is remembered until this time.
    Delivered { until: Timestamp },
    /// The event was sent to the quarantine, or its record to a reject list. Its message is remembered until this time.
    SetAside { until: Timestamp },
    /// The batch ended without the seat.
    Orphan,
    /// The record that would say has expired, long after the batch ended. Nothing relies on the claim any more.
    Expired,
    /// The record that would say is missing, or contradicts the claim.
    Unknown,
}

/// Returns what became of the seat of the claim `state`, whose batch has the record `record`. `dedup_window` is that of the
/// reader.
pub fn seat_resolution(
    record: Option<&BatchRecord>,
    state: &LockState,
    dedup_window: Duration,
    now: Timestamp,
) -> SeatResolution {
    match (*state, record) {
        (LockState::Tombstone { .. }, _) => SeatResolution::Unknown,
        // The record of a batch outlasts its claims, which are released.
        (LockState::Live { .. }, None) => SeatResolution::Expired,
        (LockState::Live { .. }, Some(record)) if record.bodies.is_log() => SeatResolution::Unknown,
        (LockState::Live { seq, .. }, Some(record)) => by_status(record, seq, dedup_window, now),
    }
}

/// Returns the resolution of the seat of a live claim. While the batch is not complete, the claim may be released at any
/// time. So only a seat that was set aside has ended before: its event may be claimed again at once.
fn by_status(
    record: &BatchRecord,
    seq: Seq,
    dedup_window: Duration,
    now: Timestamp,
) -> SeatResolution {
    if record.status.is_some() && record.set_aside.contains(seq) {
        let until = now + dedup_window;
        return SeatResolution::SetAside { until };
    }
    if record.status.is_some() {
        return SeatResolution::Alive;
    }
    let until = record.completed_at.unwrap_or(record.created_at) + dedup_window;
    if record.set_aside.contains(seq) {
        SeatResolution::SetAside { until }
    } else if record.members().contains(seq) {
        SeatResolution::Delivered { until }
    } else {
        SeatResolution::Orphan
    }
}

/// Returns the resolution of a seat of a batch of the log. It is never released, so the seat decides, not the status of the batch.
pub fn listed_seat_resolution(record: &BatchRecord, seq: Seq, now: Timestamp) -> SeatResolution {
    let dedup_window = record.dedup_window;
    // A frozen part that is being set aside may have seats that are set aside already, and a delivered part has those of rejected
    // records.
    if record.set_aside.contains(seq) {
        // The batch completes at some time from now on.
        let until = record.completed_at.unwrap_or(now) + dedup_window;
        return SeatResolution::SetAside { until };
    }
    let part = record.parts.iter().find(|part| part.members.contains(seq));
    let delivered_at = match part.map(|part| &part.state) {
        Some(PartState::Frozen) => return SeatResolution::Alive,
        Some(PartState::Delivered { at, .. }) => *at,
        Some(PartState::SetAside) | None => None,
    };
    if part.is_none() && !record.delivered.contains(seq) {
        return match record.status {
            Some(_) => SeatResolution::Alive,
            None => SeatResolution::Orphan,
        };
    }
    let at = delivered_at
        .or(record.shared_parts_delivered_at())
        .or(record.completed_at)
        .unwrap_or(record.created_at);
    SeatResolution::Delivered {
        until: at + dedup_window,
    }
}
