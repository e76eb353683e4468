//! Finds the entries of the index that have the ids of lines.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::entry::{ENTRY_BYTES, Entry, IdHash, Owner};
use super::tally::{Tallies, Tally};
use crate::ids::{BatchId, Seq};
use crate::quota::AccountHash;

/// An entry of an id that a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    pub owner: Owner,
    pub seq: Seq,
    pub message: u64,
    pub body: u64,
}

/// The entries of the ids of some lines, and the places that are taken in their accounts, from all runs that were added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matches {
    ids: Ids,
    found: BTreeMap<IdHash, Vec<Match>>,
    forgotten: BTreeSet<(IdHash, BatchId, Seq)>,
    accounts: BTreeSet<AccountHash>,
    tallies: Tallies,
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
    /// Returns no matches, for these ids.
    pub fn of_ids(ids: impl IntoIterator<Item = IdHash>) -> Matches {
        Matches {
            ids: Ids::new(ids),
            found: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            accounts: BTreeSet::new(),
            tallies: Tallies::default(),
        }
    }

    /// Has the places of these accounts counted too.
    #[must_use]
    pub fn with_accounts(self, accounts: impl IntoIterator<Item = AccountHash>) -> Matches {
        let accounts = accounts.into_iter().collect();
        Matches { accounts, ..self }
    }

    /// Adds the tallies of a run for the accounts of the lines. Each run must be added once.
    pub fn add_tallies(&mut self, tallies: &[Tally]) {
        let wanted = tallies.iter().copied();
        let wanted = wanted.filter(|tally| self.accounts.contains(&tally.account));
        wanted.for_each(|tally| self.tallies.add(tally));
    }

    /// Returns how many places of an account the batches of the runs took.
    pub fn places_taken(&self, account: AccountHash) -> u64 {
        self.tallies.of(account)
    }

    /// Adds the entries of `block` that have one of the ids. A block is a run, or some entries of one; `owners` is the header of the
    /// run.
    ///
    /// # Errors
    /// [`NoOwner`]: the run is damaged.
    pub fn add(&mut self, owners: &[Owner], block: &[[u8; ENTRY_BYTES]]) -> Result<(), NoOwner> {
        for (index, bytes) in block.iter().enumerate() {
            let entry = Entry::from_bytes(bytes);
            if !self.ids.contains(entry.id) {
                continue;
            }
            let owner = owners.get(entry.owner as usize).ok_or(NoOwner {
                index,
                owner: entry.owner,
                count: owners.len(),
            })?;
            self.insert(*owner, entry);
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

/// Ids, and the first bits of each. Almost every entry of an index has other first bits than all ids of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ids {
    ids: HashSet<IdHash>,
    first_bits: Vec<u64>,
}

impl Ids {
    /// A set of these takes half a mebibyte. Of the entries, 1 % pass it for 50,000 ids.
    const FIRST_BITS: u32 = 22;

    fn new(ids: impl IntoIterator<Item = IdHash>) -> Ids {
        let mut set = Ids {
            ids: HashSet::new(),
            first_bits: vec![0; 1 << (Ids::FIRST_BITS - u64::BITS.ilog2())],
        };
        for id in ids {
            let (word, bit) = Ids::place(id);
            set.first_bits[word] |= bit;
            set.ids.insert(id);
        }
        set
    }

    fn contains(&self, id: IdHash) -> bool {
        let (word, bit) = Ids::place(id);
        self.first_bits[word] & bit == bit && self.ids.contains(&id)
    }

    /// Returns the word and the bit of the first bits of an id.
    fn place(id: IdHash) -> (usize, u64) {
        let first = id.first_bits(Ids::FIRST_BITS);
        (
            first / u64::BITS as usize,
            1 << (first % u64::BITS as usize),
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Timestamp;

    pub(crate) const ENDS_AT: Timestamp = Timestamp::from_ms(900);

    pub(crate) fn batch(number: u128) -> BatchId {
        BatchId::new(uuid::Uuid::from_u128(number))
    }

    pub(crate) fn of_batch(number: u128) -> Owner {
        Owner::Batch {
            batch: batch(number),
            ends_at: ENDS_AT,
            events_end_at: None,
            place: None,
        }
    }

    pub(crate) fn forget(number: u128) -> Owner {
        Owner::Forget {
            batch: batch(number),
            ends_at: ENDS_AT,
        }
    }

    pub(crate) fn entry(id: u128, owner: u32, seq: Seq) -> Entry {
        Entry {
            id: IdHash::new(id),
            owner,
            seq,
            message: u64::from(seq) + 100,
            body: u64::from(seq) + 200,
        }
    }

    pub(crate) fn block(mut entries: Vec<Entry>) -> Vec<[u8; ENTRY_BYTES]> {
        entries.sort();
        entries.into_iter().map(Entry::to_bytes).collect()
    }

    fn matches_of(ids: impl IntoIterator<Item = u128>) -> Matches {
        Matches::of_ids(ids.into_iter().map(IdHash::new))
    }

    fn seqs_of(matches: &Matches, id: u128) -> Vec<Seq> {
        matches.of(IdHash::new(id)).map(|one| one.seq).collect()
    }

    /// Returns an id. Those of every two consecutive numbers have the same first bits.
    fn spread(number: u128) -> u128 {
        number << (u128::BITS - Ids::FIRST_BITS - 1)
    }

    fn an_id() -> impl Strategy<Value = u128> {
        (0..60_u128).prop_map(spread)
    }

    proptest! {
        #[test]
        fn every_entry_of_a_wanted_id_is_found_however_a_run_is_cut(
            entries in prop::collection::vec((an_id(), any::<u16>()), 0..80),
            ids in prop::collection::btree_set(an_id(), 0..30),
            cut in any::<prop::sample::Index>(),
        ) {
            let seq = |seq: u16| Seq::from(seq);
            let run = block(entries.iter().map(|(id, number)| entry(*id, 0, seq(*number))).collect());
            let (left, right) = run.split_at(cut.index(run.len() + 1));
            let mut matches = matches_of(ids.iter().copied());
            for block in [left, right] {
                matches.add(&[of_batch(1)], block).unwrap();
            }
            for id in (0..60).map(spread) {
                let of_id = entries.iter().filter(|(other, _)| *other == id && ids.contains(&id));
                let mut expected: Vec<Seq> = of_id.map(|(_, number)| seq(*number)).collect();
                expected.sort_unstable();
                prop_assert_eq!(seqs_of(&matches, id), expected);
            }
        }
    }

    #[test]
    fn the_first_bits_of_an_id_are_one_bit_of_a_word() {
        let place = |first: u128| Ids::place(IdHash::new(first << (u128::BITS - Ids::FIRST_BITS)));
        assert_eq!(place(0), (0, 1));
        assert_eq!(place(67), (1, 1 << 3));
        assert_eq!(place((1 << Ids::FIRST_BITS) - 1), (65_535, 1 << 63));
    }

    #[test]
    fn a_match_says_whose_it_is() {
        let run = block(vec![entry(5, 1, 3)]);
        let mut matches = matches_of([5]);
        let owners = [of_batch(1), of_batch(2)];
        matches.add(&owners, &run).unwrap();
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
        let entries = block(vec![entry(5, 0, 3), entry(5, 0, 4), entry(5, 1, 3)]);
        let forgets = block(vec![entry(5, 0, 3)]);
        let owners = [of_batch(1), of_batch(2)];
        let mut matches = matches_of([5]);
        matches.add(&[forget(1)], &forgets).unwrap();
        matches.add(&owners, &entries).unwrap();
        let mut other_order = matches_of([5]);
        other_order.add(&owners, &entries).unwrap();
        other_order.add(&[forget(1)], &forgets).unwrap();
        assert_eq!(matches, other_order);
        let left = matches.of(IdHash::new(5)).map(|one| (one.owner, one.seq));
        assert!(left.eq([(of_batch(1), 4), (of_batch(2), 3)]));
    }

    #[test]
    fn what_is_primed_has_no_batch_to_ask() {
        let owners = [
            Owner::Primed { until: ENDS_AT },
            Owner::PrimedMessage { until: ENDS_AT },
        ];
        let run = block(vec![entry(5, 0, 0), entry(5, 1, 0)]);
        let mut matches = matches_of([5]);
        matches.add(&owners, &run).unwrap();
        assert_eq!(matches.of(IdHash::new(5)).count(), 2);
        assert_eq!(matches.batches(), BTreeSet::new());
    }

    #[test]
    fn an_owner_that_the_header_does_not_list_is_an_error() {
        let run = block(vec![entry(4, 0, 0), entry(5, 7, 0)]);
        let mut matches = matches_of([5]);
        let error = matches.add(&[of_batch(1)], &run).unwrap_err();
        let words = "run: entry 1 names owner 7: expected fewer than 1";
        assert_eq!(error.to_string(), words);
    }
}
