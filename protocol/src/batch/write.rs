//! The writes of a batch record, and their conditions.

use super::lease::OperatorDecision;
use super::note::OperatorNote;
use super::notice::Notice;
use super::part::PartRecord;
use super::record::{Failure, Lease, Status};
use super::rejects::Rejects;
use super::reservations::{Reservation, Resolution};
use crate::chain::Link;
use crate::ids::LeaseOwner;
use crate::seqs::SeqSet;
use crate::slot::ClaimCounts;
use crate::time::Timestamp;

/// A change of a batch record, and its condition ("Needs").
#[derive(Clone, Debug, PartialEq)]
pub enum BatchWrite {
    /// Reserves seats and a slot. Needs: open; room. After a lost reply, it may have been applied; reserved anew,
    /// it only leaves an empty slot.
    Reserve(Reservation),
    /// Seals the batch. Needs: open; with `idle_since`, nothing reserved after that time.
    Seal {
        at: Timestamp,
        /// When the batch is overdue then; `None` if it stays as it is.
        due_at: Option<Timestamp>,
        idle_since: Option<Timestamp>,
    },
    /// Writes what the slots say of the claims. Needs: the lease; not written yet; no witness since the record was read.
    Count {
        owner: LeaseOwner,
        /// With all witnessed seats, earlier and new ones.
        counts: ClaimCounts,
        /// Number of seats of which the slots say nothing.
        uncertain: u64,
        /// `witnesses` as read.
        witnesses: u64,
    },
    /// Writes the decisions about the lines of a batch of the log, which are committed. Needs: the lease; no decisions yet.
    Resolve {
        owner: LeaseOwner,
        winners: SeqSet,
        resolution: Resolution,
    },
    /// Notes that the lines that did not win are reported. Needs: the lease; the decisions.
    Reported { owner: LeaseOwner },
    /// Records witnesses. Needs: not complete; no witness since the record was read.
    Witness {
        /// All witnessed seats, earlier and new ones.
        witnessed: SeqSet,
        /// `witnesses` as read.
        witnesses: u64,
    },
    /// Takes the lease. Needs: [`may_lease`].
    Lease {
        lease: Lease,
        at: Timestamp,
        /// The operator's decision. Without one, a batch in error refuses the lease.
        operator: Option<OperatorDecision>,
    },
    /// Freezes the next part. Needs: the lease; exactly `index` parts so far.
    Freeze {
        owner: LeaseOwner,
        index: usize,
        part: PartRecord,
    },
    /// Changes the sink fingerprint of a frozen part. Needs: the lease; the part frozen.
    AcceptSink {
        owner: LeaseOwner,
        index: usize,
        /// The fingerprint of the present sink.
        sink: String,
    },
    /// Writes the number of a frozen part, with its link if it has one. Needs: the lease; the part frozen and without a number.
    Number {
        owner: LeaseOwner,
        index: usize,
        number: u64,
        link: Option<Link>,
    },
    /// Marks a part as delivered. Needs: the lease; the part frozen; if records were rejected, nothing set aside since the
    /// record was read.
    Delivered {
        owner: LeaseOwner,
        index: usize,
        receipt: String,
        at: Timestamp,
        /// The result of [`BatchRecord::rejects_with`] for this part.
        rejects: Option<Rejects>,
        /// The result of [`BatchRecord::delivered_with`] for this part.
        delivered: Option<SeqSet>,
    },
    /// Notes that events are in the quarantine. Needs: the lease; nothing set aside since the record was read; the part
    /// frozen, if `part` is given.
    SetAside {
        owner: LeaseOwner,
        /// The frozen part, if its events are the ones that were set aside.
        part: Option<usize>,
        /// All seats that are set aside, earlier and new ones.
        set_aside: SeqSet,
        /// `set_asides` as read.
        set_asides: u64,
    },
    /// Moves the due time, because the sweep sent a ticket. Needs: not complete, or a notice that waits; `due_at` unchanged
    /// since the record was read.
    TicketResent {
        /// `due_at` as read.
        was_due_at: Timestamp,
        /// When the sweep should send the next ticket.
        due_at: Timestamp,
    },
    /// Gives the lease up before its end. Needs: the lease.
    GiveUp {
        owner: LeaseOwner,
        due: Due,
        /// Why the attempt failed; `None` keeps the failure of the record.
        failure: Option<Failure>,
    },
    /// Puts the batch in error. Needs: the lease.
    Fail {
        owner: LeaseOwner,
        error: String,
        /// The notice to be sent about it.
        notice: Option<Notice>,
    },
    /// Completes the batch. Needs: the lease; no counts, no witness and no part since the record was read. The lease
    /// alone is not enough: its own request may arrive a second time, late, after others worked on the batch.
    Complete {
        owner: LeaseOwner,
        /// `counts_version` as read.
        counts_version: u64,
        /// `witnesses` as read.
        witnesses: u64,
        /// Number of parts as read, all of them delivered.
        parts: usize,
        at: Timestamp,
        /// When DynamoDB may remove the record: [`BatchRecord::kept_until`].
        expires_at: Timestamp,
        /// The notice to be sent about it. Without one, notices that wait are dropped, because they have no target.
        notice: Option<Notice>,
    },
    /// Removes the notices, because all of them were sent. Needs: status and notices as read. A batch in error is due at
    /// `due_at` then.
    NoticesSent {
        /// `status` as read; `None` for a complete batch.
        status: Option<Status>,
        /// Number of notices as read.
        count: usize,
        /// The number of the last of them. Notices are only ever added at the end and removed all at once, so number and count
        /// tell every list from every other.
        last: u64,
        due_at: Timestamp,
    },
    /// Notes that an answer rejected events of delivered parts. Needs: complete; nothing set aside since the record was read.
    Answered {
        /// All seats that are set aside, earlier and new ones.
        set_aside: SeqSet,
        /// `set_asides` as read.
        set_asides: u64,
    },
    /// Notes what an operator is about to do to the batch. Needs: status, number of leases and number of notes as read, so
    /// that the operator decides about the batch as it is.
    Note {
        /// `status` as read; `None` for a complete batch.
        status: Option<Status>,
        /// `attempts` as read.
        attempts: u64,
        /// `notes_count` as read.
        notes_count: u64,
        /// The result of [`with_note`](super::with_note).
        notes: Vec<OperatorNote>,
    },
}

impl BatchWrite {
    /// Returns who must have the lease, if the write needs it.
    pub fn owner(&self) -> Option<&LeaseOwner> {
        match self {
            BatchWrite::Count { owner, .. }
            | BatchWrite::Resolve { owner, .. }
            | BatchWrite::Reported { owner }
            | BatchWrite::Freeze { owner, .. }
            | BatchWrite::AcceptSink { owner, .. }
            | BatchWrite::Number { owner, .. }
            | BatchWrite::Delivered { owner, .. }
            | BatchWrite::SetAside { owner, .. }
            | BatchWrite::GiveUp { owner, .. }
            | BatchWrite::Fail { owner, .. }
            | BatchWrite::Complete { owner, .. } => Some(owner),
            BatchWrite::Reserve(_)
            | BatchWrite::Seal { .. }
            | BatchWrite::Witness { .. }
            | BatchWrite::Lease { .. }
            | BatchWrite::TicketResent { .. }
            | BatchWrite::NoticesSent { .. }
            | BatchWrite::Answered { .. }
            | BatchWrite::Note { .. } => None,
        }
    }
}

/// When a batch that was given up is due again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When the sweep should send a ticket.
    pub at: Timestamp,
    /// When to look again, after a look found nothing new and the batch is not proven. `None` keeps that of the record.
    pub verify_at: Option<Timestamp>,
    /// When the next part may go to the sink; `None` if no turn is kept.
    pub turn_at: Option<Timestamp>,
}

impl Due {
    /// Returns the end of a wait for neither a look nor a turn.
    pub fn at(at: Timestamp) -> Due {
        Due {
            at,
            verify_at: None,
            turn_at: None,
        }
    }
}

/// The reason for setting a batch aside whose record has no error.
pub const NO_ERROR: &str = "an operator set the batch aside";
