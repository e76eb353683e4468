//! What may be written to a batch's record, and when.

use super::lease::{LeaseVerdict, OperatorWord, may_lease};
use super::record::{BatchRecord, Lease, PartRecord, PartState, Status};
use crate::ids::LeaseOwner;
use crate::limits::{BATCH_RECORD_RETENTION, DUE_GRACE};
use crate::planted::{Bug, planted};
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// The aggregator's word on what it wrote, as absolute values so that repeating it changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchCounts {
    /// Claims written, among the settled seqs.
    pub confirmed: u64,
    /// Seats whose claim may have been written.
    pub uncertain: u64,
    /// Seats whose outcome is known.
    pub settled: SeqSet,
    /// 1 for the first counts that are written for a batch, then ascending.
    pub version: u64,
}

/// A change of a batch record, with what must hold for it to apply.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchWrite {
    /// Counts, whatever the status. Needs: not complete; counts of this or a later version are not there.
    Count(BatchCounts),
    /// Counts and the seal. Needs: open; counts of this or a later version are not there.
    Seal {
        /// The final counts.
        counts: BatchCounts,
        /// Now.
        at: Timestamp,
    },
    /// Seats seen live by a redelivery. Needs: not complete; no witness since the record was read.
    Witness {
        /// All that are witnessed then: those that were, and the new ones.
        witnessed: SeqSet,
        /// `witnesses` as read.
        witnesses: u64,
    },
    /// Takes the lease. Needs: [`may_lease`].
    Lease {
        /// The new lease.
        lease: Lease,
        /// Now.
        at: Timestamp,
        /// What an operator said, without whom a batch in error is not taken.
        operator: Option<OperatorWord>,
    },
    /// Freezes the next part. Needs: the lease; exactly `index` parts so far.
    Freeze {
        /// Who holds the lease.
        owner: LeaseOwner,
        /// Number of the part.
        index: usize,
        /// The part.
        part: PartRecord,
    },
    /// Lets a frozen part go to another sink than it was frozen for. Needs: the lease; the part frozen.
    AcceptSink {
        /// Who holds the lease.
        owner: LeaseOwner,
        /// Number of the part.
        index: usize,
        /// What the sink says of itself.
        sink: String,
    },
    /// Marks a part as delivered. Needs: the lease; the part frozen.
    Delivered {
        /// Who holds the lease.
        owner: LeaseOwner,
        /// Number of the part.
        index: usize,
        /// What the sink answered.
        receipt: String,
        /// [`BatchRecord::delivered_with`] this part.
        delivered: Option<SeqSet>,
    },
    /// Events are in the quarantine. Needs: the lease; nothing set aside since the record was read; the part frozen, if
    /// there is one.
    SetAside {
        /// Who holds the lease.
        owner: LeaseOwner,
        /// The frozen part that they are, which has ended then.
        part: Option<usize>,
        /// All that is set aside then.
        set_aside: SeqSet,
        /// `set_asides` as read.
        set_asides: u64,
    },
    /// A further ticket was sent, so that the batch is not due for now. Needs: not complete; due when it was when the
    /// record was read.
    Reminded {
        /// `due_at` as read.
        was_due_at: Timestamp,
        /// When the next one should follow.
        due_at: Timestamp,
    },
    /// Gives the lease up before its end. Needs: the lease.
    GiveUp {
        /// Who holds the lease.
        owner: LeaseOwner,
        /// When the sweep should care.
        due_at: Timestamp,
        /// Look once more at this time, where a look found nothing though the count is not proven.
        verify_at: Option<Timestamp>,
    },
    /// The sink refused a part for good. Needs: the lease.
    Fail {
        /// Who holds the lease.
        owner: LeaseOwner,
        /// Why.
        error: String,
    },
    /// The end. Needs: the lease; no counts, no witness and no part since the record was read. The lease alone does
    /// not say so: it may be in force again by a late repetition of itself, after others have worked on the batch.
    Complete {
        /// Who holds the lease.
        owner: LeaseOwner,
        /// `counts_version` as read.
        counts_version: u64,
        /// `witnesses` as read.
        witnesses: u64,
        /// Parts as read, all of them delivered.
        parts: usize,
        /// Now.
        at: Timestamp,
    },
}

/// Why a batch is being set aside that says nothing of its own.
pub const NO_ERROR: &str = "an operator set the batch aside";

/// What `write` makes of `record`; `None` when its condition does not hold.
pub fn apply(record: &BatchRecord, write: &BatchWrite) -> Option<BatchRecord> {
    let mut next = record.clone();
    match write {
        BatchWrite::Count(counts) => {
            next.status?;
            next.take_counts(counts)?;
        }
        BatchWrite::Seal { counts, at } => next.seal(counts, *at)?,
        BatchWrite::Witness {
            witnessed,
            witnesses,
        } => next.witness(witnessed, *witnesses)?,
        BatchWrite::Lease {
            lease,
            at,
            operator,
        } => next.take_lease(lease, *at, *operator)?,
        BatchWrite::Freeze { owner, index, part } => next.freeze(owner, *index, part)?,
        BatchWrite::AcceptSink { owner, index, sink } => {
            next.accept_sink(owner, *index, sink)?;
        }
        BatchWrite::Delivered {
            owner,
            index,
            receipt,
            delivered,
        } => {
            next.deliver(owner, *index, receipt, delivered.as_ref())?;
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
        BatchWrite::Reminded { was_due_at, due_at } => {
            next.remind(*was_due_at, *due_at)?;
        }
        BatchWrite::GiveUp {
            owner,
            due_at,
            verify_at,
        } => {
            next.give_up(owner, *due_at, *verify_at)?;
        }
        BatchWrite::Fail { owner, error } => next.fail(owner, error)?,
        BatchWrite::Complete {
            owner,
            counts_version,
            witnesses,
            parts,
            at,
        } => {
            next.leased_by(owner).then_some(())?;
            next.complete((*counts_version, *witnesses, *parts), *at)?;
        }
    }
    Some(next)
}

/// What each write does; `None` when its condition does not hold, and then the record is of no more use.
impl BatchRecord {
    fn take_counts(&mut self, counts: &BatchCounts) -> Option<()> {
        (self.counts_version < counts.version).then_some(())?;
        self.confirmed = counts.confirmed;
        self.uncertain = counts.uncertain;
        self.settled = counts.settled.clone();
        self.counts_version = counts.version;
        Some(())
    }

    fn seal(&mut self, counts: &BatchCounts, at: Timestamp) -> Option<()> {
        (self.status == Some(Status::Open)).then_some(())?;
        self.take_counts(counts)?;
        // Its window's ticket is still to come, so it is due when it was.
        self.status = Some(Status::Sealed);
        self.sealed_at = Some(at);
        Some(())
    }

    fn witness(&mut self, witnessed: &SeqSet, witnesses: u64) -> Option<()> {
        self.status?;
        let unchanged = self.witnesses == witnesses;
        (unchanged || planted(Bug::WitnessOverwrites)).then_some(())?;
        self.witnessed = witnessed.clone();
        self.witnesses += 1;
        Some(())
    }

    fn take_lease(
        &mut self,
        lease: &Lease,
        at: Timestamp,
        operator: Option<OperatorWord>,
    ) -> Option<()> {
        (may_lease(self, at, operator) == LeaseVerdict::Free).then_some(())?;
        self.status = Some(Status::Processing);
        self.lease = Some(lease.clone());
        self.due_at = lease.until + DUE_GRACE;
        self.attempts += 1;
        let error = self.error.take();
        if planted(Bug::SetAsideForgotten) && operator != Some(OperatorWord::Quarantine) {
            self.quarantine = None;
        }
        if operator == Some(OperatorWord::Quarantine) {
            self.quarantine = Some(error.unwrap_or_else(|| NO_ERROR.to_owned()));
        }
        Some(())
    }

    fn freeze(&mut self, owner: &LeaseOwner, index: usize, part: &PartRecord) -> Option<()> {
        if planted(Bug::PartRefrozen) {
            self.parts.truncate(index);
        }
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
        delivered: Option<&SeqSet>,
    ) -> Option<()> {
        (self.leased_by(owner) && self.is_frozen(index)).then_some(())?;
        let part = &mut self.parts[index];
        part.sink = None;
        part.state = PartState::Delivered {
            receipt: receipt.to_owned(),
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
        (self.set_asides == set_asides).then_some(())?;
        if let Some(index) = part {
            self.is_frozen(index).then_some(())?;
            let part = &mut self.parts[index];
            part.sink = None;
            part.members = SeqSet::new();
            part.state = PartState::SetAside;
        }
        self.set_aside = set_aside.clone();
        self.set_asides += 1;
        self.verify_at = None;
        Some(())
    }

    fn accept_sink(&mut self, owner: &LeaseOwner, index: usize, sink: &str) -> Option<()> {
        (self.leased_by(owner) && self.is_frozen(index)).then_some(())?;
        self.parts[index].sink = Some(sink.to_owned());
        Some(())
    }

    fn remind(&mut self, was_due_at: Timestamp, due_at: Timestamp) -> Option<()> {
        self.status?;
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

    fn fail(&mut self, owner: &LeaseOwner, error: &str) -> Option<()> {
        self.leased_by(owner).then_some(())?;
        self.status = Some(Status::Error);
        self.lease = None;
        self.error = Some(error.to_owned());
        Some(())
    }

    /// `seen` are the version of the counts, and the numbers of witnesses and parts, that whoever completes has read.
    fn complete(&mut self, seen: (u64, u64, usize), at: Timestamp) -> Option<()> {
        let (counts_version, witnesses, parts) = seen;
        let unchanged = self.counts_version == counts_version && self.witnesses == witnesses;
        (self.parts.len() == parts).then_some(())?;
        (unchanged || planted(Bug::CompletionUnconditional)).then_some(())?;
        self.status = None;
        self.lease = None;
        self.completed_at = Some(at);
        self.expires_at = Some(at + BATCH_RECORD_RETENTION);
        Some(())
    }
}

/// Whether a record that refused `write` shows that an earlier attempt of it, or a later word of the same writer,
/// did apply: how a lost reply is recognised.
pub fn already_applied(record: &BatchRecord, write: &BatchWrite) -> bool {
    match write {
        BatchWrite::Count(counts) => record.counts_version >= counts.version,
        BatchWrite::Seal { counts, .. } => {
            record.counts_version >= counts.version && record.sealed_at.is_some()
        }
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
        // Somebody else has done it, or something happened: either will do.
        BatchWrite::Reminded { .. } => true,
        BatchWrite::GiveUp { owner, .. } => !record.leased_by(owner),
        BatchWrite::Fail { error, .. } => {
            record.status == Some(Status::Error) && record.error.as_ref() == Some(error)
        }
        BatchWrite::Complete { .. } => record.completed_at.is_some(),
    }
}
