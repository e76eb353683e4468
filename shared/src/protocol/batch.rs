//! The batch record: what it says, what may be written to it and when, and what follows from it.
//!
//! Every change of a record is one [`BatchWrite`]; [`apply`] is its meaning. The DynamoDB adapter expresses the same
//! in update expressions, and the contract tests hold the two against each other.
//!
//! The proof that a batch is whole rests on seqs, not on counts alone: `confirmed` counts the claims among the
//! `settled` seqs, so a claim nobody accounted for can never stand in for one that somebody acknowledged. Claims met
//! again by a redelivery are `witnessed` one by one before that message is acknowledged.

use std::time::Duration;

use crate::ids::{BatchId, BatchKey, LeaseOwner, Seq, SourceArn};
use crate::limits::{BATCH_RECORD_RETENTION, CLOCK_SKEW_MAX, DUE_GRACE, SQS_DELAY_MAX};
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
}

/// One frozen, numbered delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct PartRecord {
    /// The seqs of its items.
    pub members: SeqSet,
    /// Content hash over its items in seq order.
    pub hash: [u8; 32],
    /// Frozen or delivered.
    pub state: PartState,
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
            verify_at: None,
            completed_at: None,
            error: None,
            expires_at: None,
        }
    }

    /// All seqs of all parts.
    pub fn members(&self) -> SeqSet {
        self.members_of(|_| true)
    }

    /// All seqs of the parts that the sink has.
    pub fn delivered(&self) -> SeqSet {
        self.members_of(|part| matches!(part.state, PartState::Delivered { .. }))
    }

    fn members_of(&self, which: impl Fn(&PartRecord) -> bool) -> SeqSet {
        let mut members = SeqSet::new();
        for part in self.parts.iter().filter(|part| which(part)) {
            members.extend_from(&part.members);
        }
        members
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
    /// Seats seen live by a redelivery. Needs: not complete.
    Witness(SeqSet),
    /// Takes the lease. Needs: [`may_lease`].
    Lease {
        /// The new lease.
        lease: Lease,
        /// Now.
        at: Timestamp,
        /// Whether a batch in error may be taken: only on an operator's word.
        operator: bool,
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
    /// Marks a part as delivered. Needs: the lease.
    Delivered {
        /// Who holds the lease.
        owner: LeaseOwner,
        /// Number of the part.
        index: usize,
        /// What the sink answered.
        receipt: String,
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
            next.status = Some(Status::Sealed);
            next.sealed_at = Some(*at);
            next.due_at = *at + DUE_GRACE;
        }
        BatchWrite::Witness(seqs) => {
            record.status?;
            next.witnessed.extend_from(seqs);
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
        }
        BatchWrite::Freeze { owner, index, part } => {
            if planted(Bug::PartRefrozen) {
                next.parts.truncate(*index);
            }
            (record.leased_by(owner) && next.parts.len() == *index).then_some(())?;
            next.parts.push(part.clone());
            next.verify_at = None;
        }
        BatchWrite::Delivered {
            owner,
            index,
            receipt,
        } => {
            (record.leased_by(owner) && *index < record.parts.len()).then_some(())?;
            next.parts[*index].state = PartState::Delivered {
                receipt: receipt.clone(),
            };
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
        BatchWrite::Witness(_) => false,
        BatchWrite::Lease { lease, .. } => record.lease.as_ref() == Some(lease),
        BatchWrite::Freeze { owner, index, part } => {
            record.leased_by(owner)
                && record
                    .parts
                    .get(*index)
                    .is_some_and(|have| have.members == part.members && have.hash == part.hash)
        }
        BatchWrite::Delivered { .. } => false,
        BatchWrite::GiveUp { owner, .. } => !record.leased_by(owner),
        BatchWrite::Fail { error, .. } => {
            record.status == Some(Status::Error) && record.error.as_ref() == Some(error)
        }
        BatchWrite::Complete { .. } => record.status.is_none() && record.completed_at.is_some(),
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
}

/// Judges a record for a processor that asks at `now`.
pub fn may_lease(record: &BatchRecord, now: Timestamp, operator: bool) -> LeaseVerdict {
    match record.status {
        None => LeaseVerdict::Complete,
        Some(Status::Error) if operator => LeaseVerdict::Free,
        Some(Status::Error) => LeaseVerdict::InError,
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
        let millis = (now.until(self.closes_at) + CLOCK_SKEW_MAX).as_millis();
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
    let found = known.intersection_len(&record.settled);
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
    /// Member of a delivered part: its release is still due, and it is never delivered again.
    Leftover,
    /// Member of the part that is frozen and not yet delivered.
    Frozen,
    /// Not in any part.
    New,
}

/// Judges a live claim of this batch.
pub fn role(record: &BatchRecord, seq: Seq) -> Role {
    match record.parts.iter().find(|part| part.members.contains(seq)) {
        Some(part) if part.state == PartState::Frozen => Role::Frozen,
        Some(_) if planted(Bug::LeftoversDeliveredAgain) => Role::New,
        Some(_) => Role::Leftover,
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
