//! The writes of a record of a batch of the log, and what the record says of it.

use super::log_state::{LogResolution, Reservation, Reserved};
use super::record::{BatchRecord, Status};
use crate::ids::Seq;
use crate::seqs::SeqSet;
use crate::time::Timestamp;

impl BatchRecord {
    /// Returns whether the lines of the batch are decided; always, if it is not a batch of the log.
    pub fn is_resolved(&self) -> bool {
        let log = self.log.as_ref();
        log.is_none_or(|log| log.resolution.is_some())
    }

    /// Returns whether the decisions are reported too; always, if it is not a batch of the log.
    pub fn is_reported(&self) -> bool {
        let resolution = self.log.as_ref().map(|log| &log.resolution);
        resolution.is_none_or(|one| one.as_ref().is_some_and(|one| one.is_reported))
    }

    /// Returns what the last reservation got, from the record as its write returned it.
    pub fn reserved(&self, lines: u64) -> Option<Reserved> {
        let log = self.log.as_ref()?;
        Some(Reserved {
            slot: log.slots.checked_sub(1)?,
            first_seq: log.reserved.checked_sub(lines)? as Seq,
        })
    }

    pub(super) fn reserve(&mut self, wanted: &Reservation) -> Option<()> {
        (self.status == Some(Status::Open)).then_some(())?;
        let log = self.log.as_mut()?;
        log.has_room(wanted).then_some(())?;
        log.reserved += wanted.lines;
        log.reserved_bytes += wanted.bytes;
        log.slots += 1;
        log.last_at = wanted.at;
        Some(())
    }

    /// Seals the batch; with `idle_since`, only if nothing was reserved after that time.
    pub(super) fn seal_log(
        &mut self,
        at: Timestamp,
        due_at: Option<Timestamp>,
        idle_since: Option<Timestamp>,
    ) -> Option<()> {
        let last_at = self.log.as_ref()?.last_at;
        let is_idle = idle_since.is_none_or(|since| last_at <= since);
        is_idle.then_some(())?;
        self.seal_at(at, due_at)
    }

    pub(super) fn resolve(&mut self, winners: &SeqSet, resolution: &LogResolution) -> Option<()> {
        let log = self.log.as_mut()?;
        log.resolution.is_none().then_some(())?;
        log.resolution = Some(resolution.clone());
        self.claimed = winners.clone();
        self.confirmed = winners.len();
        Some(())
    }

    pub(super) fn report(&mut self) -> Option<()> {
        let resolution = self.log.as_mut()?.resolution.as_mut()?;
        resolution.is_reported = true;
        Some(())
    }
}
