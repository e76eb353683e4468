//! The index of the log: reads the manifest, its list and the runs, and commits what was decided about a batch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::batch::BatchRecord;
use protocol::bodies::{Bodies, ChunkSizes};
use protocol::ids::{BatchId, ObjectId, Seq};
use protocol::limits::{LOG_CALLS_MAX, LOG_RETENTION, OWNERS_KEPT_MAX, RUNS_KEPT_BYTES_MAX};
use protocol::log::{
    Begin, Decided, ENTRY_BYTES, Entry, IdHash, IndexSecret, Line, Manifest, Matches, Owner,
    RunHeader, RunList, RunRef, begin, object_hash, resolve,
};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::index_run::{Entries, decode_list, decode_run, encode_list, encode_run};
use shared::named_items::Versioned;
use shared::ports::{BatchStore, ChunkStore, Entropy, NamedItems, PortError, Ports, StoredEvent};
use shared::retry::{
    Budget, NotStored, ObjectRules, RequestPermits, bounded, read_object, store_object,
};
use tracing::{info, warn};
use uuid::Uuid;

use crate::reading::HandOverError;

/// A line before it is hashed.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) event: StoredEvent,
    /// When its load was stored.
    pub(crate) stored_at: Timestamp,
}

/// A run that was read.
struct Run {
    header: RunHeader,
    entries: Entries,
}

/// What an environment keeps of the index. It decides how fast lines are decided, and nothing else.
#[derive(Default)]
struct Kept {
    runs: BTreeMap<Uuid, Arc<Run>>,
    /// Records of complete batches, which do not change any more.
    owners: BTreeMap<BatchId, Arc<BatchRecord>>,
}

/// Reads the index and commits to it.
pub(crate) struct LogIndex {
    batch_store: Arc<dyn BatchStore>,
    object_store: Arc<dyn ChunkStore>,
    named_items: Arc<dyn NamedItems>,
    entropy: Arc<dyn Entropy>,
    permits: Arc<RequestPermits>,
    kept: Mutex<Kept>,
}

/// What one attempt at a commit came to.
pub(crate) enum Attempt {
    /// The decisions are committed, by this invocation or an earlier one.
    Committed(Decided),
    /// The record has the decisions already.
    Resolved,
    /// Another commit came first.
    Refused,
}

impl LogIndex {
    pub(crate) fn new(ports: &Ports, permits: Arc<RequestPermits>) -> LogIndex {
        LogIndex {
            batch_store: ports.batch_store.clone(),
            object_store: ports.chunk_store.clone(),
            named_items: ports.named_items.clone(),
            entropy: ports.entropy.clone(),
            permits,
            kept: Mutex::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the manifest with strong consistency. Makes the first one if there is none.
    pub(crate) async fn manifest(
        &self,
        bodies: &Bodies,
        budget: &Budget<'_>,
    ) -> Result<(Versioned<Manifest>, IndexSecret), PortError> {
        let mut attempt = 0;
        loop {
            let read = || self.named_items.get::<Manifest>(&());
            let read = budget.call(RetryPolicy::CONTROL, read).await?;
            if let Some(secret) = read.value.secret() {
                return Ok((read, secret));
            }
            let first = Manifest {
                list: None,
                bodies: bodies.clone(),
                secret: self.entropy.secret().to_vec(),
            };
            let replace = || self.named_items.replace(&(), &read, &first);
            budget.call(RetryPolicy::CONTROL, replace).await?;
            budget.next_attempt(&mut attempt).await?;
        }
    }

    /// Decides about the messages of a closed batch by the manifest as it was read, and commits. `record` must have been read after the
    /// manifest.
    pub(crate) async fn commit(
        &self,
        manifest: &Versioned<Manifest>,
        secret: IndexSecret,
        record: &BatchRecord,
        messages: &[Message],
        budget: &Budget<'_>,
    ) -> Result<Attempt, HandOverError> {
        let list = self.list(&manifest.value, budget).await?;
        match begin(&list, record) {
            Begin::Resolved => return Ok(Attempt::Resolved),
            Begin::Adopt(run) => {
                info!(batch_id = %record.batch_id, "decisions of an earlier attempt adopted");
                let adopted = self.run(run, budget).await?;
                return Ok(Attempt::Committed(decided_of(&adopted)));
            }
            Begin::Resolve => {}
        }
        let lines: Vec<Line> = messages.iter().map(|one| line_of(secret, one)).collect();
        let decided = self.decide(&list, record, &lines, budget).await?;
        let run = self.store_run(record, &lines, &decided, budget).await?;
        let next = list.with(run);
        match self.replace(manifest, record, &next, budget).await? {
            true => Ok(Attempt::Committed(decided)),
            false => Ok(Attempt::Refused),
        }
    }

    async fn decide(
        &self,
        list: &RunList,
        record: &BatchRecord,
        lines: &[Line],
        budget: &Budget<'_>,
    ) -> Result<Decided, HandOverError> {
        let ids: BTreeSet<IdHash> = lines.iter().map(|line| line.id).collect();
        let ids: Vec<IdHash> = ids.into_iter().collect();
        let mut matches = Matches::default();
        let first_stored_at = lines.iter().map(|line| line.stored_at).min();
        for run in first_stored_at.into_iter().flat_map(|at| list.runs_for(at)) {
            let read = self.run(run, budget).await?;
            let added = matches.add(&ids, &read.header.owners, &read.entries);
            added.map_err(|error| damaged(ObjectId::Run(run.run), &error))?;
        }
        let owners = self.owners(matches.batches(), budget).await?;
        let record_of = |batch| owners.get(&batch).map(|owner| &**owner);
        let now = budget.clock.now();
        resolve(lines, &matches, list.left_out_until, record_of, now)
            .map_err(|error| HandOverError::Permanent(format!("unresolved: {error}")))
            .inspect_err(|_| warn!(batch_id = %record.batch_id, "batch cannot be resolved"))
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
        budget: &Budget<'_>,
    ) -> Result<RunList, HandOverError> {
        let Some(list) = manifest.list else {
            return Ok(RunList::default());
        };
        let object = ObjectId::RunList(list);
        let bytes = self.object(&manifest.bodies, object, budget).await?;
        decode_list(&bytes).map_err(|error| damaged(object, &error))
    }

    async fn run(&self, run: &RunRef, budget: &Budget<'_>) -> Result<Arc<Run>, HandOverError> {
        let kept = self.kept().runs.get(&run.run).cloned();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let object = ObjectId::Run(run.run);
        let bytes = self.object(&run.bodies, object, budget).await?;
        let decoded = decode_run(&bytes, run.hash);
        let (header, entries) = decoded.map_err(|error| damaged(object, &error))?;
        let read = Arc::new(Run { header, entries });
        let mut kept = self.kept();
        kept.runs.insert(run.run, read.clone());
        let bytes = |runs: &BTreeMap<Uuid, Arc<Run>>| {
            let entries: usize = runs.values().map(|run| run.entries.len()).sum();
            entries * ENTRY_BYTES
        };
        while bytes(&kept.runs) > RUNS_KEPT_BYTES_MAX {
            kept.runs.pop_first();
        }
        Ok(read)
    }

    async fn object(
        &self,
        bodies: &Bodies,
        object: ObjectId,
        budget: &Budget<'_>,
    ) -> Result<Vec<u8>, HandOverError> {
        let store = &*self.object_store;
        let permanent = |what: String| HandOverError::Permanent(format!("unresolved: {what}"));
        match read_object(store, bodies, object, &self.permits, budget).await {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(permanent(format!(
                "index: object `{object}`: missing in `{bodies}`"
            ))),
            Err(error @ PortError::Refused { .. }) => {
                Err(permanent(format!("index: object `{object}`: {error}")))
            }
            Err(error) => Err(HandOverError::Service(error)),
        }
    }

    /// Stores the run of the winners, with the duplicates and conflicts.
    async fn store_run(
        &self,
        record: &BatchRecord,
        lines: &[Line],
        decided: &Decided,
        budget: &Budget<'_>,
    ) -> Result<RunRef, HandOverError> {
        let owner = Owner::batch(record.batch_id, record.created_at, record.dedup_window);
        let header = RunHeader {
            owners: vec![owner],
            duplicates: decided.duplicates.clone(),
            conflicts: decided.conflicts.clone(),
        };
        let winners = lines
            .iter()
            .filter(|line| decided.winners.contains(line.seq));
        let mut entries: Vec<Entry> = winners
            .map(|line| Entry {
                id: line.id,
                owner: 0,
                seq: line.seq,
                message: line.message,
                body: line.body,
            })
            .collect();
        entries.sort_unstable();
        let bytes = encode_run(&header, &entries);
        let run = RunRef {
            run: self.entropy.object_name(),
            hash: object_hash(&bytes),
            bodies: record.bodies.clone(),
            entries: entries.len() as u64,
            ends_at: owner.ends_at(),
            batch: Some(record.batch_id),
        };
        self.store(&record.bodies, ObjectId::Run(run.run), &bytes, budget)
            .await?;
        Ok(run)
    }

    /// Stores the next list and makes it the present one, if the manifest is still as it was read.
    async fn replace(
        &self,
        manifest: &Versioned<Manifest>,
        record: &BatchRecord,
        next: &RunList,
        budget: &Budget<'_>,
    ) -> Result<bool, HandOverError> {
        let list = self.entropy.object_name();
        let object = ObjectId::RunList(list);
        self.store(&record.bodies, object, &encode_list(next), budget)
            .await?;
        let to = Manifest {
            list: Some(list),
            bodies: record.bodies.clone(),
            secret: manifest.value.secret.clone(),
        };
        let replace = || self.named_items.replace(&(), manifest, &to);
        Ok(budget.call(RetryPolicy::CONTROL, replace).await?)
    }

    async fn store(
        &self,
        bodies: &Bodies,
        object: ObjectId,
        bytes: &[u8],
        budget: &Budget<'_>,
    ) -> Result<(), HandOverError> {
        let rules = ObjectRules {
            bodies: bodies.clone(),
            sizes: ChunkSizes::default(),
            retention: LOG_RETENTION,
        };
        let store = &*self.object_store;
        let stored = store_object(store, &rules, object, bytes, &self.permits, budget);
        stored.await.map_err(|error| match error {
            NotStored::Port(error) => HandOverError::Service(error),
            NotStored::Exists(_) => HandOverError::Permanent(format!("unresolved: {error}")),
        })
    }
}

fn line_of(secret: IndexSecret, message: &Message) -> Line {
    let Message { event, stored_at } = message;
    Line {
        id: secret.id(&event.event_id),
        message: secret.message(&event.sqs_message_id),
        body: secret.body(event.body_hash),
        seq: event.seq,
        stored_at: *stored_at,
    }
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
    }
}

fn damaged(object: ObjectId, error: &dyn std::fmt::Display) -> HandOverError {
    HandOverError::Permanent(format!("unresolved: index: object `{object}`: {error}"))
}
