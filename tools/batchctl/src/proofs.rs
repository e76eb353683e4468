//! The chain of a source and a batch key, as its manifests have it, and proofs from it. docs/proof.md says what both are.

use std::collections::BTreeMap;

use protocol::chain::{ChainEnd, ChainHash};
use protocol::ids::{BatchId, BatchKey};
use protocol::sequence::{PartId, SequenceScope};
use protocol::time::Timestamp;
use serde::{Deserialize, Serialize};
use sinks::chain::{Chain, Linked, statement_hash};
use sinks::directory_of;
use sinks::merkle::{Tree, sha256};

/// The fields of a manifest that a proof needs.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fields {
    pub batch_id: BatchId,
    pub part: usize,
    pub key: String,
    pub compression: String,
    pub hash: String,
    pub chain: Chain,
}

/// A link, with the manifest that it is in.
#[derive(Clone, Debug)]
pub struct PartLink {
    /// The path of the manifest below the sink.
    pub path: String,
    pub linked: Linked,
    pub fields: Fields,
}

/// The fields that every manifest has, with a link or without.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scoped {
    batch_id: BatchId,
    source: String,
    batch_key: Option<BatchKey>,
    chain: Option<serde_json::Value>,
}

/// A manifest, as it was read.
#[derive(Debug)]
pub enum Read {
    /// It is of another source or batch key.
    Elsewhere,
    /// It has no link: it was written with `PROOF` off. When its batch was opened.
    Unlinked(Timestamp),
    Linked(Box<PartLink>),
}

/// Reads a manifest of a sink.
///
/// # Errors
/// It is not as the sink wrote it: a message that names the file.
pub fn read(path: &str, manifest: &[u8], scope: &SequenceScope) -> Result<Read, String> {
    let changed = |problem: &str| format!("manifest `{path}` was changed: {problem}");
    let scoped: Scoped =
        serde_json::from_slice(manifest).map_err(|error| changed(&error.to_string()))?;
    if scoped.source != scope.source.as_str() || scoped.batch_key != scope.batch_key {
        return Ok(Read::Elsewhere);
    }
    if scoped.chain.is_none() {
        return Ok(Read::Unlinked(scoped.batch_id.opened_at()));
    }
    let linked =
        Linked::read(manifest).ok_or_else(|| changed("it does not end with its hashes"))?;
    let fields: Fields = linked
        .fields()
        .map_err(|error| changed(&error.to_string()))?;
    if !linked.is_whole() {
        let number = fields.chain.number;
        return Err(changed(&format!(
            "its hash is not that of number {number}, which it says it is"
        )));
    }
    let directory = directory_of(fields.batch_id, scope.batch_key.as_ref());
    let expected = format!("{directory}/{}.manifest.json", fields.part);
    if expected != path {
        return Err(changed(&format!("it is the one of `{expected}`")));
    }
    let path = path.to_owned();
    Ok(Read::Linked(Box::new(PartLink {
        path,
        linked,
        fields,
    })))
}

impl PartLink {
    /// Returns the part.
    pub fn id(&self) -> PartId {
        PartId {
            batch: self.fields.batch_id,
            part: self.fields.part,
        }
    }

    fn taken_at(&self) -> u64 {
        self.fields.chain.taken_at
    }
}

/// The links of a scope that lead to its last chain hash, in order, and manifests with links that are not among them.
#[derive(Debug)]
pub struct Links {
    pub links: Vec<PartLink>,
    /// Of parts that were set aside, if everything is in order; [`check_others`](Self::check_others) says so.
    pub others: Vec<PartLink>,
}

/// Follows the links back from the last one.
///
/// # Errors
/// A number is missing or was changed: a message that says which. Numbers below the first one that is there may be missing.
pub fn follow(found: Vec<PartLink>, end: ChainEnd) -> Result<Links, String> {
    let mut by_hash: BTreeMap<ChainHash, PartLink> = BTreeMap::new();
    let mut others = Vec::new();
    for link in found {
        // A part that is being delivered may have its manifest before the sequence knows.
        if let Some(copy) = by_hash.insert(link.linked.hash, link) {
            others.push(copy);
        }
    }
    let mut links: Vec<PartLink> = Vec::new();
    let (mut hash, mut number) = (end.hash, end.number);
    while number > 0 {
        let Some(link) = by_hash.remove(&hash) else {
            let left = || by_hash.values().map(|link| link.fields.chain.number);
            if left().any(|one| one == number) {
                return Err(format!(
                    "number {number} was changed: its manifest is not the one of the chain hash `{hash}`"
                ));
            }
            if links.is_empty() || left().any(|one| one < number) {
                return Err(format!(
                    "number {number} is missing: there is no manifest with the chain hash `{hash}`"
                ));
            }
            break;
        };
        if link.fields.chain.number != number {
            let says = link.fields.chain.number;
            return Err(format!("number {number} was changed: it says {says}"));
        }
        (hash, number) = (link.linked.previous, link.fields.chain.after);
        links.push(link);
    }
    links.reverse();
    others.extend(by_hash.into_values());
    Ok(Links { links, others })
}

impl Links {
    /// Checks that every manifest outside the chain is of a part that was set aside, or of the next part, which is being delivered.
    ///
    /// # Errors
    /// A number is there twice: a message that says which.
    pub fn check_others(
        &self,
        end: ChainEnd,
        is_aside: impl Fn(PartId) -> bool,
    ) -> Result<(), String> {
        let is_right =
            |link: &&PartLink| link.fields.chain.number == end.number + 1 || is_aside(link.id());
        match self.others.iter().find(|link| !is_right(link)) {
            None => Ok(()),
            Some(link) => Err(format!(
                "number {} is doubled: `{}` is not in the chain, and no record says that its part was set aside; if it was, move the \
                 manifest away",
                link.fields.chain.number, link.path
            )),
        }
    }

    /// Returns the indexes of the links whose parts may have been delivered between two times, both included. A part was delivered
    /// after it took its number, and before the next part did.
    ///
    /// # Errors
    /// The links that are there begin later.
    pub fn between(&self, from: u64, to: u64) -> Result<std::ops::Range<usize>, String> {
        let links = &self.links;
        let begin = links
            .iter()
            .skip(1)
            .take_while(|link| link.taken_at() < from);
        let begin = begin.count();
        let end = links
            .iter()
            .take_while(|link| link.taken_at() <= to)
            .count();
        let first = links.first().ok_or("there is no link yet")?;
        let is_whole = first.fields.chain.number == 1 || first.taken_at() < from;
        match is_whole {
            true => Ok(begin.min(end)..end),
            false => Err(format!(
                "the links that are there begin with number {}, at {} ms: expected a later `--from`",
                first.fields.chain.number,
                first.taken_at()
            )),
        }
    }

    /// Returns a proof of a kind from the parts of these links.
    fn proof(
        &self,
        kind: &'static str,
        event: &str,
        parts: std::ops::Range<usize>,
        leaves: Vec<Vec<ProofLeaf>>,
    ) -> Proof {
        let statement = |index: usize| self.links[index].linked.statement.clone();
        let (begin, end) = (parts.start, parts.end);
        let later = self.links.iter().skip(end + 1);
        let part = |(index, leaves)| ProofPart {
            statement: statement(index),
            leaves,
        };
        Proof {
            format_version: 1,
            kind,
            event_id: event.to_owned(),
            previous: self.links[begin].linked.previous,
            parts: parts.zip(leaves).map(part).collect(),
            next: (end < self.links.len()).then(|| statement(end)),
            later: later
                .map(|link| ChainHash::new(statement_hash(&link.linked.statement)))
                .collect(),
        }
    }

    /// Returns the proof that an event was delivered in the part of a link; `None` if it is not in the tree of the part.
    pub fn delivered(&self, event: &str, index: usize, tree: &Tree) -> Option<Proof> {
        let leaf = tree.find(&sha256([event.as_bytes()])).ok()?;
        let leaves = vec![vec![ProofLeaf::of(tree, leaf)]];
        Some(self.proof("delivered", event, index..index + 1, leaves))
    }

    /// Returns the proof that an event was not delivered in the parts of these links, whose trees are given.
    ///
    /// # Errors
    /// There is a gap between the parts.
    pub fn not_delivered(
        &self,
        event: &str,
        parts: std::ops::Range<usize>,
        trees: &[Tree],
    ) -> Result<Proof, String> {
        let until = self.links.len().min(parts.end + 1);
        let shown = &self.links[parts.start..until];
        for link in shown.iter().skip(1) {
            let chain = &link.fields.chain;
            if chain.after + 1 != chain.number {
                let (first, last) = (chain.after + 1, chain.number - 1);
                return Err(format!(
                    "the chain has a gap: nothing is known of numbers {first} to {last}"
                ));
            }
        }
        let target = sha256([event.as_bytes()]);
        let neighbours = |tree: &Tree| {
            let index = tree.find(&target).unwrap_or_else(|index| index);
            let beside = [index.checked_sub(1), Some(index)].into_iter().flatten();
            let beside = beside.filter(|index| *index < tree.leaves().len());
            beside.map(|index| ProofLeaf::of(tree, index)).collect()
        };
        let leaves = trees.iter().map(neighbours).collect();
        Ok(self.proof("not delivered", event, parts, leaves))
    }
}

/// A proof, as its file has it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    format_version: u64,
    pub kind: &'static str,
    event_id: String,
    /// The chain hash before the first statement.
    previous: ChainHash,
    pub parts: Vec<ProofPart>,
    /// The statement after those of the parts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// The SHA-256 of each statement after that.
    later: Vec<ChainHash>,
}

/// A part in a proof, with the leaves that show what the proof is about.
#[derive(Debug, Serialize)]
pub struct ProofPart {
    statement: String,
    leaves: Vec<ProofLeaf>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProofLeaf {
    index: usize,
    event_id_sha256: ChainHash,
    body_sha256: ChainHash,
    record: u32,
    path: Vec<ChainHash>,
}

impl ProofLeaf {
    fn of(tree: &Tree, index: usize) -> ProofLeaf {
        let leaf = tree.leaves()[index];
        ProofLeaf {
            index,
            event_id_sha256: ChainHash::new(leaf.event_id),
            body_sha256: ChainHash::new(leaf.body),
            record: leaf.record,
            path: tree.path(index).into_iter().map(ChainHash::new).collect(),
        }
    }
}

#[cfg(test)]
#[path = "proofs_tests.rs"]
mod tests;
