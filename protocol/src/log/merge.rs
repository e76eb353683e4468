//! Merges runs, and leaves out the entries that no line needs any more.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::{ENTRY_BYTES, Entry, IdHash, Owner};
use super::list::RunHeader;
use super::matching::NoOwner;
use super::tally::{Tallies, Tally};
use crate::batch::BatchRecord;
use crate::ids::{BatchId, Seq};
use crate::limits::{DECIDED_WITHIN, RUN_ENTRIES_MAX};
use crate::time::Timestamp;

/// A run that is merged: its header and its entries.
pub type Input<'a> = (&'a RunHeader, &'a [[u8; ENTRY_BYTES]]);

/// Several runs as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    pub owners: Vec<Owner>,
    /// In order.
    pub entries: Vec<Entry>,
    /// The places that the batches of the runs took: one tally for each account.
    pub tallies: Vec<Tally>,
    /// The latest time at which events of an owner ended that was left out.
    pub left_out_until: Timestamp,
}

/// Merges runs. `record_of` returns the records of their owners, read after the manifest.
///
/// Leaves out the entries of an owner whose events ended so long before `now` that every line that is still to be decided was stored
/// later, unless its batch is stuck. A forget entry is left out together with the entry that it forgets, and an owner that has no entry.
/// Tallies stay until they have ended, whatever became of the entries.
///
/// # Errors
/// The position of a run that is damaged, and [`NoOwner`].
pub fn merge<'r>(
    inputs: &[Input<'_>],
    record_of: impl Fn(BatchId) -> Option<&'r BatchRecord>,
    now: Timestamp,
) -> Result<Merged, (usize, NoOwner)> {
    let past = now.saturating_sub(DECIDED_WITHIN);
    let mut merged = Merged::default();
    let mut tallies = Tallies::default();
    let mut positions: BTreeMap<Owner, u32> = BTreeMap::new();
    for (position, (header, entries)) in inputs.iter().enumerate() {
        let tallied = header.tallies.iter().filter(|tally| now < tally.ends_at);
        tallied.for_each(|tally| tallies.add(*tally));
        let owners = &header.owners;
        let kept = owners.iter().map(|owner| {
            let owner = owner.with_events_end(&record_of);
            if owner.events_end_at() <= past {
                merged.left_out_until = merged.left_out_until.max(owner.events_end_at());
                return None;
            }
            Some(merged.position(&mut positions, owner))
        });
        let kept: Vec<Option<u32>> = kept.collect();
        for (index, bytes) in entries.iter().enumerate() {
            let entry = Entry::from_bytes(bytes);
            let no_owner = NoOwner {
                index,
                owner: entry.owner,
                count: owners.len(),
            };
            let owner = kept.get(entry.owner as usize).ok_or((position, no_owner))?;
            let entry = owner.map(|owner| Entry { owner, ..entry });
            merged.entries.extend(entry);
        }
    }
    let is_forget = |owner: &Owner| matches!(owner, Owner::Forget { .. });
    if merged.owners.iter().any(is_forget) {
        merged.forget();
    }
    merged.leave_out_owners();
    merged.entries.sort_unstable();
    merged.tallies = tallies.into_sums();
    Ok(merged)
}

/// Returns a run with these entries and their owners.
pub fn run_of(entries: impl IntoIterator<Item = (Owner, Entry)>) -> Merged {
    let mut run = Merged::default();
    let mut positions: BTreeMap<Owner, u32> = BTreeMap::new();
    for (owner, entry) in entries {
        let owner = run.position(&mut positions, owner);
        run.entries.push(Entry { owner, ..entry });
    }
    run.entries.sort_unstable();
    run
}

/// Returns runs with these entries and their owners, and with these tallies. Each is small enough that a reader takes it, and no merge
/// needs to read it again.
pub fn runs_of(mut entries: Vec<(Owner, Entry)>, tallies: &[Tally]) -> Vec<Merged> {
    entries.sort_unstable_by_key(|(_, entry)| entry.id);
    let of_entries = entries.chunks(RUN_ENTRIES_MAX as usize);
    let of_entries = of_entries.map(|entries| run_of(entries.iter().copied()));
    let of_tallies = tallies.chunks(RUN_ENTRIES_MAX as usize);
    let of_tallies = of_tallies.map(|tallies| Merged {
        tallies: tallies.to_vec(),
        ..Merged::default()
    });
    of_entries.chain(of_tallies).collect()
}

impl Merged {
    fn position(&mut self, positions: &mut BTreeMap<Owner, u32>, owner: Owner) -> u32 {
        *positions.entry(owner).or_insert_with(|| {
            self.owners.push(owner);
            self.owners.len() as u32 - 1
        })
    }

    /// Leaves out the entries that an operator had forgotten, together with the forget entries.
    fn forget(&mut self) {
        let seat = |entry: &Entry| match self.owners.get(entry.owner as usize)? {
            Owner::Forget { batch, .. } => Some((true, (entry.id, *batch, entry.seq))),
            Owner::Batch { batch, .. } => Some((false, (entry.id, *batch, entry.seq))),
            Owner::Primed { .. } | Owner::PrimedMessage { .. } => None,
        };
        let (mut forgets, mut there) = (BTreeSet::new(), BTreeSet::new());
        for (is_forget, seat) in self.entries.iter().filter_map(seat) {
            if is_forget { &mut forgets } else { &mut there }.insert(seat);
        }
        let done: BTreeSet<(IdHash, BatchId, Seq)> =
            forgets.intersection(&there).copied().collect();
        let keep = |entry: &Entry| seat(entry).is_none_or(|(_, seat)| !done.contains(&seat));
        let kept = self.entries.iter().filter(|entry| keep(entry));
        self.entries = kept.copied().collect();
    }

    /// Leaves out the owners without entries. They would add up where batches have nothing but duplicates.
    fn leave_out_owners(&mut self) {
        let all = std::mem::take(&mut self.owners);
        let mut positions = vec![None; all.len()];
        for entry in &mut self.entries {
            let owner = entry.owner as usize;
            entry.owner = *positions[owner].get_or_insert_with(|| {
                self.owners.push(all[owner]);
                self.owners.len() as u32 - 1
            });
        }
    }

    /// Returns the latest time at which an event of an owner ends; `None` without owners.
    pub fn events_end_at(&self) -> Option<Timestamp> {
        self.owners.iter().map(|owner| owner.events_end_at()).max()
    }

    /// Returns the latest end of an owner; `None` without owners.
    pub fn ends_at(&self) -> Option<Timestamp> {
        self.owners.iter().map(|owner| owner.ends_at()).max()
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
