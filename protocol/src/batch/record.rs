//! What a batch's record says.

use crate::ids::{BatchId, BatchKey, LeaseOwner, SourceArn};
use crate::limits::{
    CLOCK_SKEW_MAX, DUE_GRACE, PART_MEMBERS_BYTES_MAX, PART_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES,
};
use crate::planted::{Bug, planted};
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// Where a batch is in its life. A complete batch has no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// May get further claims until its window closes.
    Open,
    /// Gets no further claims; its counts are exact.
    Sealed,
    /// A processor has worked on it.
    Processing,
    /// The sink refused it for good; an operator decides.
    Error,
}

impl Status {
    /// All of them, as the sweep asks for them.
    pub const ALL: [Status; 4] = [
        Status::Open,
        Status::Sealed,
        Status::Processing,
        Status::Error,
    ];

    /// The `status` attribute.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Open => "open",
            Status::Sealed => "sealed",
            Status::Processing => "processing",
            Status::Error => "error",
        }
    }
}

/// Whether a part has reached the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartState {
    /// Its content is fixed; the sink may or may not have it.
    Frozen,
    /// The sink has it.
    Delivered {
        /// What the sink answered.
        receipt: String,
    },
    /// An operator sent its items to the quarantine; the sink may have it all the same, and nobody will ask again.
    SetAside,
}

/// One frozen, numbered delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct PartRecord {
    /// How many items it has.
    pub count: u64,
    /// The seqs of its items; empty once the part has ended and the record's shared sets have them.
    pub members: SeqSet,
    /// Content hash over its items in seq order.
    pub hash: [u8; 32],
    /// Frozen, delivered or set aside.
    pub state: PartState,
    /// Where it was to go and in what form when it was frozen, as the sink tells; absent once it has ended.
    pub sink: Option<String>,
}

impl PartRecord {
    /// Returns a part that is about to be delivered.
    pub fn frozen(members: SeqSet, hash: [u8; 32], sink: Option<String>) -> PartRecord {
        PartRecord {
            count: members.len(),
            members,
            hash,
            state: PartState::Frozen,
            sink,
        }
    }

    fn bytes(&self) -> usize {
        let receipt = match &self.state {
            PartState::Delivered { receipt } => receipt.len(),
            PartState::Frozen | PartState::SetAside => 0,
        };
        let sink = self.sink.as_ref().map_or(0, String::len);
        PART_OVERHEAD_BYTES + self.members.to_bytes().len() + receipt + sink
    }
}

/// A lease: who works on the batch, and until when at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The invocation.
    pub owner: LeaseOwner,
    /// Its deadline.
    pub until: Timestamp,
}

/// One item of the batch table.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchRecord {
    /// The batch.
    pub batch_id: BatchId,
    /// Absent once complete.
    pub status: Option<Status>,
    /// When something should have happened.
    pub due_at: Timestamp,
    /// Where its events come from.
    pub source: SourceArn,
    /// What its events have in common, where `BATCH_KEY` is set.
    pub batch_key: Option<BatchKey>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// No invocation whose deadline is later may claim into it.
    pub closes_at: Timestamp,
    /// Shards of its index entries.
    pub shards: u16,
    /// Claims known to be written, among the settled seqs.
    pub confirmed: u64,
    /// Seats whose claim may or may not have been written.
    pub uncertain: u64,
    /// Seats whose outcome is known and counted.
    pub settled: SeqSet,
    /// Version of the three fields above; the aggregator that owns the batch is their only writer.
    pub counts_version: u64,
    /// When it was sealed.
    pub sealed_at: Option<Timestamp>,
    /// Seats seen live by a redelivery.
    pub witnessed: SeqSet,
    /// How many witness writes there were.
    pub witnesses: u64,
    /// The last lease.
    pub lease: Option<Lease>,
    /// How many leases there were.
    pub attempts: u64,
    /// What was frozen and delivered.
    pub parts: Vec<PartRecord>,
    /// Seqs of delivered parts that have no set of their own any more.
    pub delivered: SeqSet,
    /// Seqs whose events an operator sent to the quarantine.
    pub set_aside: SeqSet,
    /// How many writes set something aside.
    pub set_asides: u64,
    /// Set by an operator's ticket: whatever is undelivered goes to the quarantine, with this reason.
    pub quarantine: Option<String>,
    /// Set when a look found nothing though the count was not proven: look again then.
    pub verify_at: Option<Timestamp>,
    /// When it was found complete.
    pub completed_at: Option<Timestamp>,
    /// Why the sink refused it.
    pub error: Option<String>,
    /// When the table may forget it (its TTL attribute).
    pub expires_at: Option<Timestamp>,
}

impl BatchRecord {
    /// A batch as it is opened.
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
            due_at: closes_at + CLOCK_SKEW_MAX + DUE_GRACE,
            source,
            batch_key,
            created_at: now,
            closes_at,
            shards,
            confirmed: 0,
            uncertain: 0,
            settled: SeqSet::new(),
            counts_version: 0,
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
            completed_at: None,
            error: None,
            expires_at: None,
        }
    }

    /// Returns the seqs of all parts, and of what was set aside: nothing of them is ever in a further part.
    pub fn members(&self) -> SeqSet {
        let mut members = self.delivered.clone();
        members.extend_from(&self.set_aside);
        for part in &self.parts {
            members.extend_from(&part.members);
        }
        members
    }

    /// Returns what `delivered` becomes with part `index`, if its members are too many for a set of their own.
    pub fn delivered_with(&self, index: usize) -> Option<SeqSet> {
        let members = &self.parts.get(index)?.members;
        (members.to_bytes().len() > PART_MEMBERS_BYTES_MAX).then(|| {
            let mut delivered = self.delivered.clone();
            delivered.extend_from(members);
            delivered
        })
    }

    /// Returns what its item comes to; never less than DynamoDB counts.
    pub fn bytes(&self) -> usize {
        let sets = [
            &self.settled,
            &self.witnessed,
            &self.delivered,
            &self.set_aside,
        ];
        let texts = [
            self.error.as_ref().map(String::len),
            self.quarantine.as_ref().map(String::len),
            self.batch_key.as_ref().map(|key| key.as_str().len()),
            self.lease.as_ref().map(|lease| lease.owner.as_str().len()),
            Some(self.source.as_str().len()),
        ];
        RECORD_OVERHEAD_BYTES
            + sets.iter().map(|set| set.to_bytes().len()).sum::<usize>()
            + texts.into_iter().flatten().sum::<usize>()
            + self.parts.iter().map(PartRecord::bytes).sum::<usize>()
    }

    /// Those of `seqs` that this batch does not know to exist: not counted, not witnessed, in no part. What it knows,
    /// it cannot complete without.
    pub fn unknown_of(&self, seqs: &SeqSet) -> SeqSet {
        let mut known = self.members();
        known.extend_from(&self.settled);
        known.extend_from(&self.witnessed);
        seqs.iter().filter(|seq| !known.contains(*seq)).collect()
    }

    /// The part that is frozen but not known to be delivered; at most one, and the last.
    pub fn frozen_part(&self) -> Option<(usize, &PartRecord)> {
        let (index, part) = self.parts.iter().enumerate().next_back()?;
        (part.state == PartState::Frozen).then_some((index, part))
    }

    pub(super) fn is_frozen(&self, index: usize) -> bool {
        let part = self.parts.get(index);
        part.is_some_and(|part| part.state == PartState::Frozen)
    }

    pub(super) fn leased_by(&self, owner: &LeaseOwner) -> bool {
        self.lease
            .as_ref()
            .is_some_and(|lease| lease.owner == *owner)
            || planted(Bug::WritesWithoutLease)
    }
}
