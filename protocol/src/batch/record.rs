//! The fields of a batch record.

use std::time::Duration;

use serde::Serialize;

use super::closing::Closing;
use super::note::OperatorNote;
use super::notice::Notice;
use super::part::{PartRecord, PartState};
use super::reservations::Reservations;
use crate::bodies::Bodies;
use crate::chain::Link;
use crate::ids::{BatchId, BatchKey, LeaseOwner, SourceArn};
use crate::limits::{
    BATCH_LIFE_MAX, BATCH_RECORD_RETENTION, CLOCK_SKEW_MAX, DUE_GRACE, LOG_RECORD_RETENTION,
    PART_MEMBERS_BYTES_MAX, RECORD_OVERHEAD_BYTES,
};
use crate::period::Period;
use crate::planted::planted;
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// The status of a batch that is not complete. A complete batch has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// The batch may get further claims until its window ends.
    Open,
    /// The batch gets no further claims, and its counts are final.
    Sealed,
    /// A processor took the lease at least once.
    Processing,
    /// The batch cannot be delivered until an operator decides.
    Error,
}

impl Status {
    /// Every status, in the order in which the sweep queries them.
    pub const ALL: [Status; 4] = [
        Status::Open,
        Status::Sealed,
        Status::Processing,
        Status::Error,
    ];

    /// Returns the value of the `status` attribute.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Open => "open",
            Status::Sealed => "sealed",
            Status::Processing => "processing",
            Status::Error => "error",
        }
    }
}

/// A list of batches that the sweep reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listing {
    /// Batches with this status.
    Status(Status),
    /// Complete batches whose notices may not have been sent. They have no status, so no other code takes them for incomplete.
    Notices,
    /// [Answers](crate::answer) about batches that are awaited, or that are not worked off.
    Answers,
}

impl Listing {
    /// Returns the first part of the key of `status-index`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Listing::Status(status) => status.as_str(),
            Listing::Notices => "notices",
            Listing::Answers => "answers",
        }
    }
}

/// The right of one invocation to work on the batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lease {
    pub owner: LeaseOwner,
    /// The deadline of the owner.
    pub until: Timestamp,
}

/// Why an attempt at a batch ended, and will be made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub at: Timestamp,
    pub text: String,
}

/// One item of the batch table.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchRecord {
    pub batch_id: BatchId,
    /// Absent once the batch is complete.
    pub status: Option<Status>,
    /// When the batch should have made progress. After that, the sweep sends a ticket.
    pub due_at: Timestamp,
    pub source: SourceArn,
    /// The batch key of all its events, if `BATCH_KEY` is set.
    pub batch_key: Option<BatchKey>,
    /// The period of all its events, if `CLOSE_AT` is set.
    pub period: Option<Period>,
    pub created_at: Timestamp,
    /// The end of the window.
    pub closes_at: Timestamp,
    /// Number of index shards; 1 for a batch of the log, which is in no index.
    pub shards: u16,
    /// Where the bodies are.
    pub bodies: Bodies,
    /// The dedup window of the aggregator that opened a batch of the log; it classifies its events. Otherwise 0.
    pub dedup_window: Duration,
    /// Number of claims among the settled seqs.
    pub confirmed: u64,
    /// Number of seats whose claim may or may not be in the table.
    pub uncertain: u64,
    /// Seats whose attempt ended with a known result.
    pub settled: SeqSet,
    /// The winners of a batch of the log: the seats of the events to deliver. Otherwise empty.
    pub claimed: SeqSet,
    /// Version of `confirmed`, `uncertain` and `settled` in a batch without reservations. The aggregator that opened it writes them, of a
    /// version before 0.3.
    pub counts_version: u64,
    /// The seats that were given out. `None` if a version before 0.3 opened the batch.
    pub reservations: Option<Reservations>,
    pub sealed_at: Option<Timestamp>,
    /// Seats whose claim an acknowledgement relies on.
    pub witnessed: SeqSet,
    /// Number of witness writes so far.
    pub witnesses: u64,
    pub lease: Option<Lease>,
    /// Number of leases so far.
    pub attempts: u64,
    pub parts: Vec<PartRecord>,
    /// Seqs of delivered parts that do not keep a set of their own.
    pub delivered: SeqSet,
    /// Seqs that have ended without a delivery: their events were sent to the quarantine, or their records are only in a
    /// reject list. Rejected are those of them that are in a delivered part: [`BatchRecord::rejected`].
    pub set_aside: SeqSet,
    /// Number of writes so far that changed `set_aside`.
    pub set_asides: u64,
    /// Present once it was decided to set the batch aside: the reason that goes to the quarantine with each event.
    pub quarantine: Option<String>,
    /// When to look again, after a look found nothing new and the batch was not proven.
    pub verify_at: Option<Timestamp>,
    /// When the next part may go to the sink, if deliveries have a rate and the part had to wait for its turn.
    pub turn_at: Option<Timestamp>,
    /// The last failure since a part was delivered. No decision depends on it.
    pub last_failure: Option<Failure>,
    pub completed_at: Option<Timestamp>,
    /// Why the batch is in error.
    pub error: Option<String>,
    /// When DynamoDB may remove the record (the TTL attribute).
    pub expires_at: Option<Timestamp>,
    /// The last things that operators did to the batch.
    pub notes: Vec<OperatorNote>,
    /// Number of notes so far, with the dropped ones.
    pub notes_count: u64,
    /// Notices that may not have been sent, the oldest first.
    pub notices: Vec<Notice>,
}

/// Returns when a batch whose window ends at `closes_at` should have got further.
fn first_due_at(closes_at: Timestamp) -> Timestamp {
    closes_at + CLOCK_SKEW_MAX + DUE_GRACE
}

impl BatchRecord {
    /// Returns the list of `status-index` that the record is in.
    pub fn listing(&self) -> Option<Listing> {
        match self.status {
            Some(status) => Some(Listing::Status(status)),
            None => (!self.notices.is_empty()).then_some(Listing::Notices),
        }
    }

    /// Returns the record of a new batch.
    pub fn open(
        batch_id: BatchId,
        source: SourceArn,
        batch_key: Option<BatchKey>,
        shards: u16,
        now: Timestamp,
        closes_at: Timestamp,
    ) -> BatchRecord {
        BatchRecord {
            batch_id,
            status: Some(Status::Open),
            due_at: first_due_at(closes_at),
            source,
            batch_key,
            period: None,
            created_at: now,
            closes_at,
            shards,
            bodies: Bodies::Items,
            dedup_window: Duration::ZERO,
            confirmed: 0,
            uncertain: 0,
            settled: SeqSet::new(),
            claimed: SeqSet::new(),
            counts_version: 0,
            reservations: None,
            sealed_at: None,
            witnessed: SeqSet::new(),
            witnesses: 0,
            lease: None,
            attempts: 0,
            parts: Vec::new(),
            delivered: SeqSet::new(),
            set_aside: SeqSet::new(),
            set_asides: 0,
            quarantine: None,
            verify_at: None,
            turn_at: None,
            last_failure: None,
            completed_at: None,
            error: None,
            expires_at: None,
            notes: Vec::new(),
            notes_count: 0,
            notices: Vec::new(),
        }
    }

    /// Returns the record of a new batch whose events are all in `period`.
    #[must_use]
    pub fn with_period(self, period: Option<Period>) -> BatchRecord {
        BatchRecord { period, ..self }
    }

    /// Returns the record of a new batch whose bodies are in `bodies`. `dedup_window` is that of its aggregator. The batch
    /// table stores it only for a batch of the log, and the number of index shards only for others.
    #[must_use]
    pub fn with_bodies(mut self, bodies: Bodies, dedup_window: Duration) -> BatchRecord {
        if bodies.is_log() {
            self.shards = 1;
            self.dedup_window = dedup_window;
        }
        self.reservations = Some(Reservations::default());
        self.bodies = bodies;
        self
    }

    /// Returns whether no ticket was sent for the batch yet: its window ends later than SQS could delay a ticket when the batch was
    /// opened, and no sweep has sent one since.
    pub fn awaits_first_ticket(&self) -> bool {
        let closing = Closing {
            closes_at: self.closes_at,
        };
        self.status == Some(Status::Open)
            && closing.is_beyond_delays(self.created_at)
            && self.due_at == first_due_at(self.closes_at)
    }

    /// Returns when the batch closed: when it was sealed, or else the end of its window. Once the batch was leased, this never
    /// changes, because only an open batch is sealed.
    pub fn closed_at(&self) -> Timestamp {
        self.sealed_at.unwrap_or(self.closes_at)
    }

    /// Returns whether the batch is so old that nothing more of it is delivered.
    pub fn is_too_old(&self, now: Timestamp) -> bool {
        self.created_at + BATCH_LIFE_MAX <= now
    }

    /// Returns the seats whose claims are counted, and others that are known to hold no claim.
    pub fn counted(&self) -> &SeqSet {
        match self.bodies.is_log() {
            true => &self.claimed,
            false => &self.settled,
        }
    }

    /// Returns the seats whose events must still be delivered, of a batch of the log. (Of others, only the index shows them.)
    pub fn undelivered(&self) -> SeqSet {
        let claims = self.claimed.union(&self.witnessed);
        claims.difference(&self.members())
    }

    /// Returns how many events are still to be delivered, as far as the record knows: at least one.
    pub fn undelivered_count(&self) -> u64 {
        let frozen = self.frozen_part().map_or(0, |(_, part)| part.count);
        let undecided = match (&self.reservations, self.is_resolved()) {
            (Some(reservations), false) => reservations.reserved,
            (Some(_) | None, _) => 0,
        };
        let claims = self.confirmed + self.uncertain + undecided;
        (frozen + claims.saturating_sub(self.members().len())).max(1)
    }

    /// Returns the seats of the frozen part that are not set aside.
    pub fn undelivered_of_frozen_part(&self) -> SeqSet {
        let members = self.frozen_part().map(|(_, part)| &part.members);
        members.map_or_else(SeqSet::new, |members| members.difference(&self.set_aside))
    }

    /// Returns when the last of the delivered parts that keep no set of their own was delivered.
    pub fn shared_parts_delivered_at(&self) -> Option<Timestamp> {
        let shared = self.parts.iter().filter(|part| part.members.is_empty());
        let at = |part: &PartRecord| match part.state {
            PartState::Delivered { at, .. } => at,
            PartState::Frozen | PartState::SetAside => None,
        };
        shared.filter_map(at).max()
    }

    /// Returns when DynamoDB may remove the record of a batch that is complete at `at`. It classifies claims of the batch until
    /// then.
    pub fn kept_until(&self, at: Timestamp) -> Timestamp {
        match self.bodies {
            Bodies::Items => at + BATCH_RECORD_RETENTION,
            Bodies::Log(_) => at + LOG_RECORD_RETENTION + self.dedup_window,
        }
    }

    /// Returns the seqs that are in a part or set aside. None of them is ever put into a further part.
    pub fn members(&self) -> SeqSet {
        let mut members = self.delivered.union(&self.set_aside);
        for part in &self.parts {
            members.extend_from(&part.members);
        }
        members
    }

    /// Returns the new value of `delivered` when part `index` is delivered, if the part's set is too large to keep.
    pub fn delivered_with(&self, index: usize) -> Option<SeqSet> {
        let members = &self.parts.get(index)?.members;
        let is_large = members.to_bytes().len() > PART_MEMBERS_BYTES_MAX;
        is_large.then(|| self.delivered.union(members))
    }

    /// Returns the size of the item in bytes; never less than DynamoDB counts.
    pub fn bytes(&self) -> usize {
        let mut sets = vec![
            &self.settled,
            &self.witnessed,
            &self.delivered,
            &self.set_aside,
        ];
        let mut bodies_bytes = 0;
        let reservations = self.reservations.as_ref();
        if let Some(resolution) = reservations.and_then(|one| one.resolution.as_ref()) {
            sets.extend([
                &resolution.duplicates,
                &resolution.conflicts,
                &resolution.beyond_quota,
            ]);
        }
        if self.bodies.is_log() {
            sets.push(&self.claimed);
            bodies_bytes = self.bodies.to_string().len();
        }
        let texts = [
            self.error.as_ref().map(String::len),
            self.last_failure.as_ref().map(|failure| failure.text.len()),
            self.quarantine.as_ref().map(String::len),
            self.batch_key.as_ref().map(|key| key.as_str().len()),
            self.lease.as_ref().map(|lease| lease.owner.as_str().len()),
            Some(self.source.as_str().len()),
        ];
        RECORD_OVERHEAD_BYTES
            + bodies_bytes
            + sets.iter().map(|set| set.to_bytes().len()).sum::<usize>()
            + texts.into_iter().flatten().sum::<usize>()
            + self.parts.iter().map(PartRecord::bytes).sum::<usize>()
            + self.notes.iter().map(OperatorNote::bytes).sum::<usize>()
            + self.notices.iter().map(Notice::bytes).sum::<usize>()
    }

    /// Returns those of `seqs` that are not counted, not witnessed, in no part and not set aside. The batch may
    /// complete without these.
    pub fn unknown_of(&self, seqs: &SeqSet) -> SeqSet {
        let known = self.members().union(self.counted());
        seqs.difference(&known.union(&self.witnessed))
    }

    /// Returns the frozen part with its number. Only the last part can be frozen.
    pub fn frozen_part(&self) -> Option<(usize, &PartRecord)> {
        let (index, part) = self.parts.iter().enumerate().next_back()?;
        (part.state == PartState::Frozen).then_some((index, part))
    }

    /// Returns the number of part `index`, if it has one.
    pub fn file_number(&self, index: usize) -> Option<u64> {
        self.parts.get(index)?.file_number
    }

    /// Returns the link of part `index`, if it has one.
    pub fn link(&self, index: usize) -> Option<Link> {
        self.parts.get(index)?.link
    }

    /// Returns whether the frozen part has a number, for which the next part of the same source and key waits.
    pub fn has_number(&self) -> bool {
        let part = self.frozen_part();
        part.is_some_and(|(_, part)| part.file_number.is_some())
    }

    /// Returns part `index`, if it is frozen.
    pub(super) fn frozen_at(&self, index: usize) -> Option<&PartRecord> {
        let part = self.parts.get(index);
        part.filter(|part| part.state == PartState::Frozen)
    }

    /// Returns part `index` to change it, if it is frozen.
    pub(super) fn frozen_mut(&mut self, index: usize) -> Option<&mut PartRecord> {
        let part = self.parts.get_mut(index);
        part.filter(|part| part.state == PartState::Frozen)
    }

    pub(super) fn leased_by(&self, owner: &LeaseOwner) -> bool {
        self.lease.as_ref().map(|lease| &lease.owner) == Some(owner)
            || planted("writes-without-lease")
    }
}
