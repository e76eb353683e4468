//! Decides about the lines of a batch: which event wins, and which message is a duplicate, a conflict or redelivered.

use std::collections::HashMap;

use super::entry::{Entry, IdHash, NO_BODY, Owner};
use super::matching::{Match, Matches};
use crate::batch::BatchRecord;
use crate::claim::{SeatResolution, listed_seat_resolution};
use crate::ids::{BatchId, Seq};
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// One message in a batch of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub id: IdHash,
    pub message: u64,
    pub body: u64,
    pub seq: Seq,
    /// When the load of the line was stored. The line is decided by this time, however late that is done.
    pub stored_at: Timestamp,
}

impl Line {
    /// Returns the entry of the line if it wins, with the only owner of its run.
    pub const fn entry(&self) -> Entry {
        Entry {
            id: self.id,
            owner: 0,
            seq: self.seq,
            message: self.message,
            body: self.body,
        }
    }
}

/// The decision about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineDecision {
    /// The event is delivered with this line.
    Wins,
    /// The message won before, in this batch or another, or is remembered.
    Redelivered,
    /// Another message carries the event, with the same body.
    Duplicate,
    /// Another message carries the event id, with another body. It leaves no entry.
    Conflict,
}

/// Why nothing can be decided about a batch until an operator acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    #[error(
        "index: has an event of seq {seq} from batch `{owner}`, which has no record: expected one until its entries end"
    )]
    NoRecord { seq: Seq, owner: BatchId },
    #[error(
        "index: has seq {owner_seq} of batch `{owner}`, which is complete without it: expected it in a part or set aside"
    )]
    OtherRecord { owner: BatchId, owner_seq: Seq },
    #[error(
        "index: entries that the batch needs were left out: got a line stored at {stored_at}, expected none before {left_out_until}"
    )]
    LeftOut {
        stored_at: Timestamp,
        left_out_until: Timestamp,
    },
}

/// The decisions about the lines of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decided {
    pub winners: SeqSet,
    pub redelivered: SeqSet,
    pub duplicates: SeqSet,
    pub conflicts: SeqSet,
}

impl Decided {
    fn insert(&mut self, seq: Seq, decision: LineDecision) {
        let seqs = match decision {
            LineDecision::Wins => &mut self.winners,
            LineDecision::Redelivered => &mut self.redelivered,
            LineDecision::Duplicate => &mut self.duplicates,
            LineDecision::Conflict => &mut self.conflicts,
        };
        seqs.insert(seq);
    }
}

/// Decides about `lines`, which are all lines of a batch in the order of their seqs. `matches` has the entries of their ids, and
/// `record_of` returns the records of [`Matches::batches`], read after the manifest. `now` is only for seats that are being set aside.
///
/// # Errors
/// [`Unresolved`]. A retry has the same result until an operator acts.
pub fn resolve<'r>(
    lines: &[Line],
    matches: &Matches,
    left_out_until: Timestamp,
    record_of: impl Fn(BatchId) -> Option<&'r BatchRecord>,
    now: Timestamp,
) -> Result<Decided, Unresolved> {
    let first_stored_at = lines.iter().map(|line| line.stored_at).min();
    if let Some(stored_at) = first_stored_at.filter(|at| *at < left_out_until) {
        return Err(Unresolved::LeftOut {
            stored_at,
            left_out_until,
        });
    }
    let mut decided = Decided::default();
    let mut winners: HashMap<IdHash, &Line> = HashMap::with_capacity(lines.len());
    for line in lines {
        let winner = winners.get(&line.id).copied();
        let decision = decide(line, winner, matches, &record_of, now)?;
        if decision == LineDecision::Wins {
            winners.insert(line.id, line);
        }
        decided.insert(line.seq, decision);
    }
    Ok(decided)
}

/// Decides about one line. `winner` is the line of this batch that won before with the same id.
fn decide<'r>(
    line: &Line,
    winner: Option<&Line>,
    matches: &Matches,
    record_of: &impl Fn(BatchId) -> Option<&'r BatchRecord>,
    now: Timestamp,
) -> Result<LineDecision, Unresolved> {
    let entries = || {
        let entries = matches.of(line.id);
        entries.filter(|entry| line.stored_at < entry.owner.ends_at())
    };
    let is_same_message = winner.is_some_and(|winner| winner.message == line.message)
        || entries().any(|entry| entry.message == line.message);
    if is_same_message {
        return Ok(LineDecision::Redelivered);
    }
    let mut has_same_body = winner.map(|winner| winner.body == line.body);
    for entry in entries() {
        if let Some(is_same) = in_the_way(line, entry, record_of, now)? {
            has_same_body = Some(has_same_body == Some(true) || is_same);
        }
    }
    Ok(match has_same_body {
        None => LineDecision::Wins,
        Some(true) => LineDecision::Duplicate,
        Some(false) => LineDecision::Conflict,
    })
}

/// Returns whether the event of an entry has the body of the line, if the entry keeps the line from winning.
fn in_the_way<'r>(
    line: &Line,
    entry: &Match,
    record_of: &impl Fn(BatchId) -> Option<&'r BatchRecord>,
    now: Timestamp,
) -> Result<Option<bool>, Unresolved> {
    let owner = match entry.owner {
        Owner::Batch { batch, .. } => batch,
        Owner::Primed { .. } => return Ok(Some(entry.body == NO_BODY || entry.body == line.body)),
        Owner::PrimedMessage { .. } | Owner::Forget { .. } => return Ok(None),
    };
    let record = record_of(owner).ok_or(Unresolved::NoRecord {
        seq: line.seq,
        owner,
    })?;
    let is_in_the_way = match listed_seat_resolution(record, entry.seq, now) {
        SeatResolution::Alive => true,
        SeatResolution::Delivered { until } => line.stored_at < until,
        SeatResolution::SetAside { .. } => false,
        SeatResolution::Orphan | SeatResolution::Expired | SeatResolution::Unknown => {
            return Err(Unresolved::OtherRecord {
                owner,
                owner_seq: entry.seq,
            });
        }
    };
    Ok(is_in_the_way.then_some(entry.body == line.body))
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
