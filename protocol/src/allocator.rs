//! The current batches of one environment: who may sit where, and when a batch is full.
//!
//! A batch enters this state only as an [`Opened`], which exists only after its record *and* its ticket were
//! acknowledged; seats come only from here. So no claim can name a batch that nobody was told about.
//!
//! Seats are not claims: a seat whose attempt met a duplicate gives its place back, so that a full batch holds
//! exactly as many events as it may. Seqs are never reused.
//!
//! Claims of an open batch are remembered, so that their duplicates and redeliveries cost no write: a conditional write
//! that fails is charged like one that succeeds.
//!
//! The state is shared by all invocations of an environment (several at once under `AWS_LAMBDA_MAX_CONCURRENCY`).
//! It holds nothing of an invocation: an invocation that dies takes the whole environment, and this state, with it.

use std::collections::BTreeMap;

use crate::batch::BatchCounts;
use crate::claim::{Candidate, ExistingClaim};
use crate::ids::{BatchId, Seat, SourceArn};
use crate::invariants;
use crate::planted::{Bug, planted};
use crate::time::Timestamp;

pub mod open_batch;
mod opening;

pub use open_batch::{BatchLimits, OpenBatch};
use open_batch::{Digest, Known};
pub use opening::{Opened, Opening, Recorded, Slot};

/// How a seat ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatEnd {
    /// Its claim is in the table.
    Claimed,
    /// Its claim is not in the table and never will be.
    Free,
    /// Its claim may be in the table, or may still arrive there.
    Uncertain,
}

/// The answer to a wish for seats.
#[derive(Debug)]
pub enum Seating {
    /// Seats for the first so many of those who asked; at least one.
    Seats(Vec<Seat>),
    /// There is no batch: open this one, then ask again.
    Open(Opening),
    /// A batch is being opened, or its last places depend on attempts under way: ask again when something changed.
    Wait,
    /// As many keyed batches are open as may be.
    TooManyKeys {
        /// `BATCH_KEYS_MAX`.
        keys_max: usize,
    },
}

/// What became of a slot.
#[derive(Debug)]
enum Current {
    Opening,
    Batch(BatchId),
}

/// The current batches of an environment.
#[derive(Debug)]
pub struct Allocator {
    limits: BatchLimits,
    current: BTreeMap<Slot, Current>,
    batches: BTreeMap<BatchId, OpenBatch>,
    known_count: usize,
}

impl Allocator {
    /// No batch yet.
    pub fn new(limits: BatchLimits) -> Allocator {
        Allocator {
            limits,
            current: BTreeMap::new(),
            batches: BTreeMap::new(),
            known_count: 0,
        }
    }

    /// Seats for as many of `sizes` (body bytes, in order) as there is room for.
    ///
    /// A batch serves an invocation only if that ends before the batch's window does: whatever the invocation
    /// writes is then written before a processor may look.
    pub fn seat(&mut self, slot: &Slot, sizes: &[u64], deadline: Timestamp) -> Seating {
        match self.current.get(slot) {
            Some(Current::Opening) => Seating::Wait,
            None => self.start_opening(slot),
            Some(Current::Batch(id)) => {
                let id = *id;
                let batch = self
                    .batches
                    .get_mut(&id)
                    .expect("a current batch is in the table of batches");
                if deadline < batch.closes_at && !batch.is_full() {
                    let seats: Vec<Seat> = sizes
                        .iter()
                        .map_while(|bytes| batch.fits(*bytes).then(|| batch.seat(*bytes)))
                        .collect();
                    debug_assert_eq!(invariants::batch_is_within_its_limits(batch), Ok(()));
                    if !seats.is_empty() {
                        return Seating::Seats(seats);
                    }
                    if batch.in_flight > 0 {
                        return Seating::Wait;
                    }
                }
                batch.retired = true;
                self.current.remove(slot);
                self.start_opening(slot)
            }
        }
    }

    fn start_opening(&mut self, slot: &Slot) -> Seating {
        if slot.key.is_some() && self.keyed() >= self.limits.keys_max {
            return Seating::TooManyKeys {
                keys_max: self.limits.keys_max,
            };
        }
        self.current.insert(slot.clone(), Current::Opening);
        Seating::Open(Opening { slot: slot.clone() })
    }

    fn keyed(&self) -> usize {
        self.current
            .keys()
            .filter(|slot| slot.key.is_some())
            .count()
    }

    /// A batch may now be claimed into.
    pub fn opened(&mut self, opened: Opened) {
        self.current
            .insert(opened.slot.clone(), Current::Batch(opened.id));
        self.batches
            .insert(opened.id, OpenBatch::new(opened, self.limits));
    }

    /// An opening came to nothing; the next one who asks may try again.
    pub fn opening_failed(&mut self, slot: &Slot) {
        if matches!(self.current.get(slot), Some(Current::Opening)) {
            self.current.remove(slot);
        }
    }

    /// The attempt of `seat`, whose body has `bytes`, ended.
    pub fn settle(&mut self, seat: Seat, bytes: u64, end: SeatEnd) {
        let Some(batch) = self.batches.get_mut(&seat.batch) else {
            return;
        };
        batch.in_flight -= 1;
        batch.in_flight_bytes -= bytes;
        match end {
            SeatEnd::Claimed => {
                batch.confirmed += 1;
                batch.confirmed_bytes += bytes;
                batch.settled.insert(seat.seq);
            }
            SeatEnd::Free => {
                batch.confirmed += u64::from(planted(Bug::AttemptsCountedAsClaims));
                batch.settled.insert(seat.seq);
            }
            SeatEnd::Uncertain => {
                batch.uncertain += 1;
                batch.confirmed_bytes += bytes;
            }
        }
        debug_assert_eq!(invariants::every_seat_is_accounted_for(batch), Ok(()));
    }

    /// Remembers that `seat`, which was settled as claimed, holds the event of `candidate`.
    pub fn remember(&mut self, seat: Seat, candidate: &Candidate) {
        if self.known_count >= self.limits.known_claims_max {
            return;
        }
        let Some(batch) = self.batches.get_mut(&seat.batch) else {
            return;
        };
        let event = Digest::of(candidate.event_id.as_str().as_bytes());
        let known = Known {
            message: Digest::of(candidate.sqs_message_id.as_str().as_bytes()),
            body: candidate.body_hash,
            counted_from: batch.counts_version + 1,
        };
        if batch.known.insert(event, known).is_none() {
            self.known_count += 1;
        }
    }

    /// What `candidate` is to a claim of its slot's batch that an invocation with this deadline may rely on; `None`
    /// where the table has to say.
    ///
    /// Such a claim is in the table, is counted in its batch's record, and stays both until the batch closes. A batch
    /// cannot complete without what is counted, so nothing needs to be asked or witnessed.
    pub fn known(
        &self,
        slot: &Slot,
        candidate: &Candidate,
        deadline: Timestamp,
    ) -> Option<ExistingClaim> {
        let Some(Current::Batch(id)) = self.current.get(slot) else {
            return None;
        };
        let batch = self.batches.get(id)?;
        if batch.known.is_empty() || deadline >= batch.closes_at {
            return None;
        }
        let event = Digest::of(candidate.event_id.as_str().as_bytes());
        let known = batch.known.get(&event)?;
        if known.counted_from > batch.counted && !planted(Bug::KnownUncounted) {
            return None;
        }
        if known.message == Digest::of(candidate.sqs_message_id.as_str().as_bytes()) {
            Some(ExistingClaim::Redelivered)
        } else if known.body == candidate.body_hash {
            Some(ExistingClaim::Duplicate)
        } else {
            // Who follows it in the same event is judged by what the table holds.
            None
        }
    }

    /// The counts of this version are in the batch's record.
    pub fn counted(&mut self, batch: BatchId, version: u64) {
        if let Some(batch) = self.batches.get_mut(&batch) {
            batch.counted = batch.counted.max(version);
        }
    }

    /// Retires every batch no invocation with this or a later deadline can use.
    pub fn retire_past(&mut self, deadline: Timestamp) {
        let batches = &mut self.batches;
        self.current.retain(|_, current| match current {
            Current::Opening => true,
            Current::Batch(id) => match batches.get_mut(id) {
                Some(batch) if deadline >= batch.closes_at => {
                    batch.retired = true;
                    false
                }
                Some(_) | None => true,
            },
        });
    }

    /// Retires the batch of a slot as it is: its last places are not worth the wait.
    pub fn retire(&mut self, slot: &Slot) {
        if let Some(Current::Batch(id)) = self.current.get(slot) {
            if let Some(batch) = self.batches.get_mut(id) {
                batch.retired = true;
            }
            self.current.remove(slot);
        }
    }

    /// The slots of a source whose batch holds something and has no attempt under way.
    pub fn idle(&self, source: &SourceArn) -> Vec<Slot> {
        let is_idle = |current: &Current| match current {
            Current::Opening => false,
            Current::Batch(id) => self
                .batches
                .get(id)
                .is_some_and(|batch| batch.in_flight == 0 && batch.taken() > 0),
        };
        self.current
            .iter()
            .filter(|(slot, current)| slot.source == *source && is_idle(current))
            .map(|(slot, _)| slot.clone())
            .collect()
    }

    /// Takes out the batches that get no further claims and have no attempt under way: seal them with these counts.
    ///
    /// Whoever calls this owns the seal; no other invocation is handed the same batch.
    pub fn take_sealable(&mut self) -> Vec<Sealable> {
        let done = |batch: &OpenBatch| (batch.retired || batch.is_full()) && batch.in_flight == 0;
        let ids: Vec<BatchId> = self
            .batches
            .values()
            .filter(|batch| done(batch))
            .map(|batch| batch.id)
            .collect();
        ids.into_iter()
            .filter_map(|id| self.batches.remove(&id))
            .map(|mut batch| {
                self.known_count -= batch.known.len();
                if matches!(self.current.get(&batch.slot), Some(Current::Batch(id)) if *id == batch.id) {
                    self.current.remove(&batch.slot);
                }
                Sealable { counts: batch.counts(), id: batch.id, slot: batch.slot }
            })
            .collect()
    }

    /// The counts of a batch as of now; `None` when it was taken for sealing.
    pub fn counts(&mut self, batch: BatchId) -> Option<BatchCounts> {
        self.batches.get_mut(&batch).map(OpenBatch::counts)
    }
}

/// A batch to be sealed, with its final counts.
#[derive(Debug, PartialEq)]
pub struct Sealable {
    /// The batch.
    pub id: BatchId,
    /// Whose batch it was.
    pub slot: Slot,
    /// The final counts.
    pub counts: BatchCounts,
}

#[cfg(test)]
#[path = "allocator_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "allocator_props.rs"]
mod props;
