//! The Merkle tree of a part, shaped as in RFC 6962 (<https://www.rfc-editor.org/rfc/rfc6962#section-2.1>), with leaves sorted by the
//! hash of their event ids: two neighbours then show that nothing is between them.

use sha2::{Digest, Sha256};

/// A SHA-256.
pub type Sha256Hash = [u8; 32];

/// Returns the SHA-256 of bytes that follow each other.
pub fn sha256<const N: usize>(pieces: [&[u8]; N]) -> Sha256Hash {
    let mut hasher = Sha256::new();
    pieces.into_iter().for_each(|piece| hasher.update(piece));
    hasher.finalize().into()
}

/// A delivered event as a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leaf {
    /// The SHA-256 of the event id.
    pub event_id: Sha256Hash,
    /// The SHA-256 of the body.
    pub body: Sha256Hash,
    /// The number of the event's record in the file, from 1.
    pub record: u32,
}

impl Leaf {
    fn hash(&self) -> Sha256Hash {
        let record = self.record.to_be_bytes();
        sha256([&[0], &self.event_id, &self.body, &record])
    }
}

/// The tree of a part.
#[derive(Debug, Default)]
pub struct Tree {
    leaves: Vec<Leaf>,
    hashes: Vec<Sha256Hash>,
}

impl Tree {
    /// Returns the tree of leaves, which may come in any order.
    pub fn new(mut leaves: Vec<Leaf>) -> Tree {
        leaves.sort_unstable();
        let hashes = leaves.iter().map(Leaf::hash).collect();
        Tree { leaves, hashes }
    }

    /// Returns the leaves, sorted.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// Returns the root. That of no leaves is the SHA-256 of nothing.
    pub fn root(&self) -> Sha256Hash {
        root(&self.hashes)
    }

    /// Returns the index of the leaf of an event; if there is none, the index that it would have.
    pub fn find(&self, event_id: &Sha256Hash) -> Result<usize, usize> {
        self.leaves
            .binary_search_by_key(event_id, |leaf| leaf.event_id)
    }

    /// Returns the roots of the subtrees beside the way from a leaf to the root, the lowest first.
    pub fn path(&self, index: usize) -> Vec<Sha256Hash> {
        let mut path = Vec::new();
        let (mut hashes, mut index) = (&self.hashes[..], index);
        while hashes.len() > 1 {
            let (left, right) = hashes.split_at(split(hashes.len()));
            if index < left.len() {
                path.push(root(right));
                hashes = left;
            } else {
                path.push(root(left));
                (hashes, index) = (right, index - left.len());
            }
        }
        path.reverse();
        path
    }
}

/// Returns the largest power of two below `count`, which is 2 at least: so many leaves are on the left.
fn split(count: usize) -> usize {
    1 << (count - 1).ilog2()
}

fn root(hashes: &[Sha256Hash]) -> Sha256Hash {
    match hashes {
        [] => sha256([]),
        [leaf] => *leaf,
        hashes => {
            let (left, right) = hashes.split_at(split(hashes.len()));
            sha256([&[1], &root(left), &root(right)])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(count: u32) -> Tree {
        let leaf = |record: u32| Leaf {
            event_id: sha256([&record.to_be_bytes()]),
            body: sha256([b"body"]),
            record,
        };
        Tree::new((1..=count).map(leaf).collect())
    }

    /// Returns the root that a path leads to from a leaf.
    fn climbed(leaf: &Leaf, index: usize, count: usize, path: &[Sha256Hash]) -> Sha256Hash {
        match path.split_last() {
            None => leaf.hash(),
            Some((beside, below)) => {
                let left = split(count);
                match index < left {
                    true => sha256([&[1], &climbed(leaf, index, left, below), beside]),
                    false => {
                        let own = climbed(leaf, index - left, count - left, below);
                        sha256([&[1], beside, &own])
                    }
                }
            }
        }
    }

    #[test]
    fn every_path_leads_to_the_root_and_from_its_own_index_only() {
        for count in 1..40 {
            let tree = tree(count);
            for (index, leaf) in tree.leaves().iter().enumerate() {
                let path = tree.path(index);
                let size = tree.leaves().len();
                assert_eq!(climbed(leaf, index, size, &path), tree.root());
                assert_eq!(tree.find(&leaf.event_id), Ok(index));
                let mut other = *leaf;
                other.record += 1;
                assert_ne!(climbed(&other, index, size, &path), tree.root());
            }
        }
    }

    #[test]
    fn roots_of_other_leaves_differ() {
        let mut roots = Vec::from_iter((0..40).map(|count| tree(count).root()));
        roots.sort_unstable();
        roots.dedup();
        assert_eq!(roots.len(), 40);
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex::encode(tree(0).root()), empty);
    }

    #[test]
    fn an_event_that_is_not_there_is_between_two_neighbours() {
        let tree = tree(20);
        let absent = sha256([b"absent"]);
        let index = tree.find(&absent).unwrap_err();
        let leaves = tree.leaves();
        assert!(index == 0 || leaves[index - 1].event_id < absent);
        assert!(leaves.get(index).is_none_or(|leaf| absent < leaf.event_id));
    }
}
