//! Merges runs, and leaves out the entries that no line needs any more.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::{ENTRY_BYTES, Entry, Owner};
use crate::batch::BatchRecord;
use crate::claim::{SeatResolution, listed_seat_resolution};
use crate::ids::{BatchId, Seq};
use crate::time::Timestamp;

/// Consecutive entries of a run that is merged, those that are not merged yet.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The header of the run.
    pub owners: &'a [Owner],
    pub entries: &'a [[u8; ENTRY_BYTES]],
    /// Whether the run has entries after these.
    pub has_more: bool,
}

/// A merge of runs, block by block, so that it needs little memory.
///
/// It leaves out an entry if its event ended at or before `past`. That is so long ago that every line that is still to be decided was
/// stored later, unless its batch is stuck. A forget entry is left out together with the entry that it forgets, or once it has ended
/// itself.
pub struct Merge<F> {
    record_of: F,
    past: Timestamp,
    positions: BTreeMap<Owner, u32>,
    owners: Vec<Owner>,
    left_out_until: Timestamp,
}

impl<'r, F: Fn(BatchId) -> Option<&'r BatchRecord>> Merge<F> {
    /// Begins a merge. `record_of` returns the records of the owners, read after the manifest.
    pub fn new(record_of: F, past: Timestamp) -> Merge<F> {
        Merge {
            record_of,
            past,
            positions: BTreeMap::new(),
            owners: Vec::new(),
            left_out_until: Timestamp::EPOCH,
        }
    }

    /// Merges as much of one block of each run as can be, and takes it off the blocks. Returns the next entries of the merged run, in
    /// order. Afterwards, each block that has more must get its next entries, behind those that are left of it.
    pub fn advance(&mut self, blocks: &mut [Block<'_>]) -> Vec<Entry> {
        let first = |block: &Block<'_>| {
            block
                .entries
                .first()
                .map(|bytes| Entry::from_bytes(bytes).id)
        };
        let last = |block: &Block<'_>| {
            block
                .entries
                .last()
                .map(|bytes| Entry::from_bytes(bytes).id)
        };
        // A run may go on with the id of the last entry of its block.
        let unfinished = blocks.iter().filter(|block| block.has_more);
        let bounds: Vec<_> = unfinished.map(last).collect();
        let is_known = |id| {
            bounds
                .iter()
                .all(|bound| bound.is_some_and(|bound| id < bound))
        };
        let mut merged = Vec::new();
        while let Some(id) = blocks.iter().filter_map(first).min()
            && is_known(id)
        {
            let mut of_id = Vec::new();
            for block in &mut *blocks {
                while let Some((bytes, rest)) = block.entries.split_first()
                    && let entry = Entry::from_bytes(bytes)
                    && entry.id == id
                {
                    block.entries = rest;
                    let owner = block.owners.get(entry.owner as usize);
                    of_id.extend(owner.map(|owner| (*owner, entry)));
                }
            }
            self.keep(&mut of_id);
            let mut kept: Vec<Entry> = of_id
                .into_iter()
                .map(|(owner, entry)| Entry {
                    owner: self.position(owner),
                    ..entry
                })
                .collect();
            kept.sort_unstable();
            merged.extend(kept);
        }
        merged
    }

    /// Ends the merge. Returns the header of the merged run, and the latest end of an entry that was left out.
    pub fn finish(self) -> (Vec<Owner>, Timestamp) {
        (self.owners, self.left_out_until)
    }

    fn position(&mut self, owner: Owner) -> u32 {
        let next = self.owners.len() as u32;
        *self.positions.entry(owner).or_insert_with(|| {
            self.owners.push(owner);
            next
        })
    }

    /// Leaves out entries of one id.
    fn keep(&mut self, of_id: &mut Vec<(Owner, Entry)>) {
        let mut forgotten: BTreeSet<(BatchId, Seq)> = BTreeSet::new();
        let mut there: BTreeSet<(BatchId, Seq)> = BTreeSet::new();
        for (owner, entry) in &*of_id {
            match owner {
                Owner::Forget { batch, .. } => forgotten.insert((*batch, entry.seq)),
                Owner::Batch { batch, .. } => there.insert((*batch, entry.seq)),
                Owner::Primed { .. } | Owner::PrimedMessage { .. } => continue,
            };
        }
        of_id.retain(|(owner, entry)| {
            let end = match *owner {
                Owner::Batch { batch, .. } if forgotten.contains(&(batch, entry.seq)) => {
                    return false;
                }
                Owner::Forget { batch, .. } if there.contains(&(batch, entry.seq)) => return false,
                Owner::Batch { batch, ends_at } => {
                    event_end((self.record_of)(batch), entry.seq, ends_at)
                }
                Owner::Primed { .. } | Owner::PrimedMessage { .. } | Owner::Forget { .. } => {
                    Some(owner.ends_at())
                }
            };
            let Some(end) = end.filter(|end| *end <= self.past) else {
                return true;
            };
            self.left_out_until = self.left_out_until.max(end);
            false
        });
    }
}

/// Returns when the event of an entry ended; `None` while its batch is not complete.
fn event_end(record: Option<&BatchRecord>, seq: Seq, ends_at: Timestamp) -> Option<Timestamp> {
    let Some(record) = record else {
        // The record outlasts its entries.
        return Some(ends_at);
    };
    let completed_at = record.completed_at?;
    match listed_seat_resolution(record, seq, completed_at) {
        SeatResolution::Delivered { until } | SeatResolution::SetAside { until } => Some(until),
        SeatResolution::Alive
        | SeatResolution::Orphan
        | SeatResolution::Expired
        | SeatResolution::Unknown => Some(ends_at),
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
