//! What must hold of every state, as named functions: unit tests, `debug_assert!`s and the simulation call these.
//!
//! Each answers `Ok(())` or a sentence that says what is broken.

use crate::protocol::allocator::OpenBatch;
use crate::protocol::batch::{BatchRecord, PartState, lag};
use crate::seqs::SeqSet;

/// A broken invariant: its name and what was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {found}")]
pub struct Broken {
    /// Name of the invariant, as ARCHITECTURE.md lists it.
    pub name: &'static str,
    /// What was found instead.
    pub found: String,
}

type Check = Result<(), Broken>;

fn hold(name: &'static str, holds: bool, found: impl FnOnce() -> String) -> Check {
    if holds {
        Ok(())
    } else {
        Err(Broken {
            name,
            found: found(),
        })
    }
}

/// INV-1: no seq is in two parts of a batch.
pub fn parts_are_disjoint(record: &BatchRecord) -> Check {
    let mut seen = SeqSet::new();
    for (index, part) in record.parts.iter().enumerate() {
        hold(
            "INV-1 parts_are_disjoint",
            part.members.is_disjoint(&seen),
            || {
                format!(
                    "part {index} of batch {} shares seqs with an earlier part",
                    record.batch_id
                )
            },
        )?;
        seen.extend_from(&part.members);
    }
    Ok(())
}

/// INV-2: only the last part may be frozen and not delivered.
pub fn earlier_parts_are_delivered(record: &BatchRecord) -> Check {
    let earlier = record.parts.len().saturating_sub(1);
    let open = record.parts[..earlier]
        .iter()
        .position(|part| part.state == PartState::Frozen);
    hold("INV-2 earlier_parts_are_delivered", open.is_none(), || {
        format!("part {open:?} of batch {} is still frozen", record.batch_id)
    })
}

/// INV-3: a complete batch has delivered every claim that was counted or witnessed.
pub fn complete_means_whole(record: &BatchRecord) -> Check {
    if record.completed_at.is_none() {
        return Ok(());
    }
    let missing = lag(record, &SeqSet::new());
    let frozen = record.frozen_part().map(|(index, _)| index);
    hold(
        "INV-3 complete_means_whole",
        missing.is_none() && frozen.is_none(),
        || {
            format!(
                "batch {} is complete with {missing:?} missing and part {frozen:?} frozen",
                record.batch_id
            )
        },
    )
}

/// INV-4: no more claims are counted than seats are settled.
pub fn counts_fit_the_settled_seats(record: &BatchRecord) -> Check {
    hold(
        "INV-4 counts_fit_the_settled_seats",
        record.confirmed <= record.settled.len(),
        || {
            format!(
                "batch {}: {} confirmed, {} settled",
                record.batch_id,
                record.confirmed,
                record.settled.len()
            )
        },
    )
}

/// INV-5: a batch has a status until it is complete, and none after.
pub fn complete_means_no_status(record: &BatchRecord) -> Check {
    hold(
        "INV-5 complete_means_no_status",
        record.status.is_none() == record.completed_at.is_some(),
        || {
            format!(
                "batch {}: status {:?}, completed at {:?}",
                record.batch_id, record.status, record.completed_at
            )
        },
    )
}

/// INV-1 to INV-5 of one record.
pub fn record_is_sound(record: &BatchRecord) -> Check {
    parts_are_disjoint(record)?;
    earlier_parts_are_delivered(record)?;
    complete_means_whole(record)?;
    counts_fit_the_settled_seats(record)?;
    complete_means_no_status(record)
}

/// INV-6: an open batch never holds more claims, certain, uncertain and under way, than it may.
pub fn batch_is_within_its_limits(batch: &OpenBatch) -> Check {
    hold(
        "INV-6 batch_is_within_its_limits",
        batch.taken() <= batch.items_max(),
        || {
            format!(
                "batch {} holds {} of {} items",
                batch.id(),
                batch.taken(),
                batch.items_max()
            )
        },
    )
}

/// INV-7: every seat handed out is settled, uncertain or under way; none is forgotten.
pub fn every_seat_is_accounted_for(batch: &OpenBatch) -> Check {
    let seats = batch.settled_len() + batch.uncertain() + batch.in_flight();
    hold(
        "INV-7 every_seat_is_accounted_for",
        seats == batch.seats_given(),
        || {
            format!(
                "batch {} gave {} seats and knows of {seats}",
                batch.id(),
                batch.seats_given()
            )
        },
    )
}
