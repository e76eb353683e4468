//! The batch record: what it says, what may be written to it and when, and what follows from it.
//!
//! docs/protocol.md ("The life of a batch", "When a batch is complete") tells the same in words.
//!
//! Every change of a record is one [`BatchWrite`]; [`apply`] is its meaning. The DynamoDB adapter expresses the same
//! in update expressions, and the contract tests hold the two against each other.
//!
//! A record is one item of the batch table, and an item has a limit. So everything in it that grows is bounded: seqs are
//! below `SEATS_MAX`, sets of them are bitmaps, and a part that has ended keeps its own set only while that is small; a
//! large one goes into `delivered` or `set_aside`, which all parts share. [`BatchRecord::bytes`] is what a record comes to.
//!
//! The proof that a batch is whole rests on seqs, not on counts alone: `confirmed` counts the claims among the
//! `settled` seqs, so a claim nobody accounted for can never stand in for one that somebody acknowledged. Claims met
//! again by a redelivery are `witnessed` one by one before that message is acknowledged.

use std::time::Duration;

use crate::ids::{BatchId, BatchKey, LeaseOwner, Seq, SourceArn};
use crate::limits::{
    BATCH_RECORD_RETENTION, CLOCK_SKEW_MAX, DUE_GRACE, PART_MEMBERS_BYTES_MAX, PART_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES, SQS_DELAY_MAX,
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
    pub accounts: u64,
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
            accounts: 0,
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

    fn is_frozen(&self, index: usize) -> bool {
        let part = self.parts.get(index);
        part.is_some_and(|part| part.state == PartState::Frozen)
    }

    fn leased_by(&self, owner: &LeaseOwner) -> bool {
        self.lease
            .as_ref()
            .is_some_and(|lease| lease.owner == *owner)
            || planted(Bug::WritesWithoutLease)
    }
}

/// The aggregator's word on what it wrote, as absolute values so that repeating it changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Claims written, among the settled seqs.
    pub confirmed: u64,
    /// Seats whose claim may have been written.
    pub uncertain: u64,
    /// Seats whose outcome is known.
    pub settled: SeqSet,
    /// 1 for the first account of a batch, then ascending.
    pub version: u64,
}

/// A change of a batch record, with what must hold for it to apply.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchWrite {
    /// Counts, whatever the status. Needs: not complete; no later account applied.
    Account(Account),
    /// Counts and the seal. Needs: open; no later account applied.
    Seal {
        /// The final counts.
        account: Account,
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
    /// The end. Needs: the lease; no account, no witness and no part since the record was read. The lease alone does
    /// not say so: it may be in force again by a late repetition of itself, after others have worked on the batch.
    Complete {
        /// Who holds the lease.
        owner: LeaseOwner,
        /// `accounts` as read.
        accounts: u64,
        /// `witnesses` as read.
        witnesses: u64,
        /// Parts as read, all of them delivered.
        parts: usize,
        /// Now.
        at: Timestamp,
    },
}

/// What an operator says of a batch in error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorWord {
    /// Try again.
    Retry,
    /// Try again, and let the part that is frozen go to the sink of now.
    AcceptSink,
    /// Send what is undelivered to the quarantine, and end the batch.
    Quarantine,
}

/// Why a batch is being set aside that says nothing of its own.
pub const NO_ERROR: &str = "an operator set the batch aside";

/// What `write` makes of `record`; `None` when its condition does not hold.
pub fn apply(record: &BatchRecord, write: &BatchWrite) -> Option<BatchRecord> {
    let mut next = record.clone();
    match write {
        BatchWrite::Account(account) => {
            record.status?;
            take_account(&mut next, account)?;
        }
        BatchWrite::Seal { account, at } => {
            (record.status == Some(Status::Open)).then_some(())?;
            take_account(&mut next, account)?;
            // Its window's ticket is still to come, so it is due when it was.
            next.status = Some(Status::Sealed);
            next.sealed_at = Some(*at);
        }
        BatchWrite::Witness {
            witnessed,
            witnesses,
        } => {
            record.status?;
            let unchanged = record.witnesses == *witnesses;
            (unchanged || planted(Bug::WitnessOverwrites)).then_some(())?;
            next.witnessed = witnessed.clone();
            next.witnesses += 1;
        }
        BatchWrite::Lease {
            lease,
            at,
            operator,
        } => {
            (may_lease(record, *at, *operator) == LeaseVerdict::Free).then_some(())?;
            next.status = Some(Status::Processing);
            next.lease = Some(lease.clone());
            next.due_at = lease.until + DUE_GRACE;
            next.attempts += 1;
            next.error = None;
            if planted(Bug::SetAsideForgotten) && *operator != Some(OperatorWord::Quarantine) {
                next.quarantine = None;
            }
            if *operator == Some(OperatorWord::Quarantine) {
                let reason = record.error.as_deref().unwrap_or(NO_ERROR);
                next.quarantine = Some(reason.to_owned());
            }
        }
        BatchWrite::Freeze { owner, index, part } => {
            if planted(Bug::PartRefrozen) {
                next.parts.truncate(*index);
            }
            (record.leased_by(owner) && next.parts.len() == *index).then_some(())?;
            next.parts.push(part.clone());
            next.verify_at = None;
        }
        BatchWrite::AcceptSink { owner, index, sink } => {
            (record.leased_by(owner) && record.is_frozen(*index)).then_some(())?;
            next.parts[*index].sink = Some(sink.clone());
        }
        BatchWrite::Delivered {
            owner,
            index,
            receipt,
            delivered,
        } => {
            (record.leased_by(owner) && record.is_frozen(*index)).then_some(())?;
            let part = &mut next.parts[*index];
            part.sink = None;
            part.state = PartState::Delivered {
                receipt: receipt.clone(),
            };
            if let Some(delivered) = delivered {
                part.members = SeqSet::new();
                next.delivered = delivered.clone();
            }
        }
        BatchWrite::SetAside {
            owner,
            part,
            set_aside,
            set_asides,
        } => {
            (record.leased_by(owner) && record.set_asides == *set_asides).then_some(())?;
            if let Some(index) = *part {
                record.is_frozen(index).then_some(())?;
                let part = &mut next.parts[index];
                part.sink = None;
                part.members = SeqSet::new();
                part.state = PartState::SetAside;
            }
            next.set_aside = set_aside.clone();
            next.set_asides += 1;
            next.verify_at = None;
        }
        BatchWrite::Reminded { was_due_at, due_at } => {
            record.status?;
            (record.due_at == *was_due_at).then_some(())?;
            next.due_at = *due_at;
        }
        BatchWrite::GiveUp {
            owner,
            due_at,
            verify_at,
        } => {
            record.leased_by(owner).then_some(())?;
            next.lease = None;
            next.due_at = *due_at;
            next.verify_at = verify_at.or(record.verify_at);
        }
        BatchWrite::Fail { owner, error } => {
            record.leased_by(owner).then_some(())?;
            next.status = Some(Status::Error);
            next.lease = None;
            next.error = Some(error.clone());
        }
        BatchWrite::Complete {
            owner,
            accounts,
            witnesses,
            parts,
            at,
        } => {
            let unchanged = record.accounts == *accounts && record.witnesses == *witnesses;
            (record.parts.len() == *parts).then_some(())?;
            (record.leased_by(owner) && (unchanged || planted(Bug::CompletionUnconditional)))
                .then_some(())?;
            next.status = None;
            next.lease = None;
            next.completed_at = Some(*at);
            next.expires_at = Some(*at + BATCH_RECORD_RETENTION);
        }
    }
    Some(next)
}

fn take_account(record: &mut BatchRecord, account: &Account) -> Option<()> {
    (record.accounts < account.version).then_some(())?;
    record.confirmed = account.confirmed;
    record.uncertain = account.uncertain;
    record.settled = account.settled.clone();
    record.accounts = account.version;
    Some(())
}

/// Whether a record that refused `write` shows that an earlier attempt of it, or a later word of the same writer,
/// did apply: how a lost reply is recognised.
pub fn already_applied(record: &BatchRecord, write: &BatchWrite) -> bool {
    match write {
        BatchWrite::Account(account) => record.accounts >= account.version,
        BatchWrite::Seal { account, .. } => {
            record.accounts >= account.version && record.sealed_at.is_some()
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

/// Whether a processor may take a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseVerdict {
    /// Yes.
    Free,
    /// It is done.
    Complete,
    /// Somebody works on it.
    Held {
        /// When that one must have stopped.
        until: Timestamp,
    },
    /// Its window has not closed and it is not sealed.
    TooEarly {
        /// When the window closes.
        closes_at: Timestamp,
    },
    /// The sink refused it; only an operator's ticket reopens it.
    InError,
    /// It is not in error, and what the operator says is of an error.
    NotInError,
}

/// Judges a record for a processor that asks at `now`.
pub fn may_lease(
    record: &BatchRecord,
    now: Timestamp,
    operator: Option<OperatorWord>,
) -> LeaseVerdict {
    match record.status {
        None => LeaseVerdict::Complete,
        Some(Status::Error) if operator.is_some() => LeaseVerdict::Free,
        Some(Status::Error) => LeaseVerdict::InError,
        // What is said of an error holds for that error alone, however often the ticket comes.
        Some(Status::Open | Status::Sealed | Status::Processing)
            if matches!(
                operator,
                Some(OperatorWord::Quarantine | OperatorWord::AcceptSink)
            ) =>
        {
            LeaseVerdict::NotInError
        }
        Some(Status::Sealed) => LeaseVerdict::Free,
        Some(Status::Open) if record.closes_at <= now => LeaseVerdict::Free,
        Some(Status::Open) => LeaseVerdict::TooEarly {
            closes_at: record.closes_at,
        },
        Some(Status::Processing) => match &record.lease {
            // The owner is stopped at its deadline by its own clock; ours may be ahead.
            Some(lease)
                if lease.until + CLOCK_SKEW_MAX > now && !planted(Bug::LeaseTakenWhileHeld) =>
            {
                LeaseVerdict::Held { until: lease.until }
            }
            Some(_) | None => LeaseVerdict::Free,
        },
    }
}

/// When a batch closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// End of the window.
    pub closes_at: Timestamp,
}

/// No batch can be opened: the function's timeout leaves no room for a window within SQS's longest delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the invocation ends `{remaining_secs}` s from now, which leaves no batching window: \
     function timeout + window + clock skew must stay within {max_secs} s, the longest delay of an SQS message"
)]
pub struct NoWindow {
    /// Time left of the invocation.
    pub remaining_secs: u64,
    /// What SQS can delay.
    pub max_secs: u64,
}

impl Closing {
    /// The window of a batch opened at `now` by an invocation that ends at `deadline`.
    ///
    /// # Errors
    /// [`NoWindow`] when the ticket could not be delayed past the deadline; the same configuration fails every time.
    pub fn plan(
        now: Timestamp,
        deadline: Timestamp,
        window: Duration,
    ) -> Result<Closing, NoWindow> {
        // One second less than SQS allows: the delay is rounded up.
        let latest = now + (SQS_DELAY_MAX - CLOCK_SKEW_MAX - Duration::from_secs(1));
        let closes_at = (deadline + window).min(latest);
        if closes_at <= deadline {
            return Err(NoWindow {
                remaining_secs: (deadline - now).as_secs(),
                max_secs: SQS_DELAY_MAX.as_secs(),
            });
        }
        Ok(Closing { closes_at })
    }

    /// The delay of a ticket sent at `now`: whole seconds, never early, skew included.
    pub fn ticket_delay(self, now: Timestamp) -> Duration {
        let skew = match planted(Bug::TicketWithoutSkew) {
            true => Duration::ZERO,
            false => CLOCK_SKEW_MAX,
        };
        let millis = (now.until(self.closes_at) + skew).as_millis();
        Duration::from_secs((millis as u64).div_ceil(1_000)).min(SQS_DELAY_MAX)
    }
}

/// What the index has not shown yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// Claims that were counted.
    pub confirmed: u64,
    /// How many of those are found.
    pub found: u64,
    /// Witnessed claims that are not found.
    pub witnessed_missing: u64,
}

/// What is known to exist and is neither in a part nor among `new`; `None` when nothing is missing.
pub fn lag(record: &BatchRecord, new: &SeqSet) -> Option<Lag> {
    let mut known = record.members();
    known.extend_from(new);
    let found = match planted(Bug::CountsAlone) {
        true => known.len(),
        false => known.intersection_len(&record.settled),
    };
    let witnessed_missing = record.witnessed.difference_len(&known);
    if planted(Bug::SealedDeliveredShort) && record.sealed_at.is_some() {
        return None;
    }
    (found < record.confirmed || witnessed_missing > 0).then_some(Lag {
        confirmed: record.confirmed,
        found,
        witnessed_missing,
    })
}

/// Whether nothing can be left of a batch: sealed, nothing uncertain, everything counted is in a delivered part,
/// and this run saw every release acknowledged.
pub fn proven(record: &BatchRecord, released: &SeqSet) -> bool {
    record.sealed_at.is_some()
        && record.uncertain == 0
        && record.frozen_part().is_none()
        && lag(record, &SeqSet::new()).is_none()
        && record.members().is_subset(released)
}

/// What a collected seq is to its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Member of a part that has ended, or set aside: its release is still due, and it is never delivered again.
    Leftover,
    /// Member of the part that is frozen and not yet delivered.
    Frozen,
    /// Not in any part.
    New,
}

/// Judges a live claim of this batch.
pub fn role(record: &BatchRecord, seq: Seq) -> Role {
    let ended = || record.delivered.contains(seq) || record.set_aside.contains(seq);
    match record.parts.iter().find(|part| part.members.contains(seq)) {
        Some(part) if part.state == PartState::Frozen => Role::Frozen,
        Some(_) if planted(Bug::LeftoversDeliveredAgain) => Role::New,
        Some(_) => Role::Leftover,
        None if ended() => Role::Leftover,
        None => Role::New,
    }
}

/// What to do when a look at a leased batch found nothing new and nothing missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyLook {
    /// Proven, or looked for twice with enough time between: call it complete.
    Complete,
    /// Look again then, and send a ticket for it: one that was sent before may have been lost, or be this one, early.
    VerifyAt(Timestamp),
}

/// Judges an empty look at `now`.
pub fn empty_look(
    record: &BatchRecord,
    released: &SeqSet,
    now: Timestamp,
    verify_delay: Duration,
) -> EmptyLook {
    if proven(record, released) || planted(Bug::CompletionWithoutVerify) {
        return EmptyLook::Complete;
    }
    match record.verify_at {
        None => EmptyLook::VerifyAt(now + verify_delay),
        Some(at) if at <= now => EmptyLook::Complete,
        Some(at) => EmptyLook::VerifyAt(at),
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "batch_props.rs"]
mod props;
