//! Finds the entries of the index that have the ids of lines.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::{ENTRY_BYTES, Entry, IdHash, Owner};
use crate::ids::{BatchId, Seq};

/// An entry of an id that a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    pub owner: Owner,
    pub seq: Seq,
    pub message: u64,
    pub body: u64,
}

/// The entries of the ids of some lines, from all runs that were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    found: BTreeMap<IdHash, Vec<Match>>,
    forgotten: BTreeSet<(IdHash, BatchId, Seq)>,
}

/// An entry of a run names an owner that the header of the run does not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run: entry {index} names owner {owner}: expected fewer than {count}")]
pub struct NoOwner {
    /// The position of the entry in the block.
    pub index: usize,
    pub owner: u32,
    /// The number of owners in the header.
    pub count: usize,
}

impl Matches {
    /// Adds the entries of `block` that have one of `ids`. A block is a run, or consecutive entries of one; `owners` is the header of
    /// the run. `ids` are sorted.
    ///
    /// Both sides are sorted, so entries between two ids are skipped without a look at each.
    ///
    /// # Errors
    /// [`NoOwner`]: the run is damaged.
    pub fn add(
        &mut self,
        ids: &[IdHash],
        owners: &[Owner],
        block: &[[u8; ENTRY_BYTES]],
    ) -> Result<(), NoOwner> {
        let Some(first) = block.first() else {
            return Ok(());
        };
        let first = Entry::from_bytes(first).id;
        let mut at = 0;
        for id in &ids[ids.partition_point(|id| *id < first)..] {
            at += before(&block[at..], *id);
            while let Some(entry) = block.get(at).map(Entry::from_bytes)
                && entry.id == *id
            {
                let owner = owners.get(entry.owner as usize).ok_or(NoOwner {
                    index: at,
                    owner: entry.owner,
                    count: owners.len(),
                })?;
                self.insert(*owner, entry);
                at += 1;
            }
            if at == block.len() {
                break;
            }
        }
        Ok(())
    }

    fn insert(&mut self, owner: Owner, entry: Entry) {
        match owner {
            Owner::Forget { batch, .. } => {
                self.forgotten.insert((entry.id, batch, entry.seq));
            }
            Owner::Batch { .. } | Owner::Primed { .. } | Owner::PrimedMessage { .. } => {
                self.found.entry(entry.id).or_default().push(Match {
                    owner,
                    seq: entry.seq,
                    message: entry.message,
                    body: entry.body,
                });
            }
        }
    }

    /// Returns the entries of an id that are not forgotten.
    pub fn of(&self, id: IdHash) -> impl Iterator<Item = &Match> {
        let found = self.found.get(&id).into_iter().flatten();
        found.filter(move |one| match one.owner {
            Owner::Batch { batch, .. } => !self.forgotten.contains(&(id, batch, one.seq)),
            Owner::Primed { .. } | Owner::PrimedMessage { .. } | Owner::Forget { .. } => true,
        })
    }

    /// Returns the batches whose records say what became of the entries.
    pub fn batches(&self) -> BTreeSet<BatchId> {
        let owners = self.found.values().flatten().map(|one| one.owner);
        owners
            .filter_map(|owner| match owner {
                Owner::Batch { batch, .. } => Some(batch),
                Owner::Primed { .. } | Owner::PrimedMessage { .. } | Owner::Forget { .. } => None,
            })
            .collect()
    }
}

/// Returns how many entries of a sorted block come before those with `id`. Looks in steps that double, because the next id is near.
fn before(block: &[[u8; ENTRY_BYTES]], id: IdHash) -> usize {
    let is_before = |bytes: &[u8; ENTRY_BYTES]| Entry::from_bytes(bytes).id < id;
    let (mut low, mut high) = (0, 1);
    while high <= block.len() && is_before(&block[high - 1]) {
        low = high;
        high *= 2;
    }
    low + block[low..high.min(block.len())].partition_point(is_before)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Timestamp;

    const UNTIL: Timestamp = Timestamp::from_ms(9);

    fn batch(number: u128) -> BatchId {
        BatchId::new(uuid::Uuid::from_u128(number))
    }

    fn of_batch(number: u128) -> Owner {
        Owner::Batch {
            batch: batch(number),
            ends_at: UNTIL,
            events_end_at: None,
        }
    }

    fn entry(id: u128, owner: u32, seq: Seq) -> Entry {
        Entry {
            id: IdHash::new(id),
            owner,
            seq,
            message: u64::from(seq) + 100,
            body: u64::from(seq) + 200,
        }
    }

    fn block(mut entries: Vec<Entry>) -> Vec<[u8; ENTRY_BYTES]> {
        entries.sort();
        entries.into_iter().map(Entry::to_bytes).collect()
    }

    fn seqs_of(matches: &Matches, id: u128) -> Vec<Seq> {
        matches.of(IdHash::new(id)).map(|one| one.seq).collect()
    }

    proptest! {
        #[test]
        fn every_entry_of_a_wanted_id_is_found_however_a_run_is_cut(
            entries in prop::collection::vec((0..60_u128, any::<u16>()), 0..80),
            ids in prop::collection::btree_set(0..60_u128, 0..30),
            cut in any::<prop::sample::Index>(),
        ) {
            let seq = |seq: u16| Seq::from(seq);
            let run = block(entries.iter().map(|(id, number)| entry(*id, 0, seq(*number))).collect());
            let wanted: Vec<IdHash> = ids.iter().map(|id| IdHash::new(*id)).collect();
            let (left, right) = run.split_at(cut.index(run.len() + 1));
            let mut matches = Matches::default();
            for block in [left, right] {
                matches.add(&wanted, &[of_batch(1)], block).unwrap();
            }
            for id in 0..60 {
                let of_id = entries.iter().filter(|(other, _)| *other == id && ids.contains(&id));
                let mut expected: Vec<Seq> = of_id.map(|(_, number)| seq(*number)).collect();
                expected.sort_unstable();
                prop_assert_eq!(seqs_of(&matches, id), expected);
            }
        }

        #[test]
        fn entries_before_an_id_are_counted(ids in prop::collection::vec(0..40_u128, 0..60), id in 0..41_u128) {
            let run = block(ids.iter().map(|id| entry(*id, 0, 0)).collect());
            let expected = ids.iter().filter(|other| **other < id).count();
            prop_assert_eq!(before(&run, IdHash::new(id)), expected);
        }
    }

    #[test]
    fn a_match_says_whose_it_is() {
        let run = block(vec![entry(5, 1, 3)]);
        let mut matches = Matches::default();
        let owners = [of_batch(1), of_batch(2)];
        matches.add(&[IdHash::new(5)], &owners, &run).unwrap();
        let expected = Match {
            owner: of_batch(2),
            seq: 3,
            message: 103,
            body: 203,
        };
        assert_eq!(matches.of(IdHash::new(5)).collect::<Vec<_>>(), [&expected]);
        assert_eq!(matches.batches(), BTreeSet::from([batch(2)]));
    }

    #[test]
    fn an_entry_is_forgotten_by_its_batch_and_seq_in_whatever_order_runs_are_added() {
        let forget = Owner::Forget {
            batch: batch(1),
            ends_at: UNTIL,
        };
        let ids = [IdHash::new(5)];
        let entries = block(vec![entry(5, 0, 3), entry(5, 0, 4), entry(5, 1, 3)]);
        let forgets = block(vec![entry(5, 0, 3)]);
        let owners = [of_batch(1), of_batch(2)];
        let mut matches = Matches::default();
        matches.add(&ids, &[forget], &forgets).unwrap();
        matches.add(&ids, &owners, &entries).unwrap();
        let mut other_order = Matches::default();
        other_order.add(&ids, &owners, &entries).unwrap();
        other_order.add(&ids, &[forget], &forgets).unwrap();
        assert_eq!(matches, other_order);
        let left: Vec<_> = matches.of(ids[0]).map(|one| (one.owner, one.seq)).collect();
        assert_eq!(left, [(of_batch(1), 4), (of_batch(2), 3)]);
    }

    #[test]
    fn what_is_primed_has_no_batch_to_ask() {
        let owners = [
            Owner::Primed { until: UNTIL },
            Owner::PrimedMessage { until: UNTIL },
        ];
        let run = block(vec![entry(5, 0, 0), entry(5, 1, 0)]);
        let mut matches = Matches::default();
        matches.add(&[IdHash::new(5)], &owners, &run).unwrap();
        assert_eq!(matches.of(IdHash::new(5)).count(), 2);
        assert_eq!(matches.batches(), BTreeSet::new());
    }

    #[test]
    fn an_owner_that_the_header_does_not_list_is_an_error() {
        let run = block(vec![entry(4, 0, 0), entry(5, 7, 0)]);
        let mut matches = Matches::default();
        let error = matches
            .add(&[IdHash::new(5)], &[of_batch(1)], &run)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "run: entry 1 names owner 7: expected fewer than 1"
        );
    }
}
