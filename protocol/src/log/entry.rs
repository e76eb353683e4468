//! Entries of the index: what it remembers of an event that won.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::batch::BatchRecord;
use crate::ids::{BatchId, BodyHash, EventId, Seq, SqsMessageId};
use crate::limits::{ENTRY_EXTENSION_MAX, ENTRY_RETENTION};
use crate::quota::Place;
use crate::time::Timestamp;

/// Bytes of an entry in a run.
pub const ENTRY_BYTES: usize = 40;

/// The hash of an event id, keyed by the secret of the index. Runs are sorted by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdHash(u128);

impl IdHash {
    pub const fn new(hash: u128) -> IdHash {
        IdHash(hash)
    }

    /// Returns the first `count` bits.
    pub const fn first_bits(self, count: u32) -> usize {
        (self.0 >> (u128::BITS - count)) as usize
    }
}

impl fmt::Debug for IdHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdHash({:032x})", self.0)
    }
}

/// The key of the hashes of an index. Producers do not know it, so none can make two ids with the same hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IndexSecret([u8; 32]);

impl IndexSecret {
    pub const fn new(secret: [u8; 32]) -> IndexSecret {
        IndexSecret(secret)
    }

    pub fn id(&self, id: &EventId) -> IdHash {
        IdHash(u128::from_be_bytes(self.hash(id.as_str().as_bytes())))
    }

    pub fn message(&self, message: &SqsMessageId) -> u64 {
        u64::from_be_bytes(self.hash(message.as_str().as_bytes()))
    }

    pub fn body(&self, body: BodyHash) -> u64 {
        u64::from_be_bytes(self.hash(body.as_bytes()))
    }

    /// Returns the first bytes of the hash.
    fn hash<const N: usize>(&self, bytes: &[u8]) -> [u8; N] {
        let mut first = [0; N];
        first.copy_from_slice(&blake3::keyed_hash(&self.0, bytes).as_bytes()[..N]);
        first
    }
}

impl fmt::Debug for IndexSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IndexSecret(..)")
    }
}

/// An event that won, or what an operator committed about one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    pub id: IdHash,
    /// The position of the owner in the header of the run.
    pub owner: u32,
    pub seq: Seq,
    /// The hash of the message.
    pub message: u64,
    /// The hash of the body hash, or [`NO_BODY`].
    pub body: u64,
}

/// The hash of a body that is not known. One body in 2^64 has it.
pub const NO_BODY: u64 = 0;

impl Entry {
    pub fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..16].copy_from_slice(&self.id.0.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.owner.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.seq.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.message.to_be_bytes());
        bytes[32..].copy_from_slice(&self.body.to_be_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8; ENTRY_BYTES]) -> Entry {
        fn part<const N: usize>(bytes: &[u8; ENTRY_BYTES], from: usize) -> [u8; N] {
            let mut part = [0; N];
            part.copy_from_slice(&bytes[from..from + N]);
            part
        }
        Entry {
            id: IdHash(u128::from_be_bytes(part(bytes, 0))),
            owner: u32::from_be_bytes(part(bytes, 16)),
            seq: u32::from_be_bytes(part(bytes, 20)),
            message: u64::from_be_bytes(part(bytes, 24)),
            body: u64::from_be_bytes(part(bytes, 32)),
        }
    }
}

/// The reason why a run has entries, for example their batch. The header of the run lists its owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Owner {
    /// A batch. Its record says what became of a seat, and has the dedup window.
    Batch {
        batch: BatchId,
        ends_at: Timestamp,
        /// When the dedup window of its last event is over. Known once the batch is complete, and the run is merged.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        events_end_at: Option<Timestamp>,
        /// The place that each of the entries has, of events with a quota. A batch has one owner for each account, and one more for places
        /// that are taken over.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        place: Option<Place>,
    },
    /// An event that was delivered before the index knew it, and is remembered until this time.
    Primed { until: Timestamp },
    /// A message whose event may be claimed by others: it was set aside, or it is a past delivery. It is remembered until this time.
    PrimedMessage { until: Timestamp },
    /// Entries of this batch with the same id and seq are forgotten.
    Forget { batch: BatchId, ends_at: Timestamp },
}

impl Owner {
    /// Returns a batch that was opened at `opened_at` with this dedup window.
    pub fn batch(batch: BatchId, opened_at: Timestamp, window: Duration) -> Owner {
        Owner::Batch {
            batch,
            ends_at: opened_at + ENTRY_RETENTION + window,
            events_end_at: None,
            place: None,
        }
    }

    /// Returns the owner of those entries of a batch that have such a place.
    #[must_use]
    pub fn with_place(mut self, of: Option<Place>) -> Owner {
        if let Owner::Batch { place, .. } = &mut self {
            *place = of;
        }
        self
    }

    /// Returns the batch and the place that each of the entries has.
    pub fn place(self) -> Option<(BatchId, Place)> {
        match self {
            Owner::Batch { batch, place, .. } => Some((batch, place?)),
            Owner::Primed { .. } | Owner::PrimedMessage { .. } | Owner::Forget { .. } => None,
        }
    }

    /// Returns the owner with entries that end no sooner than `at`, or up to [`ENTRY_EXTENSION_MAX`] later than they did. Those of places that
    /// are taken over end no sooner than the entries that had the places before. Otherwise the places would be free once more.
    #[must_use]
    pub fn that_outlives(mut self, at: Timestamp) -> Owner {
        if let Owner::Batch { ends_at, .. } = &mut self {
            *ends_at = at.clamp(*ends_at, *ends_at + ENTRY_EXTENSION_MAX);
        }
        self
    }

    /// Returns the time from which on lines ignore the entries. The owner of an event is delivered and its dedup window is over by then.
    pub const fn ends_at(self) -> Timestamp {
        match self {
            Owner::Batch { ends_at, .. } | Owner::Forget { ends_at, .. } => ends_at,
            Owner::Primed { until } | Owner::PrimedMessage { until } => until,
        }
    }

    /// Returns when the last of its events ends, as far as is known.
    pub const fn events_end_at(self) -> Timestamp {
        match self {
            Owner::Batch {
                events_end_at: Some(at),
                ..
            } => at,
            _ => self.ends_at(),
        }
    }

    /// Returns the owner with the end of its events, if its batch is complete. Entries of places that are taken over stay until they end: see
    /// [`that_outlives`](Self::that_outlives).
    #[must_use]
    pub fn with_events_end<'r>(
        mut self,
        record_of: impl Fn(BatchId) -> Option<&'r BatchRecord>,
    ) -> Owner {
        if let Owner::Batch {
            batch,
            ends_at,
            events_end_at: events_end_at @ None,
            place: None | Some(Place { taken_in: None, .. }),
        } = &mut self
        {
            let record = record_of(*batch);
            let end = record.and_then(|one| Some(one.completed_at? + one.dedup_window));
            *events_end_at = end.map(|end| end.min(*ends_at));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_entry_reads_back_and_bytes_sort_as_entries_do(
            left in any::<(u128, u32, u32, u64, u64)>(), right in any::<(u128, u32, u32, u64, u64)>(),
        ) {
            let entry = |(id, owner, seq, message, body)| Entry { id: IdHash(id), owner, seq, message, body };
            let (left, right) = (entry(left), entry(right));
            prop_assert_eq!(Entry::from_bytes(&left.to_bytes()), left);
            prop_assert_eq!(left.to_bytes().cmp(&right.to_bytes()), left.cmp(&right));
        }
    }

    #[test]
    fn hashes_depend_on_the_secret_and_on_every_byte() {
        let (one, other) = (IndexSecret::new([1; 32]), IndexSecret::new([2; 32]));
        let id = |text: &str| text.parse::<EventId>().unwrap();
        assert_eq!(one.id(&id("a")), one.id(&id("a")));
        assert_ne!(one.id(&id("a")), one.id(&id("b")));
        assert_ne!(one.id(&id("a")), other.id(&id("a")));
        let message = "m".parse().unwrap();
        assert_ne!(one.message(&message), other.message(&message));
        let body = BodyHash::of(b"body");
        assert_ne!(one.body(body), other.body(body));
        assert_ne!(one.body(body), one.body(BodyHash::of(b"else")));
        assert_eq!(format!("{one:?}"), "IndexSecret(..)");
    }

    #[test]
    fn an_id_hash_has_sixteen_bytes_of_the_keyed_hash() {
        let secret = IndexSecret::new([7; 32]);
        let expected = blake3::keyed_hash(&[7; 32], b"event");
        let id = secret.id(&"event".parse().unwrap());
        assert_eq!(id.0.to_be_bytes(), expected.as_bytes()[..16]);
        assert_eq!(format!("{id:?}"), format!("IdHash({:032x})", id.0));
        let message = secret.message(&"event".parse().unwrap());
        assert_eq!(message.to_be_bytes(), expected.as_bytes()[..8]);
    }

    #[test]
    fn an_owner_ends_a_day_after_the_batch_life_and_its_window() {
        let batch = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let owner = Owner::batch(batch, Timestamp::from_ms(5), Duration::from_secs(1));
        let days = Duration::from_secs(11 * 24 * 3_600);
        assert_eq!(owner.ends_at(), Timestamp::from_ms(1_005) + days);
        let until = Timestamp::from_ms(9);
        assert_eq!(Owner::Primed { until }.ends_at(), until);
        assert_eq!(Owner::PrimedMessage { until }.ends_at(), until);
        let ends_at = until;
        assert_eq!(Owner::Forget { batch, ends_at }.ends_at(), until);
    }
}
