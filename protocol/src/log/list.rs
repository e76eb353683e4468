//! The list of runs, which the manifest names.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::entry::{IndexSecret, Owner};
use super::tally::Tally;
use crate::batch::BatchRecord;
use crate::bodies::Bodies;
use crate::ids::BatchId;
use crate::limits::{
    COMMIT_TURN, DECIDED_WITHIN, MERGED_ENTRIES_MAX, MERGED_ROWS_MAX, RUN_ENTRIES_MAX,
    RUN_ROWS_MAX, RUNS_INCOMPLETE_MAX, RUNS_OF_ONE_SIZE_MAX,
};
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// A run, as a list names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRef {
    /// The name of the object.
    pub run: Uuid,
    /// The hash of its bytes.
    pub hash: [u8; 16],
    /// Where it is: the `BODIES` of the batch or merge that stored it.
    pub bodies: Bodies,
    pub entries: u64,
    /// The latest end of its owners. Lines that were stored later need not read it, and it may be gone by then.
    pub ends_at: Timestamp,
    /// When the last of its events ends, as far as is known.
    pub events_end_at: Timestamp,
    /// The latest end of its tallies.
    #[serde(default)]
    pub tallies_end_at: Timestamp,
    /// How many owners and tallies its header has.
    #[serde(default)]
    pub rows: u64,
    /// The batch that committed it, until it is merged.
    pub batch: Option<BatchId>,
}

/// An immutable list of runs. The manifest has the name of the present one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    pub runs: Vec<RunRef>,
    /// Merges left out entries that ended at this time or before. A line that was stored earlier may need one of them.
    pub left_out_until: Timestamp,
    /// The index was lost, and places of accounts whose tallies end before this time may be missing. So these accounts have no place left.
    #[serde(default)]
    pub counted_from: Timestamp,
}

/// The header of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunHeader {
    pub owners: Vec<Owner>,
    /// Of a run that a batch committed: its duplicates, conflicts, and lines beyond a quota. The entries are its winners.
    pub duplicates: SeqSet,
    pub conflicts: SeqSet,
    #[serde(skip_serializing_if = "SeqSet::is_empty", default)]
    pub beyond_quota: SeqSet,
    /// The places that its winners took.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tallies: Vec<Tally>,
}

impl RunHeader {
    /// Returns the latest end of the tallies.
    pub fn tallies_end_at(&self) -> Timestamp {
        let ends = self.tallies.iter().map(|tally| tally.ends_at);
        ends.max().unwrap_or(Timestamp::EPOCH)
    }

    /// Returns how many owners and tallies there are.
    pub fn rows(&self) -> u64 {
        (self.owners.len() + self.tallies.len()) as u64
    }
}

/// Which manifest is the present one: its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IndexEpoch {
    pub epoch: Uuid,
}

/// The manifest: the name of the present list, and the secret of the index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Manifest {
    pub list: Option<Uuid>,
    /// Where the list is.
    pub bodies: Bodies,
    /// The latest end of its entries. Lines that were stored later need none of them. Long after it, the list may be gone.
    pub ends_at: Timestamp,
    /// The latest end of its tallies. They are needed until then, and the list is there.
    pub tallies_end_at: Timestamp,
    /// 32 bytes; empty before the first commit.
    #[serde(with = "serde_bytes")]
    pub secret: Vec<u8>,
    /// The batch that commits next, after others came first several times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<CommitTurn>,
}

/// A turn to commit. Other batches wait for its end. Nothing but speed depends on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitTurn {
    pub batch: BatchId,
    pub until: Timestamp,
}

impl Manifest {
    /// Returns the secret; `None` if there is no index yet.
    pub fn secret(&self) -> Option<IndexSecret> {
        let secret = <[u8; 32]>::try_from(self.secret.as_slice()).ok()?;
        Some(IndexSecret::new(secret))
    }

    /// Returns whether `batch` waits for another batch that commits first. A turn that seems to last longer than one is of a clock that
    /// is ahead, and nobody waits for it.
    pub fn is_turn_of_another(&self, batch: BatchId, now: Timestamp) -> bool {
        let lasts = |until| now < until && until <= now + COMMIT_TURN;
        self.turn
            .is_some_and(|turn| turn.batch != batch && lasts(turn.until))
    }

    /// Returns the manifest in which it is the turn of `batch`.
    #[must_use]
    pub fn with_turn(&self, batch: BatchId, now: Timestamp) -> Manifest {
        let until = now + COMMIT_TURN;
        let turn = Some(CommitTurn { batch, until });
        Manifest {
            turn,
            ..self.clone()
        }
    }

    /// Returns the manifest that names the next list, which is stored under `name`.
    #[must_use]
    pub fn with_list(&self, name: Uuid, bodies: &Bodies, list: &RunList) -> Manifest {
        let ends = list.runs.iter().map(|run| run.ends_at);
        let tallies_end = list.runs.iter().map(|run| run.tallies_end_at);
        Manifest {
            list: Some(name),
            bodies: bodies.clone(),
            ends_at: ends.fold(list.left_out_until, Timestamp::max),
            tallies_end_at: tallies_end.fold(list.counted_from, Timestamp::max),
            secret: self.secret.clone(),
            turn: None,
        }
    }

    /// Returns the name of the list that decides about lines whose first was stored at `stored_at`; `None` if every entry had
    /// ended long before, and every tally has ended. Not right after the last end of an entry: the batch that commits then would leave out
    /// what lines from before need.
    pub fn list_for(&self, stored_at: Timestamp, now: Timestamp) -> Option<Uuid> {
        let has_entries = stored_at < self.ends_at + DECIDED_WITHIN;
        let has_tallies = now < self.tallies_end_at;
        self.list.filter(|_| has_entries || has_tallies)
    }
}

/// How a batch goes on that is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin<'l> {
    /// Its record has the decisions.
    Resolved,
    /// The decisions are committed, and the record does not have them yet.
    Adopt(&'l RunRef),
    Resolve,
}

/// Returns how a closed batch goes on. `record` must be read after the manifest that names `list`: a run is merged only once the record
/// of its batch has the decisions.
pub fn begin<'l>(list: &'l RunList, record: &BatchRecord) -> Begin<'l> {
    if record.is_resolved() {
        return Begin::Resolved;
    }
    let of_batch = |run: &&RunRef| run.batch == Some(record.batch_id);
    match list.runs.iter().find(of_batch) {
        Some(run) => Begin::Adopt(run),
        None => Begin::Resolve,
    }
}

impl RunList {
    /// Returns the list as it is once every entry has ended.
    pub fn ended(left_out_until: Timestamp) -> RunList {
        RunList {
            left_out_until,
            ..RunList::default()
        }
    }

    /// Returns the next list, in which a batch has committed `run`. Leaves out the runs whose events ended so long before `now` that every
    /// line that is still to be decided was stored later, unless its batch is stuck, and whose tallies have ended.
    #[must_use]
    pub fn with(&self, run: RunRef, now: Timestamp) -> RunList {
        let past = now.saturating_sub(DECIDED_WITHIN);
        let mut next = self.clone();
        let is_past = |run: &RunRef| run.events_end_at <= past && run.tallies_end_at <= now;
        let ended = self.runs.iter().filter(|run| is_past(run));
        let ends = ended.map(|run| run.events_end_at);
        next.left_out_until = ends.fold(next.left_out_until, Timestamp::max);
        next.runs.retain(|run| !is_past(run));
        next.runs.push(run);
        next
    }

    /// Returns the next list, in which an operator has committed `runs`.
    #[must_use]
    pub fn with_all(&self, runs: Vec<RunRef>) -> RunList {
        let mut next = self.clone();
        next.runs.extend(runs);
        next
    }

    /// Returns the next list, without a run that cannot be read; `None` if it is not listed.
    pub fn without(&self, run: Uuid) -> Option<RunList> {
        let mut next = self.clone();
        next.runs.retain(|listed| listed.run != run);
        (next.runs.len() < self.runs.len()).then_some(next)
    }

    /// Returns the next list, in which `merged` stands in place of the runs `inputs`; `None` if one of them is not listed any more.
    pub fn with_merged(
        &self,
        inputs: &[Uuid],
        merged: Option<RunRef>,
        left_out_until: Timestamp,
    ) -> Option<RunList> {
        let is_listed = |input: &Uuid| self.runs.iter().any(|run| run.run == *input);
        if !inputs.iter().all(is_listed) {
            return None;
        }
        let mut next = self.clone();
        next.runs.retain(|run| !inputs.contains(&run.run));
        next.runs.extend(merged);
        next.left_out_until = next.left_out_until.max(left_out_until);
        Some(next)
    }

    /// Returns the runs to compare with lines whose first was stored at `stored_at`. The others have ended. If there are lines with quotas, and
    /// `tallies_end_at` is the first end of a tally of theirs, also the runs with tallies that end then or later, unless they have ended.
    pub fn runs_for(
        &self,
        stored_at: Timestamp,
        tallies_end_at: Option<Timestamp>,
        now: Timestamp,
    ) -> impl Iterator<Item = &RunRef> {
        let needed = move |run: &&RunRef| {
            let may_count = |ends_at| ends_at <= run.tallies_end_at && now < run.tallies_end_at;
            tallies_end_at.is_some_and(may_count) || run.entries > 0 && stored_at < run.ends_at
        };
        self.runs.iter().filter(needed)
    }
}

/// Returns the runs of each size that has more than [`RUNS_OF_ONE_SIZE_MAX`] runs: the first
/// [`RUNS_INCOMPLETE_MAX`], in the order in which they came.
pub fn crowded(list: &RunList) -> Vec<Vec<&RunRef>> {
    let size = |run: &RunRef| run.entries.checked_ilog(8).map_or(0, |size| size + 1);
    let is_small = |run: &&RunRef| run.entries < RUN_ENTRIES_MAX && run.rows < RUN_ROWS_MAX;
    let runs = list.runs.iter().filter(is_small);
    let mut runs: Vec<&RunRef> = runs.collect();
    runs.sort_by_key(|run| size(run));
    let of_one_size = runs.chunk_by(|left, right| size(left) == size(right));
    let crowded = of_one_size.filter(|runs| runs.len() > RUNS_OF_ONE_SIZE_MAX);
    let first = crowded.map(|runs| &runs[..runs.len().min(RUNS_INCOMPLETE_MAX)]);
    first.map(<[_]>::to_vec).collect()
}

/// Returns which runs of one size are merged: those of complete batches, if there are enough; if there are [`RUNS_INCOMPLETE_MAX`] runs,
/// those of all batches whose records have the decisions. `None` if it is too early. `record_of` returns the records of their batches, read
/// after the manifest.
pub fn mergeable<'l, 'r>(
    runs: &[&'l RunRef],
    record_of: impl Fn(BatchId) -> Option<&'r BatchRecord>,
) -> Option<Vec<&'l RunRef>> {
    let of = |may_merge: &dyn Fn(&BatchRecord) -> bool| {
        let is_done = |batch| record_of(batch).is_some_and(may_merge);
        let done = runs.iter().filter(|run| run.batch.is_none_or(is_done));
        let (mut entries, mut rows) = (0, 0);
        let fit = done.take_while(|run| {
            entries += run.entries;
            rows += run.rows;
            entries <= MERGED_ENTRIES_MAX && rows <= MERGED_ROWS_MAX
        });
        fit.copied().collect::<Vec<_>>()
    };
    let complete = of(&|record| record.completed_at.is_some());
    if complete.len() >= RUNS_OF_ONE_SIZE_MAX {
        return Some(complete);
    }
    let resolved = of(&BatchRecord::is_resolved);
    (runs.len() >= RUNS_INCOMPLETE_MAX && resolved.len() > 1).then_some(resolved)
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
