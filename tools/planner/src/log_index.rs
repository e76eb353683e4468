//! The index of the log: its runs, and which of them each environment of the batch-processor keeps.

use std::collections::{BTreeMap, BTreeSet};

use protocol::limits::{
    INDEX_BYTES_KEPT, MERGED_ENTRIES_MAX, RUN_ENTRIES_MAX, RUNS_INCOMPLETE_MAX,
    RUNS_OF_ONE_SIZE_MAX,
};
use protocol::log::ENTRY_BYTES;

use super::batches::BatchId;
use super::calibration::{LIST_ENTRY_BYTES, RUN_HEADER_BYTES};
use super::environments::EnvironmentId;

/// The runs that the list names, and what each environment of the batch-processor keeps of them.
#[derive(Debug, Default)]
pub struct Index {
    pub(super) runs: Vec<Run>,
    names: u64,
    /// How often the manifest was replaced.
    pub version: u64,
    kept: BTreeMap<EnvironmentId, BTreeSet<u64>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) name: u64,
    pub(super) entries: u64,
    /// The batch that committed it, until it is merged.
    batch: Option<BatchId>,
}

/// Returns the bytes of a run with so many entries.
pub(super) fn run_bytes(entries: u64) -> f64 {
    RUN_HEADER_BYTES + (entries * ENTRY_BYTES as u64) as f64
}

impl Index {
    /// Makes an index with so many entries, which were merged.
    pub fn new(entries: u64) -> Index {
        let mut index = Index::default();
        let mut left = entries;
        while left > 0 {
            let merged = left.min(MERGED_ENTRIES_MAX);
            index.add(merged, None);
            left -= merged;
        }
        index
    }

    pub(super) fn add(&mut self, entries: u64, batch: Option<BatchId>) {
        self.names += 1;
        let name = self.names;
        self.runs.push(Run {
            name,
            entries,
            batch,
        });
    }

    pub(super) fn list_bytes(&self) -> f64 {
        RUN_HEADER_BYTES + self.runs.len() as f64 * LIST_ENTRY_BYTES
    }

    /// Returns the runs that an environment must read to have all of these. It keeps them as far as they fit.
    pub(super) fn unread(&mut self, environment: EnvironmentId, wanted: &[Run]) -> Vec<Run> {
        let kept = self.kept.entry(environment).or_default();
        let listed: BTreeMap<u64, u64> = self
            .runs
            .iter()
            .map(|run| (run.name, run.entries))
            .collect();
        kept.retain(|name| listed.contains_key(name));
        let mut entries: u64 = kept.iter().map(|name| listed[name]).sum();
        let unread = wanted.iter().filter(|run| !kept.contains(&run.name));
        let unread: Vec<Run> = unread.copied().collect();
        for run in &unread {
            if (entries + run.entries) * ENTRY_BYTES as u64 <= INDEX_BYTES_KEPT as u64 {
                entries += run.entries;
                kept.insert(run.name);
            }
        }
        unread
    }

    /// Returns the runs of one size that are merged now; none if there are few.
    pub(super) fn mergeable(&self, is_complete: impl Fn(BatchId) -> bool) -> Vec<Run> {
        let size = |run: &Run| run.entries.checked_ilog(8);
        let runs = self.runs.iter().filter(|run| run.entries < RUN_ENTRIES_MAX);
        let mut runs: Vec<Run> = runs.copied().collect();
        runs.sort_by_key(size);
        let of_one_size = runs.chunk_by(|left, right| size(left) == size(right));
        let crowded = of_one_size.filter(|runs| runs.len() > RUNS_OF_ONE_SIZE_MAX);
        let mut merged = crowded.map(|runs| {
            let mut entries = 0;
            let done = runs.iter().take(RUNS_INCOMPLETE_MAX);
            let done = done.filter(|run| run.batch.is_none_or(&is_complete));
            let fit = done.take_while(|run| {
                entries += run.entries;
                entries <= MERGED_ENTRIES_MAX
            });
            fit.copied().collect::<Vec<Run>>()
        });
        let enough = merged.find(|runs| runs.len() >= RUNS_OF_ONE_SIZE_MAX);
        enough.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_size_are_merged_once_there_are_nine_and_their_batches_are_complete() {
        let mut index = Index::default();
        for batch in 0..9 {
            assert!(index.mergeable(|_| true).is_empty());
            index.add(50_000, Some(batch));
        }
        assert_eq!(index.mergeable(|batch| batch < 7).len(), 0);
        assert_eq!(index.mergeable(|batch| batch < 8).len(), 8);
        assert_eq!(index.mergeable(|_| true).len(), 9);
        assert_eq!(Index::new(4_000_000).mergeable(|_| true).len(), 0);
    }

    #[test]
    fn an_environment_keeps_runs_as_far_as_they_fit() {
        let mut index = Index::new(2_000_000);
        let all = index.runs.clone();
        assert_eq!(index.unread(0, &all).len(), 4);
        let again: u64 = index.unread(0, &all).iter().map(|run| run.entries).sum();
        assert!(
            again > 2_000_000 - (INDEX_BYTES_KEPT / ENTRY_BYTES) as u64,
            "{again}"
        );
        assert_eq!(index.unread(1, &all).len(), 4);
    }
}
