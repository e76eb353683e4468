//! The list of runs, which the manifest names.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::entry::{IndexSecret, Owner};
use crate::batch::BatchRecord;
use crate::bodies::Bodies;
use crate::ids::BatchId;
use crate::limits::{COMMIT_TURN, RUN_ENTRIES_MAX, RUNS_OF_ONE_SIZE_MAX};
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

/// The manifest: the name of the present list, and the secret of the index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Manifest {
    pub list: Option<Uuid>,
    /// Where the list is.
    pub bodies: Bodies,
    /// The latest end of its entries. Lines that were stored later need none of them, and the list may be gone by then.
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

    /// Returns until when `batch` waits for another batch that commits first. A turn that seems to last longer than one is of a clock that
    /// is ahead, and nobody waits for it.
    pub fn waits_until(&self, batch: BatchId, now: Timestamp) -> Option<Timestamp> {
        let turn = self.turn.filter(|turn| turn.batch != batch)?;
        (now < turn.until && turn.until <= now + COMMIT_TURN).then_some(turn.until)
    }

    /// Returns whether it is the turn of `batch`.
    pub fn has_turn(&self, batch: BatchId, now: Timestamp) -> bool {
        self.turn
            .is_some_and(|turn| turn.batch == batch && now < turn.until)
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

    /// Returns the name of the list that decides about lines of which the first was stored at `stored_at`; `None` if every entry had
    /// ended by then.
    pub fn list_for(&self, stored_at: Timestamp) -> Option<Uuid> {
        self.list.filter(|_| stored_at < self.ends_at)
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

    /// Returns the runs that lines of which the first was stored at `stored_at` must be compared with. The others have ended.
    pub fn runs_for(&self, stored_at: Timestamp) -> impl Iterator<Item = &RunRef> {
        let needed = move |run: &&RunRef| run.entries > 0 && stored_at < run.ends_at;
        self.runs.iter().filter(needed)
    }
}

/// Returns runs that should be merged: more than [`RUNS_OF_ONE_SIZE_MAX`] of one size, so that a batch reads few runs; `None` if no size
/// has so many. `may_merge` says whether the record of a batch has its decisions.
pub fn mergeable(list: &RunList, may_merge: impl Fn(BatchId) -> bool) -> Option<Vec<&RunRef>> {
    let may_merge = |run: &&RunRef| {
        let is_done = run.batch.is_none_or(&may_merge);
        is_done && run.entries < RUN_ENTRIES_MAX
    };
    let size = |run: &RunRef| run.entries.checked_ilog(8).map_or(0, |size| size + 1);
    let mut runs: Vec<&RunRef> = list.runs.iter().filter(may_merge).collect();
    runs.sort_by_key(|run| size(run));
    let of_one_size = runs.chunk_by(|left, right| size(left) == size(right));
    let mut crowded = of_one_size.filter(|runs| runs.len() > RUNS_OF_ONE_SIZE_MAX);
    crowded.next().map(<[_]>::to_vec)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bodies::ChunkPlace;

    fn batch(number: u128) -> BatchId {
        BatchId::new(Uuid::from_u128(number))
    }

    fn run(number: u128, entries: u64) -> RunRef {
        RunRef {
            run: Uuid::from_u128(number),
            hash: [0; 16],
            bodies: Bodies::Log(ChunkPlace::Table),
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
            .with_bodies(Bodies::Log(ChunkPlace::Table), Duration::ZERO)
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
        record.log.as_mut().unwrap().resolution = Some(Default::default());
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
        // What a merge left out before stays in force.
        let next = list(vec![run(1, 9)]).with_merged(&[], None, at(150));
        let next = next.unwrap().with(run(2, 0), at(100));
        assert_eq!(next.left_out_until, at(150));
    }

    #[test]
    fn a_manifest_says_when_the_last_entry_of_its_list_ends() {
        let at = Timestamp::from_ms;
        let name = Uuid::from_u128(7);
        let log = Bodies::Log(ChunkPlace::Table);
        let before = Manifest {
            secret: vec![1; 32],
            ..Manifest::default()
        };
        let of = |list: &RunList| before.with_list(name, &log, list);
        let manifest = of(&list(vec![run(1, 9), run(2, 0)]));
        assert_eq!((manifest.ends_at, &manifest.bodies), (at(100), &log));
        assert_eq!(manifest.secret, before.secret);
        assert_eq!(manifest.list_for(at(99)), Some(name));
        assert_eq!(manifest.list_for(at(100)), None);
        assert_eq!(of(&RunList::ended(at(300))).ends_at, at(300));
        assert_eq!(before.list_for(at(0)), None);
        assert_eq!(RunList::ended(at(300)).left_out_until, at(300));
    }

    #[test]
    fn others_wait_for_the_turn_of_a_batch_until_it_ends_or_commits() {
        let now = Timestamp::from_ms(1_000);
        let manifest = Manifest::default().with_turn(batch(1), now);
        let until = now + COMMIT_TURN;
        assert_eq!(manifest.waits_until(batch(2), now), Some(until));
        assert_eq!(manifest.waits_until(batch(2), until), None);
        let behind = now.saturating_sub(Duration::from_millis(1));
        assert_eq!(manifest.waits_until(batch(2), behind), None);
        assert_eq!(manifest.waits_until(batch(1), now), None);
        assert!(manifest.has_turn(batch(1), now) && !manifest.has_turn(batch(2), now));
        assert!(!manifest.has_turn(batch(1), until));
        assert_eq!(Manifest::default().waits_until(batch(2), now), None);
        let log = Bodies::Log(ChunkPlace::Table);
        let committed = manifest.with_list(Uuid::nil(), &log, &RunList::default());
        assert_eq!(committed.waits_until(batch(2), now), None);
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
    fn a_run_that_has_ended_or_is_empty_is_not_read() {
        let empty = run(1, 0);
        let list = list(vec![empty, run(2, 1)]);
        let needed = |ms| Vec::from_iter(list.runs_for(Timestamp::from_ms(ms)).map(|run| run.run));
        assert_eq!(needed(99), [Uuid::from_u128(2)]);
        assert!(needed(100).is_empty());
    }

    #[test]
    fn more_than_eight_runs_of_one_size_are_merged_and_only_those_of_resolved_batches() {
        let runs = |numbers: std::ops::Range<u128>, entries| numbers.map(move |n| run(n, entries));
        let eight = list(runs(1..9, 9).collect());
        assert_eq!(mergeable(&eight, |_| true), None);
        // 9 and 63 entries are of one size, 64 are of another; 0 have their own.
        let mixed = list(
            runs(1..9, 9)
                .chain(runs(9..10, 64))
                .chain(runs(10..18, 0))
                .collect(),
        );
        assert_eq!(mergeable(&mixed, |_| true), None);
        let nine = list(runs(1..9, 9).chain(runs(9..10, 63)).collect());
        assert_eq!(mergeable(&nine, |_| true).unwrap().len(), 9);
        assert_eq!(mergeable(&nine, |id| id != batch(4)), None);
        let mut merged = nine;
        merged.runs.iter_mut().for_each(|run| run.batch = None);
        assert_eq!(mergeable(&merged, |_| false).unwrap().len(), 9);
        let full = list(runs(1..20, RUN_ENTRIES_MAX).collect());
        assert_eq!(mergeable(&full, |_| true), None);
    }
}
