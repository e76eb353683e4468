//! The writes of a record about its reservations, and what the record says of them.

use super::record::{BatchRecord, Status};
use super::reservations::{Reservation, Reserved, Resolution};
use crate::ids::Seq;
use crate::seqs::SeqSet;
use crate::slot::ClaimCounts;
use crate::time::Timestamp;

impl BatchRecord {
    /// Returns whether the slots of the batch are read and its lines decided; always, if it has no slots.
    pub fn is_resolved(&self) -> bool {
        let reservations = self.reservations.as_ref();
        reservations.is_none_or(|one| one.resolution.is_some())
    }

    /// Returns whether the lines of the log that did not win are reported too; always, if the batch has no slots.
    pub fn is_reported(&self) -> bool {
        let resolution = self.reservations.as_ref().map(|one| &one.resolution);
        resolution.is_none_or(|one| one.as_ref().is_some_and(|one| one.is_reported))
    }

    /// Returns whether the counts of claims never change again.
    pub fn has_final_counts(&self) -> bool {
        match &self.reservations {
            Some(reservations) => reservations.resolution.is_some(),
            None => self.sealed_at.is_some(),
        }
    }

    /// Returns what the last reservation got, from the record as its write returned it.
    pub fn reserved(&self, seats: u64) -> Option<Reserved> {
        let reservations = self.reservations.as_ref()?;
        Some(Reserved {
            slot: reservations.slots.checked_sub(1)?,
            first_seq: reservations.reserved.checked_sub(seats)? as Seq,
        })
    }

    /// Returns the number of seats of which the slots say nothing, if they say this of the others.
    pub fn uncertain_beside(&self, counts: &ClaimCounts) -> u64 {
        let reserved = self.reservations.as_ref().map_or(0, |one| one.reserved);
        reserved.saturating_sub(counts.settled.len())
    }

    pub(super) fn reserve(&mut self, wanted: &Reservation) -> Option<()> {
        (self.status == Some(Status::Open)).then_some(())?;
        let reservations = self.reservations.as_mut()?;
        reservations.has_room(wanted).then_some(())?;
        reservations.reserved += wanted.seats;
        reservations.reserved_bytes += wanted.bytes;
        reservations.slots += 1;
        reservations.last_at = wanted.at;
        reservations.busy_until = wanted.until;
        Some(())
    }

    /// Seals the batch; with `idle_since`, only if nothing was reserved after that time.
    pub(super) fn seal(
        &mut self,
        at: Timestamp,
        due_at: Option<Timestamp>,
        idle_since: Option<Timestamp>,
    ) -> Option<()> {
        (self.status == Some(Status::Open)).then_some(())?;
        let last_at = self.reservations.as_ref()?.last_at;
        let is_idle = idle_since.is_none_or(|since| last_at <= since);
        is_idle.then_some(())?;
        self.due_at = due_at.unwrap_or(self.due_at);
        self.status = Some(Status::Sealed);
        self.sealed_at = Some(at);
        Some(())
    }

    /// Writes what the slots say of the claims. `witnesses` is their number as it was read.
    pub(super) fn count(
        &mut self,
        counts: &ClaimCounts,
        uncertain: u64,
        witnesses: u64,
    ) -> Option<()> {
        (!self.bodies.is_log() && self.witnesses == witnesses).then_some(())?;
        let reservations = self.reservations.as_mut()?;
        reservations.resolution.is_none().then_some(())?;
        reservations.resolution = Some(Resolution {
            is_reported: true,
            ..Resolution::default()
        });
        self.confirmed = counts.confirmed;
        self.uncertain = uncertain;
        self.settled = counts.settled.clone();
        self.witnessed = counts.witnessed.clone();
        self.witnesses += 1;
        Some(())
    }

    pub(super) fn resolve(&mut self, winners: &SeqSet, resolution: &Resolution) -> Option<()> {
        self.bodies.is_log().then_some(())?;
        let reservations = self.reservations.as_mut()?;
        reservations.resolution.is_none().then_some(())?;
        reservations.resolution = Some(resolution.clone());
        self.claimed = winners.clone();
        self.confirmed = winners.len();
        Some(())
    }

    pub(super) fn report(&mut self) -> Option<()> {
        let resolution = self.reservations.as_mut()?.resolution.as_mut()?;
        resolution.is_reported = true;
        Some(())
    }
}
