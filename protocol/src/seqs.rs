//! Sets of seqs, as compressed bitmaps.

use std::fmt;

use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::ids::Seq;

/// A stored set that cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[error("seq set: not a roaring bitmap: got {bytes} bytes")]
pub struct SeqSetError {
    /// Length of the stored value.
    pub bytes: usize,
    #[source]
    source: std::io::Error,
}

/// A set of seqs. Consecutive seqs take almost no bytes; 50,000 arbitrary seqs take at most 8 KB.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ByteBuf", into = "ByteBuf")]
pub struct SeqSet(RoaringBitmap);

impl SeqSet {
    pub fn new() -> SeqSet {
        SeqSet::default()
    }

    pub fn insert(&mut self, seq: Seq) {
        self.0.insert(seq);
    }

    pub fn contains(&self, seq: Seq) -> bool {
        self.0.contains(seq)
    }

    pub fn len(&self) -> u64 {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the seqs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Seq> + '_ {
        self.0.iter()
    }

    pub fn extend_from(&mut self, other: &SeqSet) {
        self.0 |= &other.0;
    }

    /// Returns the seqs that are in one of the sets or in both.
    #[must_use]
    pub fn union(&self, other: &SeqSet) -> SeqSet {
        SeqSet(&self.0 | &other.0)
    }

    /// Returns the seqs that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &SeqSet) -> SeqSet {
        SeqSet(&self.0 - &other.0)
    }

    /// Returns the seqs that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &SeqSet) -> SeqSet {
        SeqSet(&self.0 & &other.0)
    }

    pub fn intersection_len(&self, other: &SeqSet) -> u64 {
        self.0.intersection_len(&other.0)
    }

    pub fn is_subset(&self, other: &SeqSet) -> bool {
        self.0.is_subset(&other.0)
    }

    pub fn is_disjoint(&self, other: &SeqSet) -> bool {
        self.0.is_disjoint(&other.0)
    }

    /// Returns how many seqs of `self` are not in `other`.
    pub fn difference_len(&self, other: &SeqSet) -> u64 {
        self.0.difference_len(&other.0)
    }

    /// Removes the seqs of `other`.
    pub fn remove_from(&mut self, other: &SeqSet) {
        self.0 -= &other.0;
    }

    /// Returns the set in the portable roaring format, with runs compressed.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bitmap = self.0.clone();
        bitmap.optimize();
        let mut bytes = Vec::with_capacity(bitmap.serialized_size());
        bitmap
            .serialize_into(&mut bytes)
            .expect("writing to a vector cannot fail");
        bytes
    }
}

impl From<SeqSet> for ByteBuf {
    fn from(set: SeqSet) -> ByteBuf {
        ByteBuf::from(set.to_bytes())
    }
}

impl TryFrom<ByteBuf> for SeqSet {
    type Error = SeqSetError;

    fn try_from(bytes: ByteBuf) -> Result<SeqSet, SeqSetError> {
        SeqSet::try_from(bytes.as_slice())
    }
}

impl TryFrom<&[u8]> for SeqSet {
    type Error = SeqSetError;

    fn try_from(bytes: &[u8]) -> Result<SeqSet, SeqSetError> {
        RoaringBitmap::deserialize_from(bytes)
            .map(SeqSet)
            .map_err(|source| SeqSetError {
                bytes: bytes.len(),
                source,
            })
    }
}

impl FromIterator<Seq> for SeqSet {
    fn from_iter<I: IntoIterator<Item = Seq>>(seqs: I) -> SeqSet {
        SeqSet(RoaringBitmap::from_iter(seqs))
    }
}

impl Extend<Seq> for SeqSet {
    fn extend<I: IntoIterator<Item = Seq>>(&mut self, seqs: I) {
        self.0.extend(seqs);
    }
}

impl fmt::Debug for SeqSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.min(), self.0.max()) {
            (Some(min), Some(max)) => write!(f, "SeqSet({} in {min}..={max})", self.len()),
            _ => f.write_str("SeqSet(empty)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_dense_set_is_small() {
        let all: SeqSet = (0..50_000).collect();
        let holes: SeqSet = (0..52_500).filter(|seq| seq % 21 != 0).collect();
        for (set, bytes_max) in [(all, 64), (holes, 11_000)] {
            let bytes = set.to_bytes().len();
            assert!(bytes < bytes_max, "{set:?}: {bytes} bytes");
        }
    }

    /// Draws runs, gaps, and seqs around 65,536, where a second container of the bitmap begins.
    fn seqs() -> impl Strategy<Value = BTreeSet<Seq>> {
        let some = prop_oneof![0..200_u32, 65_500..65_600_u32, any::<Seq>()];
        let run = (0..70_000_u32, 0..300_u32).prop_map(|(from, len)| (from..from + len).collect());
        prop_oneof![prop::collection::btree_set(some, 0..60), run]
    }

    proptest! {
        #[test]
        fn a_set_equals_a_plain_set_after_the_same_operations(left in seqs(), right in seqs(), probe in any::<Seq>()) {
            let set = |plain: &BTreeSet<Seq>| plain.iter().copied().collect::<SeqSet>();
            let (a, b) = (set(&left), set(&right));
            prop_assert_eq!(a.iter().collect::<BTreeSet<Seq>>(), left.clone());
            prop_assert!(a.iter().is_sorted());
            prop_assert_eq!(&SeqSet::try_from(a.to_bytes().as_slice()).unwrap(), &a);
            prop_assert_eq!(a.len(), left.len() as u64);
            prop_assert_eq!(a.is_empty(), left.is_empty());
            for seq in right.iter().chain([&probe]) {
                prop_assert_eq!(a.contains(*seq), left.contains(seq));
            }
            prop_assert_eq!(a.intersection_len(&b), left.intersection(&right).count() as u64);
            prop_assert_eq!(a.intersection(&b), left.intersection(&right).copied().collect());
            prop_assert_eq!(a.difference_len(&b), left.difference(&right).count() as u64);
            prop_assert_eq!(a.is_subset(&b), left.is_subset(&right));
            prop_assert_eq!(a.is_disjoint(&b), left.is_disjoint(&right));
            let mut without = a.clone();
            without.remove_from(&b);
            let difference = set(&left.difference(&right).copied().collect());
            prop_assert_eq!([without, a.difference(&b)], [difference.clone(), difference]);
            let both = set(&left.union(&right).copied().collect());
            prop_assert_eq!(&a.union(&b), &both);
            let (mut united, mut one_by_one, mut extended) = (a.clone(), a.clone(), a);
            united.extend_from(&b);
            b.iter().for_each(|seq| one_by_one.insert(seq));
            extended.extend(right);
            prop_assert_eq!([&united, &one_by_one, &extended], [&both; 3]);
        }

        #[test]
        fn damaged_bytes_are_refused_or_read_as_a_sound_set(
            seqs in seqs(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let mut bytes = seqs.into_iter().collect::<SeqSet>().to_bytes();
            *at.get_mut(&mut bytes) = byte;
            let Ok(set) = SeqSet::try_from(bytes.as_slice()) else {
                return Ok(());
            };
            let listed: Vec<Seq> = set.iter().collect();
            prop_assert_eq!(listed.len() as u64, set.len());
            prop_assert!(listed.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(listed.iter().all(|seq| set.contains(*seq)));
            prop_assert_eq!(SeqSet::try_from(set.to_bytes().as_slice()).unwrap(), set);
        }

        #[test]
        fn arbitrary_bytes_never_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = SeqSet::try_from(bytes.as_slice());
        }
    }
}
