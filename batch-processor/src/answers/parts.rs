//! The parts that answers are about: what is kept of a part when the sink has it, and what is written when an answer comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::answer::{BatchAnswers, NamedParts, Taken};
use protocol::batch::{BatchRecord, PartState};
use protocol::bodies::{Bodies, ObjectSizes};
use protocol::ids::{BatchId, ObjectId, Seq};
use protocol::limits::LOG_RETENTION;
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::sequence::PartId;
use protocol::time::Timestamp;
use shared::kept::{decode_kept, encode_kept};
use shared::named_items::{NamedItem, Versioned};
use shared::ports::{
    BatchStore, LockStore, NamedItems, ObjectStore, PortError, Ports, QuarantineQueue, StoredEvent,
};
use shared::retry::{Budget, NotStored, ObjectRules, RequestPermits, read_object, store_object};
use sinks::{AnswersConfig, Part, Receipt};
use tracing::{error, warn};

use super::said::{SaidOfPart, seats_of};

/// Keeps what the sink has, and writes what is answered about it.
pub(crate) struct AnsweredParts {
    /// How long answers are awaited.
    within: Duration,
    pub(super) dedup_window: Duration,
    /// Whether answers name parts by their files.
    names_files: bool,
    named_items: Arc<dyn NamedItems>,
    object_store: Arc<dyn ObjectStore>,
    permits: Arc<RequestPermits>,
    pub(super) batch_store: Arc<dyn BatchStore>,
    pub(super) lock_store: Arc<dyn LockStore>,
    pub(super) quarantine_queue: Option<Arc<dyn QuarantineQueue>>,
    pub(super) concurrency: usize,
}

/// Why an answer about a part is not worked off. The next sweep tries again.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("the batch is not complete yet")]
    NotComplete,
    #[error("`QUARANTINE_SQS_URL` is not set")]
    NoQuarantine,
    #[error("object `{0}`: {1}")]
    Kept(ObjectId, String),
}

/// What is known of a part.
pub(super) enum KeptPart {
    /// Its batch, if its record has not expired, and its events.
    Events(Option<Box<BatchRecord>>, Vec<StoredEvent>),
    /// Its batch is not complete, and the part may be delivered yet.
    NotYet,
    /// There is no such part, or it is not kept any more.
    Unknown,
}

impl AnsweredParts {
    pub(crate) fn new(
        ports: &Ports,
        config: &AnswersConfig,
        dedup_window: Duration,
        concurrency: usize,
    ) -> AnsweredParts {
        AnsweredParts {
            within: config.within,
            dedup_window,
            names_files: config.form.names_files(),
            named_items: ports.named_items.clone(),
            object_store: ports.object_store.clone(),
            permits: Arc::new(RequestPermits::new(concurrency)),
            batch_store: ports.batch_store.clone(),
            lock_store: ports.lock_store.clone(),
            quarantine_queue: ports.quarantine_queue.clone(),
            concurrency,
        }
    }

    /// Keeps the events of a part that the sink has just taken, and awaits answers about them. Comes before the record says that the part is
    /// delivered: the events of a delivered part are always kept.
    pub(crate) async fn keep(
        &self,
        record: &BatchRecord,
        part: &Part,
        receipt: &Receipt,
        budget: &Budget<'_>,
    ) -> Result<(), PortError> {
        let taken = part.items.iter();
        let taken = taken.filter(|item| !receipt.rejected.contains(item.seq));
        let seats: SeqSet = taken.clone().map(|item| item.seq).collect();
        if seats.is_empty() {
            return Ok(());
        }
        let batch = part.batch_id;
        let rules = ObjectRules {
            bodies: record.bodies.clone(),
            sizes: ObjectSizes::default(),
            retention: LOG_RETENTION,
        };
        let object = kept(batch, part.part_index);
        let store = &*self.object_store;
        let bytes = encode_kept(taken);
        match store_object(store, &rules, object, &bytes, &self.permits, budget).await {
            // An earlier attempt stored it: a part is the same at every attempt.
            Ok(()) | Err(NotStored::Exists(_)) => {}
            Err(NotStored::Port(error)) => return Err(error),
        }
        let id = PartId {
            batch,
            part: part.part_index,
        };
        if let Some(file) = receipt.file.as_deref().filter(|_| self.names_files) {
            let stem = NamedParts::stem(file);
            let now = budget.clock.now();
            self.change(
                stem,
                |named: &mut NamedParts| named.add(file, id, now),
                budget,
            )
            .await?;
        }
        let due_at = budget.clock.now() + self.within;
        let expect = |answers: &mut BatchAnswers| {
            answers.expect(batch, &record.source, &seats, due_at);
        };
        self.change(&batch, expect, budget).await
    }

    /// Changes a named item, and begins again if others write it at the same time.
    async fn change<T: NamedItem + Clone + PartialEq>(
        &self,
        scope: &T::Scope,
        change: impl Fn(&mut T),
        budget: &Budget<'_>,
    ) -> Result<(), PortError> {
        loop {
            let read = self.read::<T>(scope, budget).await?;
            let mut next = read.value.clone();
            change(&mut next);
            if next == read.value || self.replace(scope, &read, &next, budget).await? {
                return Ok(());
            }
        }
    }

    pub(super) async fn read<T: NamedItem>(
        &self,
        scope: &T::Scope,
        budget: &Budget<'_>,
    ) -> Result<Versioned<T>, PortError> {
        let read = || self.named_items.get::<T>(scope);
        budget.call(RetryPolicy::CONTROL, read).await
    }

    /// Writes an item that is still as it was read. Returns whether it was; after a lost reply, it may have been, and is not any more.
    pub(super) async fn replace<T: NamedItem>(
        &self,
        scope: &T::Scope,
        from: &Versioned<T>,
        to: &T,
        budget: &Budget<'_>,
    ) -> Result<bool, PortError> {
        let replace = || self.named_items.replace(scope, from, to);
        budget.call(RetryPolicy::CONTROL, replace).await
    }

    /// Returns the part that the sink wrote a file of this name for.
    pub(super) async fn named(
        &self,
        name: &str,
        budget: &Budget<'_>,
    ) -> Result<NamedParts, PortError> {
        let stem = NamedParts::stem(name);
        Ok(self.read::<NamedParts>(stem, budget).await?.value)
    }

    /// Returns what is known of a part.
    pub(super) async fn part(
        &self,
        part: PartId,
        budget: &Budget<'_>,
    ) -> Result<KeptPart, AnswerError> {
        let read = || self.batch_store.read(part.batch);
        let record = budget.call(RetryPolicy::CONTROL, read).await?;
        let is_complete = record.as_ref().is_none_or(|record| record.status.is_none());
        let is_delivered = record.as_ref().is_none_or(|record| {
            let part = record.parts.get(part.part);
            part.is_some_and(|part| matches!(part.state, PartState::Delivered { .. }))
        });
        Ok(match self.kept_part(part, record.as_ref(), budget).await? {
            Some(events) if is_delivered && is_complete => {
                KeptPart::Events(record.map(Box::new), events)
            }
            _ if !is_complete => KeptPart::NotYet,
            Some(_) | None => KeptPart::Unknown,
        })
    }

    async fn kept_part(
        &self,
        part: PartId,
        record: Option<&BatchRecord>,
        budget: &Budget<'_>,
    ) -> Result<Option<Vec<StoredEvent>>, AnswerError> {
        let bodies = record.map_or(Bodies::Items, |record| record.bodies.clone());
        let object = kept(part.batch, part.part);
        let store = &*self.object_store;
        let read = read_object(store, &bodies, object, &self.permits, budget);
        let Some(bytes) = read.await? else {
            return Ok(None);
        };
        let events = decode_kept(part.batch, &bytes);
        let events = events.map_err(|error| AnswerError::Kept(object, error.to_string()))?;
        Ok(Some(events))
    }

    /// Returns the events of seats of a batch, from all parts that have some of them.
    pub(super) async fn kept_of_seats(
        &self,
        batch: BatchId,
        record: Option<&BatchRecord>,
        seats: &SeqSet,
        budget: &Budget<'_>,
    ) -> Result<Vec<StoredEvent>, AnswerError> {
        let mut found = Vec::new();
        let parts = record.map_or(usize::MAX, |record| record.parts.len());
        for part in 0..parts {
            let id = PartId { batch, part };
            match self.kept_part(id, record, budget).await? {
                Some(events) => {
                    found.extend(events.into_iter().filter(|event| seats.contains(event.seq)));
                }
                // Of a batch whose record has expired, it is not known how many parts it had.
                None if record.is_none() => break,
                None => {}
            }
            if found.len() as u64 == seats.len() {
                break;
            }
        }
        if (found.len() as u64) < seats.len() {
            let lost = seats.difference(&seats_of(&found)).len();
            error!(batch_id = %batch, lost, "events that an answer rejected are not kept any more, and do not go to the quarantine");
        }
        Ok(found)
    }

    /// Writes what an answer says about events of a batch that is complete, and does what is to do about the rejected ones.
    pub(super) async fn take(
        &self,
        batch: BatchId,
        record: Option<&BatchRecord>,
        answer: &str,
        of_part: &SaidOfPart,
        budget: &Budget<'_>,
    ) -> Result<Taken, AnswerError> {
        let mut all = Taken::default();
        loop {
            let read = self.read::<BatchAnswers>(&batch, budget).await?;
            if let Some(pending) = &read.value.pending {
                let none = BTreeMap::new();
                let reasons = match pending.answer == answer {
                    true => &of_part.reasons,
                    false => &none,
                };
                self.reject_pending(batch, record, &read, reasons, budget)
                    .await?;
                continue;
            }
            let mut next = read.value.clone();
            let taken = next.take(batch, answer, &of_part.said);
            all.contradicted = taken.contradicted;
            if next == read.value {
                return Ok(all);
            }
            // After a lost reply, the answer may be in the item already. Then the counts of this answer are too low, and nothing else is.
            if self.replace(&batch, &read, &next, budget).await? {
                (all.accepted, all.rejected) = (taken.accepted, taken.rejected);
            }
        }
    }

    /// Goes on with a batch whose answers are due. Returns how many of its events have fallen silent.
    pub(super) async fn end_wait(
        &self,
        batch: BatchId,
        now: Timestamp,
        budget: &Budget<'_>,
    ) -> Result<u64, AnswerError> {
        let get = || self.batch_store.read(batch);
        let record = budget.call(RetryPolicy::CONTROL, get).await?;
        if record
            .as_ref()
            .is_some_and(|record| record.status.is_some())
        {
            return Err(AnswerError::NotComplete);
        }
        loop {
            let read = self.read::<BatchAnswers>(&batch, budget).await?;
            if read.value.pending.is_some() {
                let reasons = BTreeMap::<Seq, String>::new();
                self.reject_pending(batch, record.as_ref(), &read, &reasons, budget)
                    .await?;
                continue;
            }
            let mut next = read.value.clone();
            if let Some(record) = &record {
                next.withdraw(batch, &record.quarantined());
            }
            let silent = next.fall_silent(batch, now);
            if next == read.value {
                return Ok(0);
            }
            if self.replace(&batch, &read, &next, budget).await? {
                if silent > 0 {
                    warn!(batch_id = %batch, silent_count = silent, "no answer came in time");
                }
                return Ok(silent);
            }
        }
    }
}

fn kept(batch: BatchId, part: usize) -> ObjectId {
    ObjectId::Kept {
        batch,
        part: part as u32,
    }
}
