//! The effect of each write of a batch record.

use super::lease::{LeaseDecision, OperatorDecision, may_lease};
use super::note::OperatorNote;
use super::notice::Notice;
use super::part::{PartRecord, PartState};
use super::record::{BatchRecord, Lease, Status};
use super::write::{BatchCounts, BatchWrite, NO_ERROR};
use crate::ids::LeaseOwner;
use crate::limits::DUE_GRACE;
use crate::planted::planted;
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// Returns `record` after `write`; `None` when the condition does not hold.
pub fn apply(record: &BatchRecord, write: &BatchWrite) -> Option<BatchRecord> {
    let mut next = record.clone();
    match write {
        BatchWrite::Count(counts) => {
            next.status?;
            next.take_counts(counts)?;
        }
        BatchWrite::Seal { counts, at, due_at } => next.seal(counts, *at, *due_at)?,
        BatchWrite::Reserve(wanted) => next.reserve(wanted)?,
        BatchWrite::SealLog {
            at,
            due_at,
            idle_since,
        } => next.seal_log(*at, *due_at, *idle_since)?,
        BatchWrite::Resolve {
            owner,
            winners,
            resolution,
        } => {
            next.leased_by(owner).then_some(())?;
            next.resolve(winners, resolution)?;
        }
        BatchWrite::Reported { owner } => {
            next.leased_by(owner).then_some(())?;
            next.report()?;
        }
        BatchWrite::Witness {
            witnessed,
            chunks,
            witnesses,
        } => next.witness(witnessed, chunks, *witnesses)?,
        BatchWrite::Lease {
            lease,
            at,
            operator,
        } => next.take_lease(lease, *at, *operator)?,
        BatchWrite::Freeze { owner, index, part } => next.freeze(owner, *index, part)?,
        BatchWrite::AcceptSink { owner, index, sink } => {
            next.accept_sink(owner, *index, sink)?;
        }
        BatchWrite::Number {
            owner,
            index,
            number,
        } => next.number(owner, *index, *number)?,
        BatchWrite::Delivered {
            owner,
            index,
            receipt,
            at,
            rejects,
            delivered,
        } => {
            next.deliver(owner, *index, receipt, *at, delivered.as_ref())?;
            if let Some(rejects) = rejects {
                next.parts[*index].rejected = rejects.count;
                next.add_set_aside(&rejects.set_aside, rejects.set_asides)?;
            }
            next.turn_at = None;
            next.last_failure = None;
        }
        BatchWrite::SetAside {
            owner,
            part,
            set_aside,
            set_asides,
        } => {
            next.leased_by(owner).then_some(())?;
            next.put_aside(*part, set_aside, *set_asides)?;
        }
        BatchWrite::TicketResent { was_due_at, due_at } => {
            next.ticket_resent(*was_due_at, *due_at)?;
        }
        BatchWrite::GiveUp {
            owner,
            due_at,
            verify_at,
            turn_at,
            failure,
        } => {
            next.give_up(owner, *due_at, *verify_at)?;
            next.turn_at = *turn_at;
            next.last_failure = failure.clone().or(next.last_failure.take());
        }
        BatchWrite::Fail {
            owner,
            error,
            notice,
        } => next.fail(owner, error, notice.as_ref())?,
        BatchWrite::Complete {
            owner,
            counts_version,
            witnesses,
            parts,
            at,
            expires_at,
            notice,
        } => {
            next.leased_by(owner).then_some(())?;
            next.complete((*counts_version, *witnesses, *parts), *at, *expires_at)?;
            next.finish_notices(notice.as_ref());
        }
        BatchWrite::NoticesSent {
            status,
            count,
            last,
            due_at,
        } => next.notices_sent((*status, *count, *last), *due_at)?,
        BatchWrite::Note {
            status,
            attempts,
            notes_count,
            notes,
        } => next.note((*status, *attempts, *notes_count), notes)?,
    }
    Some(next)
}

/// Each function applies one write. It returns `None` when the condition does not hold; the record may be changed in
/// part then and must be dropped.
impl BatchRecord {
    fn take_counts(&mut self, counts: &BatchCounts) -> Option<()> {
        (self.counts_version < counts.version).then_some(())?;
        self.confirmed = counts.confirmed;
        self.uncertain = counts.uncertain;
        self.settled = counts.settled.clone();
        self.counts_version = counts.version;
        Some(())
    }

    fn seal(
        &mut self,
        counts: &BatchCounts,
        at: Timestamp,
        due_at: Option<Timestamp>,
    ) -> Option<()> {
        (self.status == Some(Status::Open)).then_some(())?;
        self.take_counts(counts)?;
        self.due_at = due_at.unwrap_or(self.due_at);
        self.status = Some(Status::Sealed);
        self.sealed_at = Some(at);
        Some(())
    }

    fn witness(&mut self, witnessed: &SeqSet, chunks: &SeqSet, witnesses: u64) -> Option<()> {
        self.status?;
        let unchanged = self.witnesses == witnesses;
        (unchanged || planted("witness-overwrites")).then_some(())?;
        self.witnessed = witnessed.clone();
        self.witnessed_chunks = chunks.clone();
        self.witnesses += 1;
        Some(())
    }

    fn take_lease(
        &mut self,
        lease: &Lease,
        at: Timestamp,
        operator: Option<OperatorDecision>,
    ) -> Option<()> {
        (may_lease(self, at, operator) == LeaseDecision::Free).then_some(())?;
        self.status = Some(Status::Processing);
        self.lease = Some(lease.clone());
        self.due_at = lease.until + DUE_GRACE;
        self.attempts += 1;
        let error = self.error.take();
        // The first decision keeps its reason: a later error is about setting the batch aside.
        if operator == Some(OperatorDecision::Quarantine) && self.quarantine.is_none() {
            self.quarantine = Some(error.unwrap_or_else(|| NO_ERROR.to_owned()));
        }
        Some(())
    }

    fn freeze(&mut self, owner: &LeaseOwner, index: usize, part: &PartRecord) -> Option<()> {
        (self.leased_by(owner) && self.parts.len() == index).then_some(())?;
        self.parts.push(part.clone());
        self.verify_at = None;
        Some(())
    }

    fn deliver(
        &mut self,
        owner: &LeaseOwner,
        index: usize,
        receipt: &str,
        at: Timestamp,
        delivered: Option<&SeqSet>,
    ) -> Option<()> {
        (self.leased_by(owner) && self.is_frozen(index)).then_some(())?;
        let part = &mut self.parts[index];
        part.sink = None;
        part.state = PartState::Delivered {
            receipt: receipt.to_owned(),
            at: Some(at),
        };
        if let Some(delivered) = delivered {
            part.members = SeqSet::new();
            self.delivered = delivered.clone();
        }
        Some(())
    }

    fn put_aside(
        &mut self,
        part: Option<usize>,
        set_aside: &SeqSet,
        set_asides: u64,
    ) -> Option<()> {
        if let Some(index) = part {
            self.is_frozen(index).then_some(())?;
            let part = &mut self.parts[index];
            part.sink = None;
            part.members = SeqSet::new();
            part.state = PartState::SetAside;
        }
        self.verify_at = None;
        self.add_set_aside(set_aside, set_asides)
    }

    fn add_set_aside(&mut self, set_aside: &SeqSet, set_asides: u64) -> Option<()> {
        (self.set_asides == set_asides).then_some(())?;
        self.set_aside = set_aside.clone();
        self.set_asides += 1;
        Some(())
    }

    fn accept_sink(&mut self, owner: &LeaseOwner, index: usize, sink: &str) -> Option<()> {
        (self.leased_by(owner) && self.is_frozen(index)).then_some(())?;
        self.parts[index].sink = Some(sink.to_owned());
        Some(())
    }

    fn number(&mut self, owner: &LeaseOwner, index: usize, number: u64) -> Option<()> {
        (self.leased_by(owner) && self.is_frozen(index)).then_some(())?;
        let part = &mut self.parts[index];
        part.file_number.is_none().then_some(())?;
        part.file_number = Some(number);
        Some(())
    }

    fn ticket_resent(&mut self, was_due_at: Timestamp, due_at: Timestamp) -> Option<()> {
        self.listing()?;
        (self.due_at == was_due_at).then_some(())?;
        self.due_at = due_at;
        Some(())
    }

    fn give_up(
        &mut self,
        owner: &LeaseOwner,
        due_at: Timestamp,
        verify_at: Option<Timestamp>,
    ) -> Option<()> {
        self.leased_by(owner).then_some(())?;
        self.lease = None;
        self.due_at = due_at;
        self.verify_at = verify_at.or(self.verify_at);
        Some(())
    }

    fn fail(&mut self, owner: &LeaseOwner, error: &str, notice: Option<&Notice>) -> Option<()> {
        self.leased_by(owner).then_some(())?;
        self.status = Some(Status::Error);
        self.lease = None;
        self.error = Some(error.to_owned());
        if let Some(notice) = notice {
            self.due_at = notice.due_at();
            self.notices.push(notice.clone());
        }
        Some(())
    }

    fn finish_notices(&mut self, notice: Option<&Notice>) {
        match notice {
            Some(notice) => {
                self.due_at = notice.due_at();
                self.notices.push(notice.clone());
            }
            None => self.notices.clear(),
        }
    }

    /// `seen` is the status, the number of notices and the number of the last one that were read.
    fn notices_sent(
        &mut self,
        seen: (Option<Status>, usize, u64),
        due_at: Timestamp,
    ) -> Option<()> {
        let last = self.notices.last().map_or(0, |notice| notice.number);
        (seen == (self.status, self.notices.len(), last)).then_some(())?;
        self.notices.clear();
        if self.status == Some(Status::Error) {
            self.due_at = due_at;
        }
        Some(())
    }

    /// `seen` is the status, the number of leases and the number of notes that the operator has read.
    fn note(&mut self, seen: (Option<Status>, u64, u64), notes: &[OperatorNote]) -> Option<()> {
        (seen == (self.status, self.attempts, self.notes_count)).then_some(())?;
        self.notes = notes.to_vec();
        self.notes_count += 1;
        Some(())
    }

    /// `seen` is the version of the counts, the number of witnesses and the number of parts that the processor has
    /// read.
    fn complete(
        &mut self,
        seen: (u64, u64, usize),
        at: Timestamp,
        expires_at: Timestamp,
    ) -> Option<()> {
        let (counts_version, witnesses, parts) = seen;
        let unchanged = self.counts_version == counts_version && self.witnesses == witnesses;
        (self.parts.len() == parts).then_some(())?;
        (unchanged || planted("completion-unconditional")).then_some(())?;
        self.status = None;
        self.lease = None;
        self.completed_at = Some(at);
        self.expires_at = Some(expires_at);
        Some(())
    }
}

/// Returns whether a record that refused `write` shows that an earlier attempt of the same write, or a later write of
/// the same writer, was applied. This recognises a write whose reply was lost.
pub fn already_applied(record: &BatchRecord, write: &BatchWrite) -> bool {
    match write {
        BatchWrite::Count(counts) => record.counts_version >= counts.version,
        BatchWrite::Seal { counts, .. } => {
            record.counts_version >= counts.version && record.sealed_at.is_some()
        }
        // A slot that nobody fills does no harm, and only the reply says which slot it is.
        BatchWrite::Reserve(_) => false,
        // The writer that sealed the batch sends the ticket.
        BatchWrite::SealLog { at, .. } => record.sealed_at == Some(*at),
        BatchWrite::Resolve {
            owner,
            winners,
            resolution,
        } => {
            let decided = record.log.as_ref().and_then(|log| log.resolution.as_ref());
            record.leased_by(owner)
                && record.claimed == *winners
                && decided.is_some_and(|decided| {
                    decided.duplicates == resolution.duplicates
                        && decided.conflicts == resolution.conflicts
                })
        }
        BatchWrite::Reported { owner } => record.leased_by(owner) && record.is_reported(),
        BatchWrite::Witness { witnessed, .. } => witnessed.is_subset(&record.witnessed),
        BatchWrite::Lease { lease, .. } => record.lease.as_ref() == Some(lease),
        BatchWrite::Freeze { owner, index, part } => {
            record.leased_by(owner)
                && record.parts.get(*index).is_some_and(|have| {
                    have.state == PartState::Frozen
                        && have.members == part.members
                        && have.hash == part.hash
                })
        }
        BatchWrite::AcceptSink { owner, index, sink } => {
            record.leased_by(owner)
                && record.is_frozen(*index)
                && record.parts[*index].sink.as_ref() == Some(sink)
        }
        BatchWrite::Number {
            owner,
            index,
            number,
        } => {
            record.leased_by(owner)
                && record.is_frozen(*index)
                && record.parts[*index].file_number == Some(*number)
        }
        BatchWrite::Delivered { owner, index, .. } => {
            record.leased_by(owner)
                && record
                    .parts
                    .get(*index)
                    .is_some_and(|part| matches!(part.state, PartState::Delivered { .. }))
        }
        BatchWrite::SetAside {
            owner, set_aside, ..
        } => record.leased_by(owner) && set_aside.is_subset(&record.set_aside),
        // Another sweep sent a ticket, or the batch made progress; in both cases no ticket is needed.
        BatchWrite::TicketResent { .. } => true,
        BatchWrite::GiveUp { owner, .. } => !record.leased_by(owner),
        BatchWrite::Fail { error, .. } => {
            record.status == Some(Status::Error) && record.error.as_ref() == Some(error)
        }
        BatchWrite::Complete { .. } => record.completed_at.is_some(),
        BatchWrite::NoticesSent { last, .. } => {
            record.notices.iter().all(|notice| notice.number > *last)
        }
        BatchWrite::Note { notes, .. } => {
            notes.last().is_some_and(|note| record.notes.contains(note))
        }
    }
}
