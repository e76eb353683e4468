//! The index of the log, as the batch-processor and operators read and write it: the manifest, its list, and the runs.
//!
//! The item `dedup#epoch` has the name of the present manifest, `dedup#<epoch>`, and is never removed, so a lost manifest is not
//! taken for one that never existed. The name of a manifest is a UUID: no late write makes a lost one again, and a reader of
//! the lost one cannot commit to its replacement.

use std::fmt::Display;

use protocol::bodies::{Bodies, ObjectSizes};
use protocol::ids::{BatchId, ObjectId};
use protocol::limits::LOG_RETENTION;
use protocol::log::{
    Entry, IndexEpoch, IndexSecret, Line, LineQuota, Manifest, Merged, RunHeader, RunList, RunRef,
    object_hash,
};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use uuid::Uuid;

use crate::index_run::{
    Entries, IndexFormatError, decode_list, decode_run, encode_list, encode_run,
};
use crate::named_items::Versioned;
use crate::ports::{NamedItems, ObjectStore, PortError, StoredEvent};
use crate::retry::{Budget, NotStored, ObjectRules, RequestPermits, read_object, store_object};

/// Why the index was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A part of it is missing or damaged. A retry fails too, until an operator acts.
    #[error("index: {0}")]
    Damaged(String),
    /// A part of it may not be read or stored, or a later version of the service wrote it. A retry fails too, until somebody gives the
    /// permission or deploys that version. Nothing is lost.
    #[error("index: {0}")]
    Unreadable(String),
    #[error(transparent)]
    Port(#[from] PortError),
}

/// The manifest, as it was read.
#[derive(Clone, Debug)]
pub struct OpenIndex {
    pub epoch: Uuid,
    pub manifest: Versioned<Manifest>,
    pub secret: IndexSecret,
}

/// A run that was read.
pub struct Run {
    pub header: RunHeader,
    pub entries: Entries,
}

impl Run {
    /// Returns how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let header = size_of_val(&*self.header.owners) + size_of_val(&*self.header.tallies);
        size_of_val(&*self.entries) + header
    }
}

/// The facts about a new run that its list keeps.
pub struct NewRun<'a> {
    pub bodies: &'a Bodies,
    pub ends_at: Timestamp,
    pub events_end_at: Timestamp,
    pub batch: Option<BatchId>,
}

/// Reads and writes the index.
#[derive(Clone, Copy)]
pub struct IndexStore<'a> {
    pub objects: &'a dyn ObjectStore,
    pub named_items: &'a dyn NamedItems,
    pub permits: &'a RequestPermits,
    pub budget: &'a Budget<'a>,
}

impl IndexStore<'_> {
    /// Reads the manifest with strong consistency. Makes the first one, with a new secret, if there is no index.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if there was an index, and its manifest is missing or has no secret.
    pub async fn open(&self, bodies: &Bodies) -> Result<OpenIndex, IndexError> {
        let mut attempt = 0;
        loop {
            if let Some(open) = self.read().await? {
                return Ok(open);
            }
            let first = self.new_index(bodies).manifest.value;
            if self.begin_epoch(&Versioned::default(), &first).await? {
                continue;
            }
            self.budget.next_attempt(&mut attempt).await?;
        }
    }

    /// Returns an index that is not begun: its manifest is not stored.
    pub fn new_index(&self, bodies: &Bodies) -> OpenIndex {
        let secret = self.budget.entropy.secret();
        let value = Manifest {
            bodies: bodies.clone(),
            secret: secret.to_vec(),
            ..Manifest::default()
        };
        OpenIndex {
            epoch: Uuid::nil(),
            manifest: Versioned { value, version: 0 },
            secret: IndexSecret::new(secret),
        }
    }

    /// Reads the manifest with strong consistency; `None` if there is no index.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn read(&self) -> Result<Option<OpenIndex>, IndexError> {
        loop {
            let from = self.epoch().await?;
            if from.version == 0 {
                return Ok(None);
            }
            let epoch = from.value.epoch;
            let manifest = self.manifest_of(epoch).await?;
            if let Some(secret) = manifest.value.secret() {
                return Ok(Some(OpenIndex {
                    epoch,
                    manifest,
                    secret,
                }));
            }
            // Another epoch may have begun between both reads.
            if self.epoch().await? != from {
                continue;
            }
            return Err(IndexError::Damaged(match manifest.version {
                0 => format!(
                    "manifest `dedup#{epoch}`: missing: expected it, because the index was used; see `batchctl rebuild-dedup`"
                ),
                _ => format!(
                    "manifest `dedup#{epoch}`: `secret`: got {} bytes, expected 32",
                    manifest.value.secret.len()
                ),
            }));
        }
    }

    /// Reads which epoch is the present one.
    ///
    /// # Errors
    /// [`PortError`].
    pub async fn epoch(&self) -> Result<Versioned<IndexEpoch>, PortError> {
        let read = || self.named_items.get::<IndexEpoch>(&());
        self.budget.call(RetryPolicy::CONTROL, read).await
    }

    /// Reads the manifest of an epoch.
    ///
    /// # Errors
    /// [`PortError`].
    pub async fn manifest_of(&self, epoch: Uuid) -> Result<Versioned<Manifest>, PortError> {
        let read = || self.named_items.get::<Manifest>(&epoch);
        self.budget.call(RetryPolicy::CONTROL, read).await
    }

    /// Begins an epoch with this manifest. Returns `false` if another began since `from` was read.
    ///
    /// # Errors
    /// [`PortError`].
    pub async fn begin_epoch(
        &self,
        from: &Versioned<IndexEpoch>,
        manifest: &Manifest,
    ) -> Result<bool, PortError> {
        let none = Versioned::default();
        // Each attempt has a name of its own, and without a name in the item of the epoch a manifest is nothing: an attempt without a reply
        // may arrive after this manifest was lost.
        let put = || async {
            let epoch = self.budget.entropy.object_name();
            let put = self.named_items.replace(&epoch, &none, manifest);
            put.await.map(|_| epoch)
        };
        let epoch = self.budget.call(RetryPolicy::CONTROL, put).await?;
        let to = IndexEpoch { epoch };
        let replace = || self.named_items.replace(&(), from, &to);
        self.budget.call(RetryPolicy::CONTROL, replace).await
    }

    /// Replaces the manifest of an epoch. Returns `false` if it was written since it was read.
    ///
    /// # Errors
    /// [`PortError`].
    pub async fn replace_manifest(
        &self,
        epoch: Uuid,
        from: &Versioned<Manifest>,
        to: &Manifest,
    ) -> Result<bool, PortError> {
        let replace = || self.named_items.replace(&epoch, from, to);
        self.budget.call(RetryPolicy::CONTROL, replace).await
    }

    /// Reads the list that decides about lines whose first was stored at `stored_at`. Long after its last entry and tally have ended, it
    /// may be gone, and counts as empty.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn list_for(
        &self,
        manifest: &Manifest,
        stored_at: Timestamp,
    ) -> Result<RunList, IndexError> {
        match manifest.list_for(stored_at, self.budget.clock.now()) {
            Some(list) => self.list(&manifest.bodies, list).await,
            None => Ok(RunList::ended(manifest.ends_at)),
        }
    }

    /// Reads a list.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn list(&self, bodies: &Bodies, name: Uuid) -> Result<RunList, IndexError> {
        let object = ObjectId::RunList(name);
        let bytes = self.object(bodies, object).await?;
        decode_list(&bytes).map_err(|error| of_format(object, &error))
    }

    /// Reads a run.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn run(&self, run: &RunRef) -> Result<Run, IndexError> {
        let object = ObjectId::Run(run.run);
        let bytes = self.object(&run.bodies, object).await?;
        let decoded = decode_run(&bytes, run.hash);
        let (header, entries) = decoded.map_err(|error| of_format(object, &error))?;
        Ok(Run { header, entries })
    }

    /// Stores a run under a new name. `entries` are sorted.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn store_run(
        &self,
        run: NewRun<'_>,
        header: &RunHeader,
        entries: &[Entry],
    ) -> Result<RunRef, IndexError> {
        let bytes = encode_run(header, entries);
        let name = self.budget.entropy.object_name();
        self.store(run.bodies, ObjectId::Run(name), &bytes).await?;
        Ok(RunRef {
            run: name,
            hash: object_hash(&bytes),
            bodies: run.bodies.clone(),
            entries: entries.len() as u64,
            ends_at: run.ends_at,
            events_end_at: run.events_end_at,
            tallies_end_at: header.tallies_end_at(),
            rows: header.rows(),
            batch: run.batch,
        })
    }

    /// Stores a run that is of no single batch. `None` if it has no owners and no tallies, so that there is nothing to store.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn store_merged(
        &self,
        bodies: &Bodies,
        merged: Merged,
    ) -> Result<Option<RunRef>, IndexError> {
        if merged.owners.is_empty() && merged.tallies.is_empty() {
            return Ok(None);
        }
        let run = NewRun {
            bodies,
            ends_at: merged.ends_at().unwrap_or_default(),
            events_end_at: merged.events_end_at().unwrap_or_default(),
            batch: None,
        };
        let header = RunHeader {
            owners: merged.owners,
            tallies: merged.tallies,
            ..RunHeader::default()
        };
        Ok(Some(self.store_run(run, &header, &merged.entries).await?))
    }

    /// Stores a list under a new name. Returns the manifest that names it.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn store_list(
        &self,
        manifest: &Manifest,
        bodies: &Bodies,
        list: &RunList,
    ) -> Result<Manifest, IndexError> {
        let name = self.budget.entropy.object_name();
        let bytes = encode_list(list);
        self.store(bodies, ObjectId::RunList(name), &bytes).await?;
        Ok(manifest.with_list(name, bodies, list))
    }

    /// Stores the next list and makes it the present one. Returns `false` if the manifest was written since it was read.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn commit(
        &self,
        open: &OpenIndex,
        bodies: &Bodies,
        next: &RunList,
    ) -> Result<bool, IndexError> {
        let to = self.store_list(&open.manifest.value, bodies, next).await?;
        Ok(self
            .replace_manifest(open.epoch, &open.manifest, &to)
            .await?)
    }

    async fn object(&self, bodies: &Bodies, object: ObjectId) -> Result<Vec<u8>, IndexError> {
        let read = read_object(self.objects, bodies, object, self.permits, self.budget).await;
        let bytes = read.map_err(|error| of_object(object, error))?;
        bytes.ok_or_else(|| damaged(object, &format!("missing in `{bodies}`")))
    }

    async fn store(
        &self,
        bodies: &Bodies,
        object: ObjectId,
        bytes: &[u8],
    ) -> Result<(), IndexError> {
        let rules = ObjectRules {
            bodies: bodies.clone(),
            sizes: ObjectSizes::default(),
            retention: LOG_RETENTION,
        };
        let (permits, budget) = (self.permits, self.budget);
        let stored = store_object(self.objects, &rules, object, bytes, permits, budget);
        stored.await.map_err(|error| match error {
            NotStored::Port(error) => of_object(object, error),
            NotStored::Exists(_) => damaged(object, &error),
        })
    }
}

/// Returns the line of an event whose load was stored at `stored_at`.
pub fn line_of(secret: IndexSecret, event: &StoredEvent, stored_at: Timestamp) -> Line {
    Line {
        id: secret.id(&event.event_id),
        message: secret.message(&event.sqs_message_id),
        body: secret.body(event.body_hash),
        seq: event.seq,
        stored_at,
        quota: event.quota.as_deref().map(LineQuota::from),
    }
}

/// Returns the error about an object that cannot be used.
pub fn damaged(object: ObjectId, problem: &dyn Display) -> IndexError {
    IndexError::Damaged(format!("object `{object}`: {problem}"))
}

/// Returns why an object was not read or stored.
fn of_object(object: ObjectId, error: PortError) -> IndexError {
    match error {
        PortError::Refused { .. } => IndexError::Unreadable(format!("object `{object}`: {error}")),
        _ => error.into(),
    }
}

/// Returns why an object was not decoded.
fn of_format(object: ObjectId, error: &IndexFormatError) -> IndexError {
    match error {
        IndexFormatError::Later(_) => IndexError::Unreadable(format!("object `{object}`: {error}")),
        _ => damaged(object, error),
    }
}
