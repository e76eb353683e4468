//! The list of runs, which the manifest names.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::entry::{IndexSecret, Owner};
use crate::batch::BatchRecord;
use crate::bodies::Bodies;
use crate::ids::BatchId;
use crate::limits::{
    COMMIT_TURN, DECIDED_WITHIN, MERGED_ENTRIES_MAX, RUN_ENTRIES_MAX, RUNS_INCOMPLETE_MAX,
    RUNS_OF_ONE_SIZE_MAX,
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
}

/// The header of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunHeader {
    pub owners: Vec<Owner>,
    /// Of a run that a batch committed: its duplicates and conflicts. The entries are its winners.
    pub duplicates: SeqSet,
    pub conflicts: SeqSet,
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
        Manifest {
            list: Some(name),
            bodies: bodies.clone(),
            ends_at: ends.fold(list.left_out_until, Timestamp::max),
            secret: self.secret.clone(),
            turn: None,
        }
    }

    /// Returns the name of the list that decides about lines whose first was stored at `stored_at`; `None` if every entry had
    /// ended long before. Not right after the last end: the batch that commits then would leave out what lines from before need.
    pub fn list_for(&self, stored_at: Timestamp) -> Option<Uuid> {
        self.list
            .filter(|_| stored_at < self.ends_at + DECIDED_WITHIN)
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
            runs: Vec::new(),
            left_out_until,
        }
    }

    /// Returns the next list, in which a batch has committed `run`. Leaves out the runs whose events ended at or before `past`.
    #[must_use]
    pub fn with(&self, run: RunRef, past: Timestamp) -> RunList {
        let mut next = self.clone();
        let is_past = |run: &RunRef| run.events_end_at <= past;
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

    /// Returns the runs to compare with lines whose first was stored at `stored_at`. The others have ended.
    pub fn runs_for(&self, stored_at: Timestamp) -> impl Iterator<Item = &RunRef> {
        let needed = move |run: &&RunRef| run.entries > 0 && stored_at < run.ends_at;
        self.runs.iter().filter(needed)
    }
}

/// Returns the runs of each size that has more than [`RUNS_OF_ONE_SIZE_MAX`] runs: the first
/// [`RUNS_INCOMPLETE_MAX`], in the order in which they came.
pub fn crowded(list: &RunList) -> Vec<Vec<&RunRef>> {
    let size = |run: &RunRef| run.entries.checked_ilog(8).map_or(0, |size| size + 1);
    let runs = list.runs.iter().filter(|run| run.entries < RUN_ENTRIES_MAX);
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
        let mut entries = 0;
        let fit = done.take_while(|run| {
            entries += run.entries;
            entries <= MERGED_ENTRIES_MAX
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
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bodies::ObjectPlace;

    fn batch(number: u128) -> BatchId {
        BatchId::new(Uuid::from_u128(number))
    }

    fn run(number: u128, entries: u64) -> RunRef {
        RunRef {
            run: Uuid::from_u128(number),
            hash: [0; 16],
            bodies: Bodies::Log(ObjectPlace::Table),
            entries,
            ends_at: Timestamp::from_ms(100),
            events_end_at: Timestamp::from_ms(90),
            batch: Some(batch(number)),
        }
    }

    fn list(runs: Vec<RunRef>) -> RunList {
        RunList {
            runs,
            left_out_until: Timestamp::from_ms(5),
        }
    }

    fn record() -> BatchRecord {
        let source = "arn:q".parse().unwrap();
        let at = Timestamp::from_ms(1);
        BatchRecord::open(batch(2), source, None, 1, at, at)
            .with_bodies(Bodies::Log(ObjectPlace::Table), Duration::ZERO)
    }

    #[test]
    fn a_batch_adopts_what_it_has_committed_and_else_resolves() {
        let mut record = record();
        assert_eq!(begin(&list(vec![run(1, 9)]), &record), Begin::Resolve);
        let committed = list(vec![run(1, 9), run(2, 9)]);
        assert_eq!(begin(&committed, &record), Begin::Adopt(&run(2, 9)));
        let merged = RunRef {
            batch: None,
            ..run(2, 9)
        };
        assert_eq!(begin(&list(vec![merged]), &record), Begin::Resolve);
        record.reservations.as_mut().unwrap().resolution = Some(Default::default());
        assert_eq!(begin(&committed, &record), Begin::Resolved);
        assert_eq!(begin(&list(Vec::new()), &record), Begin::Resolved);
    }

    #[test]
    fn a_commit_adds_its_run_and_leaves_out_what_has_ended() {
        let at = Timestamp::from_ms;
        let next = list(vec![run(1, 9)]).with(run(2, 0), at(89));
        assert_eq!(next.runs, [run(1, 9), run(2, 0)]);
        assert_eq!(next.left_out_until, at(5));
        let later = RunRef {
            events_end_at: at(200),
            ..run(3, 1)
        };
        let next = next.with(later.clone(), at(90));
        assert_eq!(next.runs, [later]);
        assert_eq!(next.left_out_until, at(90));
        // The bound of an earlier merge stays in force.
        let next = list(vec![run(1, 9)]).with_merged(&[], None, at(150));
        let next = next.unwrap().with(run(2, 0), at(100));
        assert_eq!(next.left_out_until, at(150));
    }

    #[test]
    fn a_manifest_says_when_the_last_entry_of_its_list_ends() {
        let at = Timestamp::from_ms;
        let name = Uuid::from_u128(7);
        let log = Bodies::Log(ObjectPlace::Table);
        let before = Manifest {
            secret: vec![1; 32],
            ..Manifest::default()
        };
        let of = |list: &RunList| before.with_list(name, &log, list);
        let manifest = of(&list(vec![run(1, 9), run(2, 0)]));
        assert_eq!((manifest.ends_at, &manifest.bodies), (at(100), &log));
        assert_eq!(manifest.secret(), Some(IndexSecret::new([1; 32])));
        let long_after = at(100) + DECIDED_WITHIN;
        let before = long_after.saturating_sub(Duration::from_millis(1));
        assert_eq!(manifest.list_for(before), Some(name));
        assert_eq!(manifest.list_for(long_after), None);
        assert_eq!(of(&RunList::ended(at(300))).ends_at, at(300));
        assert_eq!(Manifest::default().list_for(at(0)), None);
        assert_eq!(Manifest::default().secret(), None);
        assert_eq!(RunList::ended(at(300)).left_out_until, at(300));
    }

    #[test]
    fn others_wait_for_the_turn_of_a_batch_until_it_ends_or_commits() {
        let now = Timestamp::from_ms(1_000);
        let manifest = Manifest::default().with_turn(batch(1), now);
        let until = now + COMMIT_TURN;
        assert!(manifest.is_turn_of_another(batch(2), now));
        assert!(!manifest.is_turn_of_another(batch(2), until));
        let behind = now.saturating_sub(Duration::from_millis(1));
        assert!(!manifest.is_turn_of_another(batch(2), behind));
        assert!(!manifest.is_turn_of_another(batch(1), now));
        assert!(!Manifest::default().is_turn_of_another(batch(2), now));
        let log = Bodies::Log(ObjectPlace::Table);
        let committed = manifest.with_list(Uuid::nil(), &log, &RunList::default());
        assert_eq!(committed.turn, None);
    }

    #[test]
    fn a_merge_replaces_its_inputs_and_only_while_all_are_listed() {
        let before = list(vec![run(1, 9), run(2, 9), run(3, 9)]);
        let merged = || {
            Some(RunRef {
                batch: None,
                ..run(9, 18)
            })
        };
        let inputs = [Uuid::from_u128(1), Uuid::from_u128(3)];
        let at = Timestamp::from_ms;
        let next = before.with_merged(&inputs, merged(), at(8)).unwrap();
        assert_eq!(next.runs, [run(2, 9), merged().unwrap()]);
        assert_eq!(next.left_out_until, at(8));
        let earlier = before.with_merged(&inputs, merged(), at(3)).unwrap();
        assert_eq!(earlier.left_out_until, at(5));
        assert_eq!(next.with_merged(&inputs, merged(), at(8)), None);
    }

    #[test]
    fn an_operator_adds_runs_and_takes_one_out_that_is_listed() {
        let before = list(vec![run(1, 9)]);
        let next = before.with_all(vec![run(2, 9), run(3, 9)]);
        assert_eq!(next.runs, [run(1, 9), run(2, 9), run(3, 9)]);
        assert_eq!(next.left_out_until, before.left_out_until);
        let left = next.without(Uuid::from_u128(2)).unwrap();
        assert_eq!(left.runs, [run(1, 9), run(3, 9)]);
        assert_eq!(left.without(Uuid::from_u128(2)), None);
    }

    #[test]
    fn a_run_that_has_ended_or_is_empty_is_not_read() {
        let empty = run(1, 0);
        let list = list(vec![empty, run(2, 1)]);
        let needed = |ms| Vec::from_iter(list.runs_for(Timestamp::from_ms(ms)).map(|run| run.run));
        assert_eq!(needed(99), [Uuid::from_u128(2)]);
        assert!(needed(100).is_empty());
    }

    #[test]
    fn more_than_eight_runs_of_one_size_are_crowded() {
        let runs = |numbers: std::ops::Range<u128>, entries| numbers.map(move |n| run(n, entries));
        let sizes = |list: &RunList| Vec::from_iter(crowded(list).iter().map(Vec::len));
        let eight = list(runs(1..9, 9).collect());
        assert!(crowded(&eight).is_empty());
        // 9 and 63 entries are of one size, 64 are of another; 0 have their own.
        let mixed = runs(1..9, 9).chain(runs(9..10, 64));
        let small = runs(10..18, 0).chain(runs(18..19, 1));
        assert!(crowded(&list(mixed.chain(small).collect())).is_empty());
        let two = runs(1..9, 9).chain(runs(9..10, 63)).chain(runs(20..30, 1));
        assert_eq!(sizes(&list(two.collect())), [10, 9]);
        assert_eq!(
            sizes(&list(runs(1..100, 9).collect())),
            [RUNS_INCOMPLETE_MAX]
        );
        let full = list(runs(1..20, RUN_ENTRIES_MAX).collect());
        assert!(crowded(&full).is_empty());
    }

    #[test]
    fn runs_of_complete_batches_are_merged_and_of_many_those_of_decided_ones_too() {
        let record = |number: u128, is_resolved: bool, is_complete: bool| {
            let mut record = record();
            record.batch_id = batch(number);
            record.reservations.as_mut().unwrap().resolution =
                bool::then(is_resolved, Default::default);
            record.completed_at = is_complete.then(|| Timestamp::from_ms(9));
            record
        };
        let merged = |count: u128, records: &[BatchRecord], entries| {
            let list = list((1..=count).map(|n| run(n, entries)).collect());
            let record_of = |id| records.iter().find(|record| record.batch_id == id);
            let runs: Vec<&RunRef> = list.runs.iter().collect();
            mergeable(&runs, record_of).map(|runs| runs.len())
        };
        let complete = |count: u128| Vec::from_iter((1..=count).map(|n| record(n, true, true)));
        let resolved = |count: u128| Vec::from_iter((1..=count).map(|n| record(n, true, false)));
        let undecided = |count: u128| Vec::from_iter((1..=count).map(|n| record(n, false, false)));
        assert_eq!(merged(9, &complete(9), 9), Some(9));
        assert_eq!(merged(9, &complete(8), 9), Some(8));
        assert_eq!(merged(9, &complete(7), 9), None);
        assert_eq!(merged(9, &resolved(9), 9), None);
        assert_eq!(merged(64, &resolved(63), 9), Some(63));
        assert_eq!(merged(64, &resolved(1), 9), None);
        assert_eq!(merged(64, &undecided(64), 9), None);
        assert_eq!(merged(64, &[], 9), None);
        // As many as fit into memory.
        assert_eq!(merged(20, &complete(20), RUN_ENTRIES_MAX / 2), Some(16));
        let of_merged = RunRef {
            batch: None,
            ..run(1, 9)
        };
        let runs = vec![&of_merged; 9];
        assert_eq!(mergeable(&runs, |_| None).map(|runs| runs.len()), Some(9));
    }
}
