//! The list of runs, which the manifest names.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::entry::{IndexSecret, Owner};
use crate::batch::BatchRecord;
use crate::bodies::Bodies;
use crate::ids::BatchId;
use crate::limits::{RUN_ENTRIES_MAX, RUNS_OF_ONE_SIZE_MAX};
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
    /// The batch that committed it, until it is merged.
    pub batch: Option<BatchId>,
}

/// An immutable list of runs. The manifest has the name of the present one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    /// How many commits and merges came before.
    pub version: u64,
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

/// The manifest: the name of the present list, and the secret of the index. Names are never used twice, so the name also says which
/// version it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Manifest {
    pub list: Option<Uuid>,
    /// Where the list is.
    pub bodies: Bodies,
    /// 32 bytes; empty before the first commit.
    #[serde(with = "serde_bytes")]
    pub secret: Vec<u8>,
}

impl Manifest {
    /// Returns the secret; `None` if there is no index yet.
    pub fn secret(&self) -> Option<IndexSecret> {
        let secret = <[u8; 32]>::try_from(self.secret.as_slice()).ok()?;
        Some(IndexSecret::new(secret))
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
    /// Returns the next list, in which a batch has committed `run`.
    #[must_use]
    pub fn with(&self, run: RunRef) -> RunList {
        let mut next = self.clone();
        next.version += 1;
        next.runs.push(run);
        next
    }

    /// Returns the next list, in which `merged` stand in place of the runs `inputs`; `None` if one of them is not listed any more.
    pub fn with_merged(
        &self,
        inputs: &[Uuid],
        merged: Vec<RunRef>,
        left_out_until: Timestamp,
    ) -> Option<RunList> {
        let is_listed = |input: &Uuid| self.runs.iter().any(|run| run.run == *input);
        if !inputs.iter().all(is_listed) {
            return None;
        }
        let mut next = self.clone();
        next.version += 1;
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
/// has so many. `is_resolved` says whether the record of a batch has its decisions.
pub fn mergeable(list: &RunList, is_resolved: impl Fn(BatchId) -> bool) -> Option<Vec<&RunRef>> {
    let may_merge = |run: &&RunRef| {
        let is_done = run.batch.is_none_or(&is_resolved);
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
            batch: Some(batch(number)),
        }
    }

    fn list(runs: Vec<RunRef>) -> RunList {
        RunList {
            version: 7,
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
    fn a_commit_adds_its_run_and_a_version() {
        let next = list(vec![run(1, 9)]).with(run(2, 0));
        assert_eq!(next.version, 8);
        assert_eq!(next.runs, [run(1, 9), run(2, 0)]);
        assert_eq!(next.left_out_until, Timestamp::from_ms(5));
    }

    #[test]
    fn a_merge_replaces_its_inputs_and_only_while_all_are_listed() {
        let before = list(vec![run(1, 9), run(2, 9), run(3, 9)]);
        let merged = || {
            vec![RunRef {
                batch: None,
                ..run(9, 18)
            }]
        };
        let inputs = [Uuid::from_u128(1), Uuid::from_u128(3)];
        let at = Timestamp::from_ms;
        let next = before.with_merged(&inputs, merged(), at(8)).unwrap();
        assert_eq!(next.version, 8);
        assert_eq!(next.runs, [vec![run(2, 9)], merged()].concat());
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
