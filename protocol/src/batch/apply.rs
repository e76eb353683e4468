//! The effect of each write of a batch record.

use super::lease::{LeaseDecision, OperatorDecision, may_lease};
use super::note::OperatorNote;
use super::notice::Notice;
use super::part::{PartRecord, PartState};
use super::record::{BatchRecord, Lease, Status};
use super::reservations::Resolution;
use super::write::{BatchWrite, NO_ERROR};
use crate::chain::Link;
use crate::limits::DUE_GRACE;
use crate::planted::planted;
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// Returns `record` after `write`; `None` when the condition does not hold.
pub fn apply(record: &BatchRecord, write: &BatchWrite) -> Option<BatchRecord> {
    has_lease(record, write).then_some(())?;
    let mut next = record.clone();
    match write {
        BatchWrite::Reserve(wanted) => next.reserve(wanted)?,
        BatchWrite::Seal {
            at,
            due_at,
            idle_since,
        } => next.seal(*at, *due_at, *idle_since)?,
        BatchWrite::Count {
            counts,
            uncertain,
            witnesses,
            ..
        } => next.count(counts, *uncertain, *witnesses)?,
        BatchWrite::Resolve {
            winners,
            resolution,
            ..
        } => next.resolve(winners, resolution)?,
        BatchWrite::Reported { .. } => next.report()?,
        BatchWrite::Witness {
            witnessed,
            witnesses,
        } => next.witness(witnessed, *witnesses)?,
        BatchWrite::Lease {
            lease,
            at,
            operator,
        } => next.take_lease(lease, *at, *operator)?,
        BatchWrite::Freeze { index, part, .. } => next.freeze(*index, part)?,
        BatchWrite::AcceptSink { index, sink, .. } => next.accept_sink(*index, sink)?,
        BatchWrite::Number {
            index,
            number,
            link,
            ..
        } => next.number(*index, *number, *link)?,
        BatchWrite::Delivered {
            index,
            receipt,
            at,
            rejects,
            delivered,
            ..
        } => {
            next.deliver(*index, receipt, *at, delivered.as_ref())?;
            if let Some(rejects) = rejects {
                next.parts[*index].rejected = rejects.count;
                next.add_set_aside(&rejects.set_aside, rejects.set_asides)?;
            }
            next.turn_at = None;
            next.last_failure = None;
        }
        BatchWrite::SetAside {
            part,
            set_aside,
            set_asides,
            ..
        } => next.put_aside(*part, set_aside, *set_asides)?,
        BatchWrite::TicketResent { was_due_at, due_at } => {
            next.ticket_resent(*was_due_at, *due_at)?;
        }
        BatchWrite::GiveUp { due, failure, .. } => {
            next.lease = None;
            next.due_at = due.at;
            next.verify_at = due.verify_at.or(next.verify_at);
            next.turn_at = due.turn_at;
            next.last_failure = failure.clone().or(next.last_failure.take());
        }
        BatchWrite::Fail { error, notice, .. } => {
            next.status = Some(Status::Error);
            next.lease = None;
            next.error = Some(error.clone());
            next.add_notice(notice.as_ref());
        }
        BatchWrite::Complete {
            counts_version,
            witnesses,
            parts,
            at,
            expires_at,
            notice,
            ..
        } => {
            next.complete((*counts_version, *witnesses, *parts), *at, *expires_at)?;
            if notice.is_none() {
                next.notices.clear();
            }
            next.add_notice(notice.as_ref());
        }
        BatchWrite::NoticesSent {
            status,
            count,
            last,
            due_at,
        } => next.notices_sent((*status, *count, *last), *due_at)?,
        BatchWrite::Answered {
            set_aside,
            set_asides,
        } => {
            next.status.is_none().then_some(())?;
            next.add_set_aside(set_aside, *set_asides)?;
        }
        BatchWrite::Note {
            status,
            attempts,
            notes_count,
            notes,
        } => next.note((*status, *attempts, *notes_count), notes)?,
    }
    Some(next)
}

/// Returns whether the writer has the lease, if the write needs it.
fn has_lease(record: &BatchRecord, write: &BatchWrite) -> bool {
    write.owner().is_none_or(|owner| record.leased_by(owner))
}

/// Each function applies one write. It returns `None` when the condition does not hold; the record may be changed in
/// part then and must be dropped.
impl BatchRecord {
    fn witness(&mut self, witnessed: &SeqSet, witnesses: u64) -> Option<()> {
        self.status?;
        let unchanged = self.witnesses == witnesses;
        (unchanged || planted("witness-overwrites")).then_some(())?;
        self.witnessed = witnessed.clone();
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

    fn freeze(&mut self, index: usize, part: &PartRecord) -> Option<()> {
        (self.parts.len() == index).then_some(())?;
        self.parts.push(part.clone());
        self.verify_at = None;
        Some(())
    }

    fn deliver(
        &mut self,
        index: usize,
        receipt: &str,
        at: Timestamp,
        delivered: Option<&SeqSet>,
    ) -> Option<()> {
        let part = self.frozen_mut(index)?;
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
            let part = self.frozen_mut(index)?;
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

    fn accept_sink(&mut self, index: usize, sink: &str) -> Option<()> {
        self.frozen_mut(index)?.sink = Some(sink.to_owned());
        Some(())
    }

    fn number(&mut self, index: usize, number: u64, link: Option<Link>) -> Option<()> {
        let part = self.frozen_mut(index)?;
        part.file_number.is_none().then_some(())?;
        part.file_number = Some(number);
        part.link = link;
        Some(())
    }

    fn ticket_resent(&mut self, was_due_at: Timestamp, due_at: Timestamp) -> Option<()> {
        self.listing()?;
        (self.due_at == was_due_at).then_some(())?;
        self.due_at = due_at;
        Some(())
    }

    fn add_notice(&mut self, notice: Option<&Notice>) {
        if let Some(notice) = notice {
            self.due_at = notice.due_at();
            self.notices.push(notice.clone());
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
    let is_leased = has_lease(record, write);
    let frozen = |index: &usize| record.frozen_at(*index).filter(|_| is_leased);
    match write {
        // A slot that nobody fills does no harm, and only the reply says which slot it is.
        BatchWrite::Reserve(_) => false,
        // The writer that sealed the batch sends the ticket.
        BatchWrite::Seal { at, .. } => record.sealed_at == Some(*at),
        BatchWrite::Count { counts, .. } => {
            is_leased
                && record.has_final_counts()
                && record.settled == counts.settled
                && counts.witnessed.is_subset(&record.witnessed)
        }
        BatchWrite::Resolve {
            winners,
            resolution,
            ..
        } => {
            let decided = record
                .reservations
                .as_ref()
                .and_then(|one| one.resolution.as_ref());
            let is_same = |decided: &Resolution| {
                decided.duplicates == resolution.duplicates
                    && decided.conflicts == resolution.conflicts
                    && decided.beyond_quota == resolution.beyond_quota
            };
            is_leased && record.claimed == *winners && decided.is_some_and(is_same)
        }
        BatchWrite::Reported { .. } => is_leased && record.is_reported(),
        BatchWrite::Witness { witnessed, .. } => witnessed.is_subset(&record.witnessed),
        BatchWrite::Lease { lease, .. } => record.lease.as_ref() == Some(lease),
        BatchWrite::Freeze { index, part, .. } => {
            let is_same = |is: &PartRecord| is.members == part.members && is.hash == part.hash;
            frozen(index).is_some_and(is_same)
        }
        BatchWrite::AcceptSink { index, sink, .. } => {
            frozen(index).is_some_and(|part| part.sink.as_ref() == Some(sink))
        }
        BatchWrite::Number {
            index,
            number,
            link,
            ..
        } => frozen(index)
            .is_some_and(|part| part.file_number == Some(*number) && part.link == *link),
        BatchWrite::Delivered { index, .. } => {
            let part = record.parts.get(*index);
            is_leased && part.is_some_and(|part| matches!(part.state, PartState::Delivered { .. }))
        }
        BatchWrite::SetAside { set_aside, .. } => {
            is_leased && set_aside.is_subset(&record.set_aside)
        }
        // Another sweep sent a ticket, or the batch made progress; in both cases no ticket is needed.
        BatchWrite::TicketResent { .. } => true,
        BatchWrite::GiveUp { .. } => !is_leased,
        BatchWrite::Fail { error, .. } => {
            record.status == Some(Status::Error) && record.error.as_ref() == Some(error)
        }
        BatchWrite::Complete { .. } => record.completed_at.is_some(),
        BatchWrite::NoticesSent { last, .. } => {
            record.notices.iter().all(|notice| notice.number > *last)
        }
        BatchWrite::Answered { set_aside, .. } => set_aside.is_subset(&record.set_aside),
        BatchWrite::Note { notes, .. } => {
            notes.last().is_some_and(|note| record.notes.contains(note))
        }
    }
}
