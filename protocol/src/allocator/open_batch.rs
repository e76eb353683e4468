//! A batch that gives out seats: its places, its counts, and its remembered claims.

use std::collections::HashMap;

use super::opening::{BatchScope, Opened};
use crate::batch::BatchCounts;
use crate::ids::{BatchId, BodyHash, Seat, Seq};
use crate::seqs::SeqSet;
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Claims of one batch.
    pub items_max: u64,
    /// Bytes of all bodies of one batch.
    pub bytes_max: u64,
    /// Index shards of one batch.
    pub shards: u16,
    /// Open batches at once, of all scopes that have a batch key or a period.
    pub keys_max: usize,
    /// Seats that one batch gives out.
    pub seats_max: u32,
    /// Remembered claims of all open batches. Duplicates of other claims are recognised only by the lock table.
    pub known_claims_max: usize,
}

/// Why a batch takes no further claims and is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReason {
    /// It has as many claims as it may have, or its last places are held by attempts in flight.
    Full,
    /// The next body would take it beyond its bytes.
    Bytes,
    /// Its window ends before the deadline of an invocation that wanted seats.
    Window,
    /// Its source is drained.
    Drained,
    /// It has an urgent event.
    Urgent,
    /// No event of its scope came for a while.
    Idle,
}

/// A batch that gives out seats, or has attempts in flight.
#[derive(Debug)]
pub struct OpenBatch {
    pub(super) id: BatchId,
    pub(super) scope: BatchScope,
    pub(super) closes_at: Timestamp,
    limits: BatchLimits,
    next_seq: Seq,
    /// When an invocation last claimed into it.
    pub(super) used_at: Timestamp,
    pub(super) in_flight: u64,
    pub(super) in_flight_bytes: u64,
    pub(super) confirmed: u64,
    pub(super) confirmed_bytes: u64,
    pub(super) uncertain: u64,
    pub(super) settled: SeqSet,
    pub(super) counts_version: u64,
    /// The version of the counts that are in the batch record.
    pub(super) counted: u64,
    pub(super) known: HashMap<Digest, Known>,
    /// Why the batch gives out no further seats; `None` while it may.
    pub(super) retired: Option<FlushReason>,
}

/// A hash of 16 bytes, which takes less memory than the id.
pub(super) type Digest = BodyHash;

/// A claim as the allocator remembers it, to recognise redeliveries and duplicates.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) message: Digest,
    pub(super) body: BodyHash,
    /// The version of the first counts that include the claim.
    pub(super) counted_from: u64,
}

impl OpenBatch {
    pub(super) fn new(opened: Opened, limits: BatchLimits) -> OpenBatch {
        OpenBatch {
            id: opened.id,
            scope: opened.scope,
            closes_at: opened.closes_at,
            limits,
            next_seq: 0,
            used_at: Timestamp::EPOCH,
            in_flight: 0,
            in_flight_bytes: 0,
            confirmed: 0,
            confirmed_bytes: 0,
            uncertain: 0,
            settled: SeqSet::new(),
            counts_version: 0,
            counted: 0,
            known: HashMap::new(),
            retired: None,
        }
    }

    pub fn id(&self) -> BatchId {
        self.id
    }

    /// Returns the number of taken places: claimed, uncertain, or in flight.
    pub fn taken(&self) -> u64 {
        self.confirmed + self.uncertain + self.in_flight
    }

    /// Returns the number of places.
    pub fn items_max(&self) -> u64 {
        self.limits.items_max
    }

    /// Returns the number of seats whose attempt ended with a known result.
    pub fn settled_len(&self) -> u64 {
        self.settled.len()
    }

    /// Returns the number of seats whose claim may or may not be in the table.
    pub fn uncertain(&self) -> u64 {
        self.uncertain
    }

    /// Returns the number of seats whose attempt is in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns the number of seats given out so far.
    pub fn seats_given(&self) -> u64 {
        u64::from(self.next_seq)
    }

    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.taken() < self.limits.items_max
            && self.next_seq < self.limits.seats_max
            && (self.taken() == 0
                || self.confirmed_bytes + self.in_flight_bytes + bytes <= self.limits.bytes_max)
    }

    pub(super) fn seat(&mut self, bytes: u64) -> Seat {
        let seat = Seat {
            batch: self.id,
            seq: self.next_seq,
            shards: self.limits.shards,
        };
        self.next_seq += 1;
        self.in_flight += 1;
        self.in_flight_bytes += bytes;
        seat
    }

    pub(super) fn is_full(&self) -> bool {
        self.confirmed + self.uncertain >= self.limits.items_max
            || self.next_seq >= self.limits.seats_max
    }

    /// Returns why the batch is flushed. A batch that is full is flushed for that reason, whatever retired it first.
    pub(super) fn flush_reason(&self) -> FlushReason {
        match self.retired {
            Some(reason) if !self.is_full() => reason,
            Some(_) | None => FlushReason::Full,
        }
    }

    pub(super) fn counts(&mut self) -> BatchCounts {
        self.counts_version += 1;
        BatchCounts {
            confirmed: self.confirmed,
            uncertain: self.uncertain,
            settled: self.settled.clone(),
            version: self.counts_version,
        }
    }
}
