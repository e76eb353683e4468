//! What a part with a link has beside its records: the list of its events, the Merkle root of them, and the chain hash.
//!
//! The *statement* of a part is the beginning of its manifest, up to the hash before it. So it covers every field of the manifest,
//! and nobody has to write it anew to check it. docs/proof.md has the exact bytes.

use std::str;

use protocol::chain::{ChainHash, Link};
use serde::{Deserialize, Serialize};

use crate::merkle::{Leaf, Sha256Hash, Tree, sha256};
use crate::part::Part;
use crate::reject::Reject;

/// What ends the statement of a manifest. It occurs once: in a text, the quotes would be escaped.
const ENDS_STATEMENT: &str = ",\"previous\":\"";
/// What stands between the two hashes after a statement.
const BETWEEN: &str = "\",\"hash\":\"";
/// What stands after the hashes.
const LAST: &str = "\"}}\n";

/// A line of the list of events of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventLine {
    /// The number of the event's record in the file, from 1.
    pub record: u32,
    /// The event id.
    pub event_id: String,
    /// The SHA-256 of the body, in hexadecimal.
    pub body_sha256: String,
}

impl EventLine {
    /// Returns the leaf of the event; `None` if `body_sha256` is not a hash.
    pub fn leaf(&self) -> Option<Leaf> {
        let body: ChainHash = self.body_sha256.parse().ok()?;
        Some(Leaf {
            event_id: sha256([self.event_id.as_bytes()]),
            body: *body.as_bytes(),
            record: self.record,
        })
    }
}

/// Returns the events of a part that have a record in the file, in the order of the file.
pub fn event_lines(part: &Part, rejects: &[Reject]) -> Vec<EventLine> {
    let mut rejects = rejects.iter().map(|reject| reject.seq).peekable();
    // Rejects are in the order of the part.
    let items = part.items.iter();
    let delivered = items.filter(|item| rejects.next_if_eq(&item.seq).is_none());
    let line = |(record, item): (u32, &shared::ports::StoredEvent)| EventLine {
        record,
        event_id: item.event_id.to_string(),
        body_sha256: hex::encode(sha256([item.body.as_bytes()])),
    };
    (1..).zip(delivered).map(line).collect()
}

/// Returns the tree of a list of events; `None` if a line has no hash of a body.
pub fn tree_of(lines: &[EventLine]) -> Option<Tree> {
    let leaves: Option<Vec<Leaf>> = lines.iter().map(EventLine::leaf).collect();
    leaves.map(Tree::new)
}

/// The object `chain` of a manifest, up to the hash before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// The number of the part among those of its source and batch key.
    pub number: u64,
    /// When the part took the number, in epoch milliseconds.
    pub taken_at: u64,
    /// The number of the link before this one; 0 if there is none.
    pub after: u64,
    /// Why `after` is not the number before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
    /// The number of leaves of the tree.
    pub leaves: u64,
    /// The root of the tree, in hexadecimal.
    pub merkle_root: String,
}

impl Chain {
    /// Returns the chain of a part with this number, link and tree.
    pub fn new(number: u64, link: Link, tree: &Tree) -> Chain {
        let gap = (link.after + 1 < number).then(|| {
            let (first, last) = (link.after + 1, number - 1);
            format!("no chain hash is known of numbers {first} to {last}")
        });
        Chain {
            number,
            taken_at: link.taken_at.as_ms(),
            after: link.after,
            gap,
            leaves: tree.leaves().len() as u64,
            merkle_root: hex::encode(tree.root()),
        }
    }
}

/// A statement with its two hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The first bytes of the manifest.
    pub statement: String,
    /// The hash of the link before it.
    pub previous: ChainHash,
    /// The hash of the link.
    pub hash: ChainHash,
}

impl Linked {
    /// Returns the statement in a manifest that ends with the object `chain`, with the hashes that it has by then.
    pub fn new(manifest: &str, previous: ChainHash) -> Linked {
        let end = manifest.trim_end_matches('\n').len().saturating_sub(2);
        let statement = manifest[..end].to_owned();
        let hash = chain_hash(previous, &statement_hash(&statement));
        Linked {
            statement,
            previous,
            hash,
        }
    }

    /// Reads a manifest; returns `None` if it has no link, or is not as the sink writes it.
    pub fn read(manifest: &[u8]) -> Option<Linked> {
        let text = str::from_utf8(manifest).ok()?;
        let (statement, hashes) = text.split_once(ENDS_STATEMENT)?;
        let (previous, hash) = hashes.strip_suffix(LAST)?.split_once(BETWEEN)?;
        Some(Linked {
            statement: statement.to_owned(),
            previous: previous.parse().ok()?,
            hash: hash.parse().ok()?,
        })
    }

    /// Returns the manifest.
    pub fn to_manifest(&self) -> String {
        let Linked {
            statement,
            previous,
            hash,
        } = self;
        format!("{statement}{ENDS_STATEMENT}{previous}{BETWEEN}{hash}{LAST}")
    }

    /// Returns whether the hash is that of the statement and the hash before it.
    pub fn is_whole(&self) -> bool {
        chain_hash(self.previous, &statement_hash(&self.statement)) == self.hash
    }

    /// Returns the fields of the statement, which is JSON once its two objects are closed.
    ///
    /// # Errors
    /// It is not, or lacks a field.
    pub fn fields<T: for<'a> Deserialize<'a>>(&self) -> serde_json::Result<T> {
        serde_json::from_str(&format!("{}}}}}", self.statement))
    }
}

/// Returns the SHA-256 of a statement.
pub fn statement_hash(statement: &str) -> Sha256Hash {
    sha256([statement.as_bytes()])
}

/// Returns the hash of a link.
pub fn chain_hash(previous: ChainHash, statement: &Sha256Hash) -> ChainHash {
    ChainHash::new(sha256([&[2], previous.as_bytes(), statement]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::tests_support::part;
    use protocol::time::Timestamp;

    fn linked() -> Linked {
        let link = Link::after(None, Timestamp::from_ms(5));
        let chain = Chain::new(3, link, &Tree::default());
        let chain = serde_json::to_string(&chain).unwrap();
        let key = serde_json::to_string("x\",\"previous\":\"y").unwrap();
        Linked::new(
            &format!("{{\"batchKey\":{key},\"chain\":{chain}}}\n"),
            ChainHash::new([7; 32]),
        )
    }

    #[test]
    fn a_manifest_reads_back_as_its_statement_and_hashes() {
        let linked = linked();
        assert!(linked.is_whole());
        let manifest = linked.to_manifest();
        let value: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        assert_eq!(value["chain"]["hash"], linked.hash.to_string());
        assert_eq!(
            value["chain"]["gap"],
            "no chain hash is known of numbers 1 to 2"
        );
        assert_eq!(Linked::read(manifest.as_bytes()), Some(linked));
        assert_eq!(Linked::read(b"{\"batchId\":1}\n"), None);
    }

    #[test]
    fn every_flipped_bit_of_a_manifest_is_found() {
        let manifest = linked().to_manifest().into_bytes();
        for bit in 0..manifest.len() * 8 {
            let mut other = manifest.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let read = Linked::read(&other);
            assert!(!read.is_some_and(|linked| linked.is_whole()), "bit {bit}");
        }
    }

    #[test]
    fn only_events_with_a_record_are_leaves() {
        let part = part(0, &["a", "b\n", "c"]);
        let rejects = Format::Body.write(&part, &mut std::io::sink()).unwrap();
        let lines = event_lines(&part, &rejects);
        let of = Vec::from_iter(lines.iter().map(|line| (line.record, &*line.event_id)));
        assert_eq!(of, [(1, "e0"), (2, "e2")]);
        // By `printf c | sha256sum`.
        let expected = "2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6";
        assert_eq!(lines[1].body_sha256, expected);
        assert_eq!(tree_of(&lines).unwrap().leaves().len(), 2);
    }
}
