//! The current batches of one environment: gives out their seats, and decides when a batch is full.
//!
//! A batch enters the allocator only as an [`Opened`], which exists only after the record *and* the ticket of the batch
//! were acknowledged, and only the allocator gives out seats. So every claim names a batch that has a record and a
//! ticket.
//!
//! With `CLOSE_AT`, a batch may take claims for longer than SQS delays a ticket. It has no ticket until the sweep sends one, shortly
//! before its window ends.
//!
//! Seats are not claims: when an attempt meets a duplicate, its place in the batch is free again, so that a full batch
//! holds exactly as many events as it may. Seqs are never reused.
//!
//! The allocator remembers claims of open batches, so that their duplicates and redeliveries cost no write. DynamoDB
//! charges a conditional write that fails like one that succeeds.
//!
//! All invocations of an environment share the allocator (several at once with `AWS_LAMBDA_MAX_CONCURRENCY`). An
//! invocation that dies ends the whole environment, so the allocator needs no clean-up after single invocations.

use std::collections::BTreeMap;

use crate::batch::BatchCounts;
use crate::claim::{Candidate, ExistingClaim};
use crate::ids::{BatchId, Seat, SourceArn};
use crate::invariants;
use crate::planted::planted;
use crate::time::Timestamp;

pub mod open_batch;
mod opening;

pub use open_batch::{BatchLimits, FlushReason, OpenBatch};
use open_batch::{Digest, Known};
pub use opening::{BatchScope, Opened, Opening, Recorded};

/// How the claim attempt of a seat ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatEnd {
    /// The claim is in the table.
    Claimed,
    /// The claim is not in the table and never will be.
    Free,
    /// The claim may be in the table, or may still arrive there.
    Uncertain,
}

/// The result of a request for seats.
#[derive(Debug)]
pub enum Seating {
    /// Seats for the first bodies of the request; at least one.
    Seats(Vec<Seat>),
    /// There is no batch: open this one, then request seats again.
    Open(Opening),
    /// Another caller opens a batch, or attempts in flight hold its last places: request seats again after a change.
    Wait,
    /// The maximum number of batches with a key or a period is open.
    TooManyKeys {
        /// `BATCH_KEYS_MAX`.
        keys_max: usize,
    },
}

/// The current batch of a scope.
#[derive(Debug)]
enum Current {
    Opening,
    Batch(BatchId),
}

#[derive(Debug)]
pub struct Allocator {
    limits: BatchLimits,
    current: BTreeMap<BatchScope, Current>,
    batches: BTreeMap<BatchId, OpenBatch>,
    known_count: usize,
}

impl Allocator {
    pub fn new(limits: BatchLimits) -> Allocator {
        Allocator {
            limits,
            current: BTreeMap::new(),
            batches: BTreeMap::new(),
            known_count: 0,
        }
    }

    /// Returns seats for the first bodies of `sizes` (in bytes) that fit the current batch of `scope`.
    ///
    /// An invocation gets seats only of a batch whose window ends after `deadline`, so that it makes all its writes
    /// before a processor may take the batch.
    pub fn seat(&mut self, scope: &BatchScope, sizes: &[u64], deadline: Timestamp) -> Seating {
        match self.current.get(scope) {
            Some(Current::Opening) => Seating::Wait,
            None => self.start_opening(scope),
            Some(Current::Batch(id)) => {
                let id = *id;
                let batch = self
                    .batches
                    .get_mut(&id)
                    .expect("a current batch is in the table of batches");
                let mut reason = FlushReason::Window;
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
                    // It is not full and nothing is in flight, so the first body is too large for it.
                    reason = FlushReason::Bytes;
                }
                batch.retired = Some(reason);
                self.current.remove(scope);
                self.start_opening(scope)
            }
        }
    }

    fn start_opening(&mut self, scope: &BatchScope) -> Seating {
        if scope.is_one_of_many() && self.keyed() >= self.limits.keys_max {
            return Seating::TooManyKeys {
                keys_max: self.limits.keys_max,
            };
        }
        self.current.insert(scope.clone(), Current::Opening);
        Seating::Open(Opening {
            scope: scope.clone(),
        })
    }

    fn keyed(&self) -> usize {
        self.current
            .keys()
            .filter(|scope| scope.is_one_of_many())
            .count()
    }

    /// Adds a batch, which gives out seats from now on.
    pub fn opened(&mut self, opened: Opened) {
        self.current
            .insert(opened.scope.clone(), Current::Batch(opened.id));
        self.batches
            .insert(opened.id, OpenBatch::new(opened, self.limits));
    }

    /// Ends an opening that failed; the next caller of [`seat`](Self::seat) may try again.
    pub fn opening_failed(&mut self, scope: &BatchScope) {
        if matches!(self.current.get(scope), Some(Current::Opening)) {
            self.current.remove(scope);
        }
    }

    /// Records how the attempt of `seat`, whose body has `bytes`, ended.
    pub fn finish(&mut self, seat: Seat, bytes: u64, end: SeatEnd) {
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
                batch.settled.insert(seat.seq);
            }
            SeatEnd::Uncertain => {
                batch.uncertain += 1;
                batch.confirmed_bytes += bytes;
            }
        }
        debug_assert_eq!(invariants::every_seat_is_accounted_for(batch), Ok(()));
    }

    /// Remembers that `seat`, which was settled as [`SeatEnd::Claimed`], holds the event of `candidate`.
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

    /// Returns how `candidate` relates to a remembered claim of the scope's batch, if an invocation with this deadline
    /// may rely on that claim; `None` if only the lock table can tell.
    ///
    /// The claim is in the table and counted in its batch's record, and both stay so until the window ends. A batch
    /// cannot complete without its counted claims, so the caller need not read the record or write a witness.
    pub fn known(
        &self,
        scope: &BatchScope,
        candidate: &Candidate,
        deadline: Timestamp,
    ) -> Option<ExistingClaim> {
        let Some(Current::Batch(id)) = self.current.get(scope) else {
            return None;
        };
        let batch = self.batches.get(id)?;
        if batch.known.is_empty() || deadline >= batch.closes_at {
            return None;
        }
        let event = Digest::of(candidate.event_id.as_str().as_bytes());
        let known = batch.known.get(&event)?;
        if known.counted_from > batch.counted && !planted("known-uncounted") {
            return None;
        }
        if known.message == Digest::of(candidate.sqs_message_id.as_str().as_bytes()) {
            Some(ExistingClaim::Redelivered)
        } else if known.body == candidate.body_hash {
            Some(ExistingClaim::Duplicate)
        } else {
            // The item in the table decides about a conflict, and about later messages of the same event.
            None
        }
    }

    /// Notes that the counts of this version are in the batch's record.
    pub fn counted(&mut self, batch: BatchId, version: u64) {
        if let Some(batch) = self.batches.get_mut(&batch) {
            batch.counted = batch.counted.max(version);
        }
    }

    /// Retires every batch that no invocation with this or a later deadline can use.
    pub fn retire_past(&mut self, deadline: Timestamp) {
        self.retire_those(FlushReason::Window, |batch| deadline >= batch.closes_at);
    }

    /// Notes that the environment claimed into a batch at `now`.
    pub fn used(&mut self, batch: BatchId, now: Timestamp) {
        if let Some(batch) = self.batches.get_mut(&batch) {
            batch.used_at = batch.used_at.max(now);
        }
    }

    /// Retires every batch that has claims, has no attempt in flight, and was last claimed into before `since`. Returns whether there was
    /// one.
    pub fn retire_unused(&mut self, since: Timestamp) -> bool {
        self.retire_those(FlushReason::Idle, |batch| {
            // One that was never used has its first claims at this moment.
            let was_used = batch.used_at != Timestamp::EPOCH;
            was_used && batch.used_at < since && batch.in_flight == 0
        })
    }

    /// Retires the current batches for which `is_over` holds. Returns whether there was one.
    fn retire_those(&mut self, reason: FlushReason, is_over: impl Fn(&OpenBatch) -> bool) -> bool {
        let batches = &mut self.batches;
        let before = self.current.len();
        self.current.retain(|_, current| match current {
            Current::Opening => true,
            Current::Batch(id) => match batches.get_mut(id) {
                Some(batch) if is_over(batch) => {
                    batch.retired = Some(reason);
                    false
                }
                Some(_) | None => true,
            },
        });
        self.current.len() < before
    }

    /// Retires the current batch of a scope, although it has places.
    pub fn retire(&mut self, scope: &BatchScope, reason: FlushReason) {
        if let Some(Current::Batch(id)) = self.current.get(scope) {
            if let Some(batch) = self.batches.get_mut(id) {
                batch.retired = Some(reason);
            }
            self.current.remove(scope);
        }
    }

    /// Returns the current batch of a scope.
    pub fn current(&self, scope: &BatchScope) -> Option<BatchId> {
        match self.current.get(scope)? {
            Current::Batch(id) => Some(*id),
            Current::Opening => None,
        }
    }

    /// Retires a batch if it is the current one of its scope. Returns whether it was.
    pub fn retire_batch(
        &mut self,
        scope: &BatchScope,
        batch: BatchId,
        reason: FlushReason,
    ) -> bool {
        let is_current = self.current(scope) == Some(batch);
        if is_current {
            self.retire(scope, reason);
        }
        is_current
    }

    /// Returns the scopes of a source whose batch has claims and no attempt in flight, and whose period, if any, is over.
    pub fn idle(&self, source: &SourceArn, now: Timestamp) -> Vec<BatchScope> {
        let is_over = |scope: &BatchScope| scope.period.is_none_or(|period| period.ends <= now);
        let is_idle = |current: &Current| match current {
            Current::Opening => false,
            Current::Batch(id) => self
                .batches
                .get(id)
                .is_some_and(|batch| batch.in_flight == 0 && batch.taken() > 0),
        };
        self.current
            .iter()
            .filter(|(scope, current)| {
                scope.source == *source && is_over(scope) && is_idle(current)
            })
            .map(|(scope, _)| scope.clone())
            .collect()
    }

    /// Removes and returns the batches that get no further claims and have no attempt in flight. The caller must seal
    /// them.
    ///
    /// No other invocation gets the same batch.
    pub fn take_sealable(&mut self) -> Vec<Sealable> {
        let done = |batch: &OpenBatch| {
            (batch.retired.is_some() || batch.is_full()) && batch.in_flight == 0
        };
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
                if matches!(self.current.get(&batch.scope), Some(Current::Batch(id)) if *id == batch.id) {
                    self.current.remove(&batch.scope);
                }
                Sealable {
                    reason: batch.flush_reason(),
                    counts: batch.counts(),
                    id: batch.id,
                    closes_at: batch.closes_at,
                    scope: batch.scope,
                }
            })
            .collect()
    }

    /// Returns the present counts of a batch with a new version; `None` if [`take_sealable`](Self::take_sealable)
    /// removed it.
    pub fn counts(&mut self, batch: BatchId) -> Option<BatchCounts> {
        self.batches.get_mut(&batch).map(OpenBatch::counts)
    }
}

/// A batch that its receiver must seal, with its final counts.
#[derive(Debug, PartialEq)]
pub struct Sealable {
    pub id: BatchId,
    pub scope: BatchScope,
    pub closes_at: Timestamp,
    pub counts: BatchCounts,
    pub reason: FlushReason,
}

#[cfg(test)]
#[path = "allocator_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "allocator_props.rs"]
mod props;
