//! The index of the log: reads the manifest, its list and the runs, and commits what was decided about a batch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::try_join_all;
use protocol::batch::BatchRecord;
use protocol::bodies::Bodies;
use protocol::ids::{BatchId, ObjectId, Seq};
use protocol::limits::{LOG_CALLS_MAX, OWNERS_KEPT_MAX, RUN_ENTRIES_MAX, RUN_ROWS_MAX, RUNS_MAX};
use protocol::log::{
    Begin, Decided, Entry, Input, Line, Manifest, Matches, Owner, RunHeader, RunList, RunRef,
    begin, crowded, merge, mergeable, resolve, run_of,
};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::index::{IndexError, IndexStore, NewRun, OpenIndex, Run, damaged};
use shared::ports::{BatchStore, LockStore, NamedItems, ObjectStore, PortError, Ports};
use shared::retry::{Budget, RequestPermits, bounded};
use tracing::{info, warn};
use uuid::Uuid;

use crate::reading::HandOverError;

/// The part of the index that an environment keeps in memory. It only makes decisions faster.
#[derive(Default)]
struct Kept {
    runs: BTreeMap<Uuid, Arc<Run>>,
    /// Records of complete batches, which do not change any more.
    owners: BTreeMap<BatchId, Arc<BatchRecord>>,
}

/// The lines of a batch, and the entries of their ids and the tallies of their accounts in the runs that were read. A commit that is refused
/// is decided again, with the runs that are new.
pub(crate) struct Undecided {
    lines: Vec<Line>,
    matches: Matches,
    runs: BTreeSet<Uuid>,
}

impl Undecided {
    pub(crate) fn new(lines: Vec<Line>) -> Undecided {
        Undecided {
            matches: Matches::of_ids(lines.iter().map(|line| line.id))
                .with_accounts(lines.iter().filter_map(Line::account)),
            lines,
            runs: BTreeSet::new(),
        }
    }

    fn begin_again(&mut self) {
        *self = Undecided::new(std::mem::take(&mut self.lines));
    }

    pub(crate) fn lines_count(&self) -> usize {
        self.lines.len()
    }
}

/// Reads the index and commits to it.
pub(crate) struct LogIndex {
    lock_store: Arc<dyn LockStore>,
    batch_store: Arc<dyn BatchStore>,
    object_store: Arc<dyn ObjectStore>,
    named_items: Arc<dyn NamedItems>,
    permits: Arc<RequestPermits>,
    /// Bytes of the runs that are kept.
    bytes_kept: usize,
    kept: Mutex<Kept>,
}

/// How much a list names.
pub(crate) struct ListSize {
    pub(crate) runs: u64,
    pub(crate) entries: u64,
}

/// The result of one attempt at a commit.
pub(crate) enum Attempt {
    /// The decisions are committed, by this invocation or an earlier one. The list was that long before.
    Committed(Decided, ListSize),
    /// The record has the decisions already.
    Resolved,
    /// Another commit came first.
    Refused,
}

impl LogIndex {
    pub(crate) fn new(ports: &Ports, permits: Arc<RequestPermits>, bytes_kept: usize) -> LogIndex {
        LogIndex {
            lock_store: ports.lock_store.clone(),
            batch_store: ports.batch_store.clone(),
            object_store: ports.object_store.clone(),
            named_items: ports.named_items.clone(),
            permits,
            bytes_kept,
            kept: Mutex::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the manifest with strong consistency. Makes the first one if there is none, unless the lock table has events, which that
    /// index would not know.
    pub(crate) async fn open(
        &self,
        bodies: &Bodies,
        budget: &Budget<'_>,
    ) -> Result<OpenIndex, HandOverError> {
        let store = self.store(budget);
        if let Some(open) = store.read().await? {
            return Ok(open);
        }
        let has_items = || self.lock_store.has_items();
        let has_items = budget.call(RetryPolicy::CONTROL, has_items).await;
        let has_items = has_items.map_err(|error| match error {
            PortError::Refused { .. } => HandOverError::Permanent(format!("index: none: {error}")),
            error => HandOverError::Service(error),
        })?;
        if has_items {
            return Err(HandOverError::Permanent(
                "index: none, and the lock table has items: expected an index that knows their events; see `batchctl prime`".to_owned(),
            ));
        }
        Ok(store.open(bodies).await?)
    }

    fn store<'a>(&'a self, budget: &'a Budget<'a>) -> IndexStore<'a> {
        IndexStore {
            objects: &*self.object_store,
            named_items: &*self.named_items,
            permits: &self.permits,
            budget,
        }
    }

    /// Has other batches wait while `batch` commits. Returns `false` if one of them committed since the manifest was read.
    pub(crate) async fn take_turn(
        &self,
        index: &OpenIndex,
        batch: BatchId,
        budget: &Budget<'_>,
    ) -> Result<bool, HandOverError> {
        let to = index.manifest.value.with_turn(batch, budget.clock.now());
        let store = self.store(budget);
        let replaced = store.replace_manifest(index.epoch, &index.manifest, &to);
        Ok(replaced.await?)
    }

    /// Decides about the lines of a closed batch by the manifest as it was read, and commits. `record` must have been read after the
    /// manifest.
    pub(crate) async fn commit(
        &self,
        index: &OpenIndex,
        record: &BatchRecord,
        undecided: &mut Undecided,
        budget: &Budget<'_>,
    ) -> Result<Attempt, HandOverError> {
        let lines = undecided.lines.iter();
        let first_stored_at = lines.map(|line| line.stored_at).min();
        let first_stored_at = first_stored_at.unwrap_or(record.created_at);
        let manifest = &index.manifest.value;
        let list = self.list(manifest, first_stored_at, budget).await?;
        let size = ListSize {
            runs: list.runs.len() as u64,
            entries: list.runs.iter().map(|run| run.entries).sum(),
        };
        match begin(&list, record) {
            Begin::Resolved => return Ok(Attempt::Resolved),
            Begin::Adopt(run) => {
                info!(batch_id = %record.batch_id, "decisions of an earlier attempt adopted");
                let adopted = self.run(run, budget).await?;
                return Ok(Attempt::Committed(decided_of(&adopted), size));
            }
            Begin::Resolve => {}
        }
        let decided = self
            .decide(&list, undecided, first_stored_at, budget)
            .await
            .inspect_err(|_| warn!(batch_id = %record.batch_id, "lines cannot be decided"))?;
        let lines = &undecided.lines;
        let run = self.store_winners(record, lines, &decided, budget).await?;
        let next = list.with(run, budget.clock.now());
        if next.runs.len() > RUNS_MAX {
            return Err(HandOverError::Permanent(format!(
                "index: list: got {} runs, expected at most {RUNS_MAX}: merges do not keep up",
                next.runs.len()
            )));
        }
        let store = self.store(budget);
        match store.commit(index, &record.bodies, &next).await? {
            true => Ok(Attempt::Committed(decided, size)),
            false => Ok(Attempt::Refused),
        }
    }

    async fn decide(
        &self,
        list: &RunList,
        undecided: &mut Undecided,
        first_stored_at: Timestamp,
        budget: &Budget<'_>,
    ) -> Result<Decided, HandOverError> {
        // A merge may have taken out an entry together with what forgets it.
        let listed: BTreeSet<Uuid> = list.runs.iter().map(|run| run.run).collect();
        if !undecided.runs.is_subset(&listed) {
            undecided.begin_again();
        }
        let Undecided {
            lines,
            matches,
            runs,
        } = undecided;
        let now = budget.clock.now();
        let tallies_end = lines
            .iter()
            .filter_map(|line| line.quota)
            .map(|one| one.ends_at);
        let needed = list.runs_for(first_stored_at, tallies_end.min(), now);
        let needed: Vec<&RunRef> = needed.filter(|run| !runs.contains(&run.run)).collect();
        let mut left = &*needed;
        while !left.is_empty() {
            let (some, later) = left.split_at(read_at_once(left));
            for (run, read) in some.iter().zip(self.runs(some, budget).await?) {
                let added = matches.add(&read.header.owners, &read.entries);
                added.map_err(|error| damaged(ObjectId::Run(run.run), &error))?;
                matches.add_tallies(&read.header.tallies);
                runs.insert(run.run);
            }
            left = later;
        }
        let owners = self.owners(matches.batches(), budget).await?;
        let record_of = |batch| owners.get(&batch).map(|owner| &**owner);
        resolve(lines, matches, list, record_of, budget.clock.now())
            .map_err(|error| HandOverError::Permanent(error.to_string()))
    }

    /// Returns the records of batches, read now unless they are complete. A batch without a record has no entry.
    async fn owners(
        &self,
        batches: BTreeSet<BatchId>,
        budget: &Budget<'_>,
    ) -> Result<BTreeMap<BatchId, Arc<BatchRecord>>, PortError> {
        let mut owners: BTreeMap<BatchId, Arc<BatchRecord>> = {
            let kept = self.kept();
            let known = |batch| Some((batch, kept.owners.get(&batch)?.clone()));
            batches.iter().copied().filter_map(known).collect()
        };
        let reads = batches
            .into_iter()
            .filter(|batch| !owners.contains_key(batch));
        let reads = reads.map(|batch| async move {
            let read = || self.permits.with(budget, self.batch_store.read(batch));
            budget.call(RetryPolicy::CONTROL, read).await
        });
        for read in bounded(reads.collect(), LOG_CALLS_MAX).await {
            if let Some(record) = read?.map(Arc::new) {
                let batch = record.batch_id;
                if record.completed_at.is_some() {
                    let mut kept = self.kept();
                    if kept.owners.len() >= OWNERS_KEPT_MAX {
                        kept.owners.pop_first();
                    }
                    kept.owners.insert(batch, record.clone());
                }
                owners.insert(batch, record);
            }
        }
        Ok(owners)
    }

    async fn list(
        &self,
        manifest: &Manifest,
        first_stored_at: Timestamp,
        budget: &Budget<'_>,
    ) -> Result<RunList, HandOverError> {
        let store = self.store(budget);
        let list = store.list_for(manifest, first_stored_at).await?;
        let listed: BTreeSet<Uuid> = list.runs.iter().map(|run| run.run).collect();
        self.kept().runs.retain(|run, _| listed.contains(run));
        Ok(list)
    }

    /// Returns runs in the order of `runs`, read at once.
    async fn runs(
        &self,
        runs: &[&RunRef],
        budget: &Budget<'_>,
    ) -> Result<Vec<Arc<Run>>, HandOverError> {
        try_join_all(runs.iter().map(|run| self.run(run, budget))).await
    }

    async fn run(&self, run: &RunRef, budget: &Budget<'_>) -> Result<Arc<Run>, HandOverError> {
        let kept = self.kept().runs.get(&run.run).cloned();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let read = Arc::new(self.store(budget).run(run).await?);
        let mut kept = self.kept();
        let bytes: usize = kept.runs.values().map(|run| run.bytes()).sum();
        if bytes + read.bytes() <= self.bytes_kept {
            kept.runs.insert(run.run, read.clone());
        }
        Ok(read)
    }

    /// Stores the run of the winners, with the places that they take, and the lines that did not win.
    async fn store_winners(
        &self,
        record: &BatchRecord,
        lines: &[Line],
        decided: &Decided,
        budget: &Budget<'_>,
    ) -> Result<RunRef, HandOverError> {
        let owner = Owner::batch(record.batch_id, record.created_at, record.dedup_window);
        let winners = lines
            .iter()
            .filter(|line| decided.winners.contains(line.seq));
        let winners = run_of(winners.map(|line| (decided.owner_of(line, owner), line.entry())));
        let ends_at = winners.owners.iter().map(|owner| owner.ends_at());
        let ends_at = ends_at.fold(owner.ends_at(), Timestamp::max);
        let header = RunHeader {
            owners: winners.owners,
            duplicates: decided.duplicates.clone(),
            conflicts: decided.conflicts.clone(),
            beyond_quota: decided.beyond_quota.clone(),
            tallies: decided.tallies.clone(),
        };
        let run = NewRun {
            bodies: &record.bodies,
            ends_at,
            events_end_at: ends_at,
            batch: Some(record.batch_id),
        };
        let store = self.store(budget);
        Ok(store.store_run(run, &header, &winners.entries).await?)
    }

    /// Merges runs if there are many of one size. `bodies` says where the merged run and the list go.
    pub(crate) async fn merge(
        &self,
        bodies: &Bodies,
        budget: &Budget<'_>,
    ) -> Result<(), HandOverError> {
        let Some(index) = self.store(budget).read().await? else {
            return Ok(());
        };
        let manifest = &index.manifest.value;
        let list = self.list(manifest, Timestamp::EPOCH, budget).await?;
        let crowded = crowded(&list);
        // Another batch has its turn, and would be refused.
        let turn = manifest.turn;
        let waits = turn.is_some_and(|turn| budget.clock.now() < turn.until);
        if crowded.is_empty() || waits {
            return Ok(());
        }
        // After the manifest, as for lines.
        let runs = crowded.iter().flatten();
        let owners = self.owners(runs.filter_map(|run| run.batch).collect(), budget);
        let owners = owners.await?;
        let record_of = |batch| owners.get(&batch).map(|owner| &**owner);
        let mut merged = Ok(());
        for inputs in crowded.iter().filter_map(|runs| mergeable(runs, record_of)) {
            let merge = self.merge_runs(&index, &list, &inputs, record_of, bodies, budget);
            merged = merge.await;
            // A run that cannot be read keeps only those of its size from being merged.
            if merged.is_ok() {
                break;
            }
        }
        merged
    }

    async fn merge_runs<'r>(
        &self,
        index: &OpenIndex,
        list: &RunList,
        inputs: &[&RunRef],
        record_of: impl Fn(BatchId) -> Option<&'r BatchRecord>,
        bodies: &Bodies,
        budget: &Budget<'_>,
    ) -> Result<(), HandOverError> {
        let runs = self.runs(inputs, budget).await?;
        let entries = runs.iter().map(|run| (&run.header, &*run.entries));
        let entries: Vec<Input<'_>> = entries.collect();
        let merged = merge(&entries, record_of, budget.clock.now())
            .map_err(|(position, error)| damaged(ObjectId::Run(inputs[position].run), &error))?;
        let (left_out_until, entries_count) = (merged.left_out_until, merged.entries.len());
        // A large run takes a while to store, and another commit in between has been in vain.
        if self.open(bodies, budget).await?.manifest.version != index.manifest.version {
            return Ok(());
        }
        let store = self.store(budget);
        let run = store.store_merged(bodies, merged).await?;
        let names: Vec<Uuid> = inputs.iter().map(|run| run.run).collect();
        let next = list.with_merged(&names, run, left_out_until);
        if let Some(next) = next
            && store.commit(index, bodies, &next).await?
        {
            info!(runs_count = names.len(), entries_count, "runs merged");
        }
        Ok(())
    }
}

/// Returns how many of the first runs are read at once: together they are no larger than a large run, which is read by itself.
fn read_at_once(runs: &[&RunRef]) -> usize {
    let (mut entries, mut rows) = (0, 0);
    let small = runs.iter().take_while(|run| {
        entries += run.entries;
        rows += run.rows;
        entries <= RUN_ENTRIES_MAX && rows <= RUN_ROWS_MAX
    });
    small.count().max(1)
}

/// Returns the decisions that a batch has committed as its run.
fn decided_of(run: &Run) -> Decided {
    let seqs = run.entries.iter().map(|bytes| Entry::from_bytes(bytes).seq);
    let winners: SeqSet = seqs.collect::<BTreeSet<Seq>>().into_iter().collect();
    Decided {
        winners,
        redelivered: SeqSet::new(),
        duplicates: run.header.duplicates.clone(),
        conflicts: run.header.conflicts.clone(),
        beyond_quota: run.header.beyond_quota.clone(),
        ..Decided::default()
    }
}

impl From<IndexError> for HandOverError {
    fn from(error: IndexError) -> HandOverError {
        match error {
            IndexError::Damaged(_) | IndexError::Unreadable(_) => {
                HandOverError::Permanent(error.to_string())
            }
            IndexError::Port(error) => HandOverError::Service(error),
        }
    }
}
