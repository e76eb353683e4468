//! Decides about the lines of a batch: which event wins, and which message is a duplicate, a conflict or redelivered.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::entry::{Entry, IdHash, NO_BODY, Owner};
use super::list::RunList;
use super::matching::{Match, Matches};
use super::tally::{LineQuota, Tallies, Tally};
use crate::batch::BatchRecord;
use crate::claim::{SeatResolution, listed_seat_resolution};
use crate::ids::{BatchId, Seq};
use crate::quota::{AccountHash, Place};
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// One message in a batch of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub id: IdHash,
    pub message: u64,
    pub body: u64,
    pub seq: Seq,
    /// When the load of the line was stored. The line is decided by this time, however late that is done.
    pub stored_at: Timestamp,
    pub quota: Option<LineQuota>,
}

impl Line {
    /// Returns the account in which the line needs a place to win.
    pub fn account(&self) -> Option<AccountHash> {
        self.quota.map(|quota| quota.account)
    }

    /// Returns the entry of the line if it wins, with the first owner of its run.
    pub const fn entry(&self) -> Entry {
        Entry {
            id: self.id,
            owner: 0,
            seq: self.seq,
            message: self.message,
            body: self.body,
        }
    }
}

/// The decision about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineDecision {
    /// The event is delivered with this line.
    Wins,
    /// The message won before, in this batch or another, or is remembered.
    Redelivered,
    /// Another message carries the event, with the same body.
    Duplicate,
    /// Another message carries the event id, with another body. It leaves no entry.
    Conflict,
    /// Nothing is in the way of the event, but the account of its quota has no place left. It leaves no entry.
    BeyondQuota,
}

/// Why nothing can be decided about a batch until an operator acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    #[error(
        "index: has an event of seq {seq} from batch `{owner}`, which has no record: expected one until its entries end"
    )]
    NoRecord { seq: Seq, owner: BatchId },
    #[error(
        "index: has seq {owner_seq} of batch `{owner}`, which is complete without it: expected it in a part or set aside"
    )]
    OtherRecord { owner: BatchId, owner_seq: Seq },
    #[error(
        "index: entries that the batch needs were left out: got a line stored at {stored_at}, expected none before {left_out_until}"
    )]
    LeftOut {
        stored_at: Timestamp,
        left_out_until: Timestamp,
    },
}

/// The decisions about the lines of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decided {
    pub winners: SeqSet,
    pub redelivered: SeqSet,
    pub duplicates: SeqSet,
    pub conflicts: SeqSet,
    pub beyond_quota: SeqSet,
    /// The places that winners take over.
    pub taken_over: BTreeMap<Seq, FreePlace>,
    /// The places that the other winners take.
    pub tallies: Vec<Tally>,
}

/// A place of an event that was set aside or rejected, and was not delivered with the place later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreePlace {
    /// The batch whose tally counts it.
    pub taken_in: BatchId,
    /// When the last of the entries ends that have it.
    pub ends_at: Timestamp,
}

impl Decided {
    /// Returns the owner of the entry of a line that wins, with its place. `owner` is that of the batch.
    #[must_use]
    pub fn owner_of(&self, line: &Line, owner: Owner) -> Owner {
        let Some(account) = line.account() else {
            return owner;
        };
        let free = self.taken_over.get(&line.seq);
        let taken_in = free.map(|free| free.taken_in);
        let owner = owner.with_place(Some(Place { account, taken_in }));
        free.map_or(owner, |free| owner.that_outlives(free.ends_at))
    }

    fn insert(&mut self, seq: Seq, decision: LineDecision) {
        let seqs = match decision {
            LineDecision::Wins => &mut self.winners,
            LineDecision::Redelivered => &mut self.redelivered,
            LineDecision::Duplicate => &mut self.duplicates,
            LineDecision::Conflict => &mut self.conflicts,
            LineDecision::BeyondQuota => &mut self.beyond_quota,
        };
        seqs.insert(seq);
    }
}

/// Decides about `lines`, which are all lines of a batch in the order of their seqs. `matches` has the entries of their ids and the tallies
/// of their accounts in the runs of `list`, and `record_of` returns the records of [`Matches::batches`], read after the manifest. `now` is only for seats that are
/// being set aside.
///
/// # Errors
/// [`Unresolved`]. A retry has the same result until an operator acts.
pub fn resolve<'r>(
    lines: &[Line],
    matches: &Matches,
    list: &RunList,
    record_of: impl Fn(BatchId) -> Option<&'r BatchRecord>,
    now: Timestamp,
) -> Result<Decided, Unresolved> {
    let left_out_until = list.left_out_until;
    let first_stored_at = lines.iter().map(|line| line.stored_at).min();
    if let Some(stored_at) = first_stored_at.filter(|at| *at < left_out_until) {
        return Err(Unresolved::LeftOut {
            stored_at,
            left_out_until,
        });
    }
    let mut decided = Decided::default();
    let mut places = Tallies::default();
    let mut winners: HashMap<IdHash, &Line> = HashMap::with_capacity(lines.len());
    for line in lines {
        let winner = winners.get(&line.id).copied();
        let decision = match decide(line, winner, matches, &record_of, now)? {
            Claimed::By(decision) => decision,
            Claimed::Never { place: Some(place) } => {
                decided.taken_over.insert(line.seq, place);
                LineDecision::Wins
            }
            Claimed::Never { place: None } => match line.quota {
                None => LineDecision::Wins,
                Some(quota) if quota.ends_at < list.counted_from => LineDecision::BeyondQuota,
                Some(quota) => take_place(quota, matches, &mut places),
            },
        };
        if decision == LineDecision::Wins {
            winners.insert(line.id, line);
        }
        decided.insert(line.seq, decision);
    }
    decided.tallies = places.into_sums();
    Ok(decided)
}

/// Takes a place for a line, if its account has one beside those that earlier batches took, and earlier lines of this one.
fn take_place(quota: LineQuota, matches: &Matches, places: &mut Tallies) -> LineDecision {
    let taken = matches.places_taken(quota.account);
    if taken.saturating_add(places.of(quota.account)) >= quota.max {
        return LineDecision::BeyondQuota;
    }
    places.take(quota);
    LineDecision::Wins
}

/// Whether the event of a line is claimed already.
enum Claimed {
    By(LineDecision),
    /// It is not.
    Never {
        /// The place that the line takes over. It stays counted.
        place: Option<FreePlace>,
    },
}

/// Decides about one line, apart from its quota. `winner` is the line of this batch that won before with the same id.
fn decide<'r>(
    line: &Line,
    winner: Option<&Line>,
    matches: &Matches,
    record_of: &impl Fn(BatchId) -> Option<&'r BatchRecord>,
    now: Timestamp,
) -> Result<Claimed, Unresolved> {
    let entries = || {
        let entries = matches.of(line.id);
        entries.filter(|entry| line.stored_at < entry.owner.ends_at())
    };
    let is_same_message = winner.is_some_and(|winner| winner.message == line.message)
        || entries().any(|entry| entry.message == line.message);
    if is_same_message {
        return Ok(Claimed::By(LineDecision::Redelivered));
    }
    let mut has_same_body = winner.map(|winner| winner.body == line.body);
    // The places that the event took in the account of the line and was not delivered with at first, and those that it was delivered with.
    let (mut places, mut used) = (BTreeMap::new(), BTreeSet::new());
    for entry in entries() {
        let place = entry.owner.place();
        let place = place.filter(|(_, place)| Some(place.account) == line.account());
        match (meaning(line, entry, record_of, now)?, place) {
            (Meaning::InTheWay { is_same }, _) => {
                has_same_body = Some(has_same_body == Some(true) || is_same);
            }
            (Meaning::DeliveredBefore, Some((batch, place))) => {
                used.insert(place.taken_in.unwrap_or(batch));
            }
            // Of several entries with one place, a merge may have left the first one out.
            (Meaning::SetAside, Some((batch, place))) => {
                let taken_in = place.taken_in.unwrap_or(batch);
                let ends_at = places.entry(taken_in).or_insert(Timestamp::EPOCH);
                *ends_at = entry.owner.ends_at().max(*ends_at);
            }
            (Meaning::DeliveredBefore | Meaning::SetAside | Meaning::Message, _) => {}
        }
    }
    Ok(match has_same_body {
        None => {
            let mut free = places.into_iter();
            let free = free.find(|(taken_in, _)| !used.contains(taken_in));
            Claimed::Never {
                place: free.map(|(taken_in, ends_at)| FreePlace { taken_in, ends_at }),
            }
        }
        Some(true) => Claimed::By(LineDecision::Duplicate),
        Some(false) => Claimed::By(LineDecision::Conflict),
    })
}

/// The meaning of an entry for a line of another message with the same event.
enum Meaning {
    /// It keeps the line from winning.
    InTheWay {
        /// Whether it has the body of the line.
        is_same: bool,
    },
    /// Its event was delivered, and the dedup window of that is over.
    DeliveredBefore,
    /// Its event was set aside or rejected.
    SetAside,
    /// It is about a message only.
    Message,
}

fn meaning<'r>(
    line: &Line,
    entry: &Match,
    record_of: &impl Fn(BatchId) -> Option<&'r BatchRecord>,
    now: Timestamp,
) -> Result<Meaning, Unresolved> {
    let is_same = entry.body == line.body;
    let owner = match entry.owner {
        Owner::Batch { batch, .. } => batch,
        Owner::Primed { .. } => {
            let is_same = entry.body == NO_BODY || is_same;
            return Ok(Meaning::InTheWay { is_same });
        }
        Owner::PrimedMessage { .. } | Owner::Forget { .. } => return Ok(Meaning::Message),
    };
    let record = record_of(owner).ok_or(Unresolved::NoRecord {
        seq: line.seq,
        owner,
    })?;
    Ok(match listed_seat_resolution(record, entry.seq, now) {
        SeatResolution::Alive => Meaning::InTheWay { is_same },
        SeatResolution::Delivered { until } if line.stored_at < until => {
            Meaning::InTheWay { is_same }
        }
        SeatResolution::Delivered { .. } => Meaning::DeliveredBefore,
        SeatResolution::SetAside { .. } => Meaning::SetAside,
        SeatResolution::Orphan | SeatResolution::Expired | SeatResolution::Unknown => {
            return Err(Unresolved::OtherRecord {
                owner,
                owner_seq: entry.seq,
            });
        }
    })
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
