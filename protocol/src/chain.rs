//! Links of parts: with `PROOF`, each part of a source and a batch key names the hash of the one before it.
//!
//! A link is taken together with the number of its part, and kept in the batch record, so that it is the same at every attempt.
//! The hash of a link is a function of the part's manifest, which the sink writes: here it is a value that travels from the
//! receipt of one part to the link of the next.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::IdError;
use crate::time::Timestamp;

/// The hash of a link: of the manifest of its part and of the hash before it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChainHash([u8; 32]);

impl ChainHash {
    /// What a link has as the hash before it if there is none.
    pub const NONE: ChainHash = ChainHash([0; 32]);

    /// Returns a hash of these bytes.
    pub const fn new(bytes: [u8; 32]) -> ChainHash {
        ChainHash(bytes)
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainHash({self})")
    }
}

impl FromStr for ChainHash {
    type Err = IdError;

    /// Reads 64 hexadecimal digits in lower case: one hash has one spelling.
    fn from_str(text: &str) -> Result<ChainHash, IdError> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let read = || {
            let mut hash = [0; 32];
            let pairs = text.as_bytes().chunks_exact(2);
            (text.len() == 64).then_some(())?;
            for (byte, pair) in hash.iter_mut().zip(pairs) {
                *byte = digit(pair[0])? << 4 | digit(pair[1])?;
            }
            Some(ChainHash(hash))
        };
        read().ok_or_else(|| IdError::Malformed {
            what: "chain hash",
            value: text.chars().take(100).collect(),
            form: "64 hexadecimal digits in lower case",
        })
    }
}

impl TryFrom<String> for ChainHash {
    type Error = IdError;

    fn try_from(text: String) -> Result<ChainHash, IdError> {
        text.parse()
    }
}

impl From<ChainHash> for String {
    fn from(hash: ChainHash) -> String {
        hash.to_string()
    }
}

/// The link of a part to the part before it. It never changes once the batch record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// When the part took its number: before its delivery, and after that of the part before it.
    pub taken_at: Timestamp,
    /// The number of the link whose hash is `previous`; 0 if there is none. Unless it is the number before the part's own, the
    /// hashes between are unknown: the chain has a gap.
    pub after: u64,
    /// The hash of link `after`; [`ChainHash::NONE`] if there is none.
    pub previous: ChainHash,
}

/// The last link of a source and a batch key whose hash is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainEnd {
    /// The number of its part. If later parts have numbers, they were delivered without a link that is known.
    pub number: u64,
    /// When its part took the number.
    pub taken_at: Timestamp,
    pub hash: ChainHash,
}

impl Link {
    /// Returns the link of a part that takes its number `now`, after the last known link. Times never go back along a chain,
    /// although the clocks of processors differ.
    pub fn after(end: Option<ChainEnd>, now: Timestamp) -> Link {
        match end {
            None => Link {
                taken_at: now,
                after: 0,
                previous: ChainHash::NONE,
            },
            Some(end) => Link {
                taken_at: now.max(end.taken_at),
                after: end.number,
                previous: end.hash,
            },
        }
    }
}

/// What stands in a receipt before the chain hash.
const IN_RECEIPT: &str = " chain:";

/// Returns a receipt that has the chain hash of its part. Earlier versions keep it as they keep any receipt.
pub fn with_hash(receipt: &str, hash: ChainHash) -> String {
    format!("{receipt}{IN_RECEIPT}{hash}")
}

/// Returns the chain hash in a receipt, if it has one.
pub fn hash_in(receipt: &str) -> Option<ChainHash> {
    let (_, hash) = receipt.rsplit_once(IN_RECEIPT)?;
    hash.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_hash_has_one_spelling() {
        let hash = ChainHash::new(std::array::from_fn(|index| index as u8 * 7));
        let text = hash.to_string();
        assert_eq!(text.parse(), Ok(hash));
        assert!(text.starts_with("00070e15"), "{text}");
        for wrong in [&text[1..], &format!("{text}0"), &text.to_uppercase(), ""] {
            wrong.parse::<ChainHash>().unwrap_err();
        }
        assert!("g".repeat(64).parse::<ChainHash>().is_err());
    }

    #[test]
    fn a_receipt_keeps_the_chain_hash() {
        let hash = ChainHash::new([9; 32]);
        let receipt = with_hash("blake3:00", hash);
        assert_eq!(hash_in(&receipt), Some(hash));
        for without in ["blake3:00", "", "chain:", " chain:09", &receipt[1..60]] {
            assert_eq!(hash_in(without), None, "{without}");
        }
    }

    #[test]
    fn a_link_is_after_the_last_known_one_and_its_time_does_not_go_back() {
        let at = Timestamp::from_ms;
        let end = ChainEnd {
            number: 7,
            taken_at: at(50),
            hash: ChainHash::new([1; 32]),
        };
        for (now, taken_at) in [(at(40), at(50)), (at(60), at(60))] {
            let link = Link {
                taken_at,
                after: 7,
                previous: end.hash,
            };
            assert_eq!(Link::after(Some(end), now), link);
        }
        let first = Link::after(None, at(5));
        let expected = (at(5), 0, ChainHash::NONE);
        assert_eq!((first.taken_at, first.after, first.previous), expected);
    }
}
