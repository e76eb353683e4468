//! The batches that are open, as far as their records are concerned: open, count, seal, and what became of others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::allocator::{Opening, Sealable};
use protocol::batch::{BatchCounts, BatchRecord, BatchWrite, Closing, NoWindow};
use protocol::claim::BatchFate;
use protocol::ids::BatchId;
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::ports::{BatchQueue, BatchStore, Entropy, PortError, Ports};
use shared::retry::{Budget, Written, bounded};
use shared::wire::{Ticket, TicketReason};
use tracing::{info, warn};

use crate::config::Config;
use crate::invocation::InvocationCounts;
use crate::shared_allocator::{OpeningGuard, SharedAllocator};

/// Why no batch could be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No room for a window.
    #[error(transparent)]
    NoWindow(#[from] NoWindow),
    /// The record is not acknowledged.
    #[error("record of batch {batch}: {source}")]
    Record {
        /// The batch that is not.
        batch: BatchId,
        #[source]
        /// Why.
        source: PortError,
    },
    /// The ticket is not acknowledged.
    #[error("ticket of batch {batch}: {source}")]
    Ticket {
        /// The batch that stays empty.
        batch: BatchId,
        #[source]
        /// Why.
        source: PortError,
    },
}

/// The seqs that acknowledgements will rely on, by the batch whose live claims stand in the way.
pub type ReliedOn = BTreeMap<BatchId, SeqSet>;

/// For which batches this invocation has tried to write the counts, and whether the batch table is known to have them.
#[derive(Debug, Default)]
pub struct CountedBatches(BTreeMap<BatchId, bool>);

impl CountedBatches {
    /// Whether the counts of `batch` were written, or tried to be.
    pub fn has_tried(&self, batch: BatchId) -> bool {
        self.0.contains_key(&batch)
    }

    /// Whether the batch table is known to have the counts of `batch`.
    pub fn has(&self, batch: BatchId) -> bool {
        self.0.get(&batch) == Some(&true)
    }

    /// Takes in what later attempts came to.
    pub fn extend(&mut self, later: CountedBatches) {
        self.0.extend(later.0);
    }
}

impl FromIterator<(BatchId, bool)> for CountedBatches {
    fn from_iter<I: IntoIterator<Item = (BatchId, bool)>>(counted: I) -> CountedBatches {
        CountedBatches(counted.into_iter().collect())
    }
}

/// Opens, counts and seals batches, and finds out what became of those of others.
pub struct OpenBatches {
    allocator: Arc<SharedAllocator>,
    batch_store: Arc<dyn BatchStore>,
    batch_queue: Arc<dyn BatchQueue>,
    entropy: Arc<dyn Entropy>,
    window: Duration,
    shards: u16,
    concurrency: usize,
}

impl OpenBatches {
    /// Works on the batches that `allocator` knows.
    pub fn new(config: &Config, ports: &Ports, allocator: Arc<SharedAllocator>) -> OpenBatches {
        OpenBatches {
            allocator,
            batch_store: ports.batch_store.clone(),
            batch_queue: ports.batch_queue.clone(),
            entropy: ports.entropy.clone(),
            window: config.window,
            shards: config.limits.shards,
            concurrency: config.common.write_concurrency,
        }
    }

    /// The seats and counts of the open batches.
    pub fn allocator(&self) -> &SharedAllocator {
        &self.allocator
    }

    /// Opens a batch: record, then ticket; only then may it be claimed into.
    ///
    /// # Errors
    /// [`OpenError`]; the slot is free again, and a batch that got a record stays empty until the sweep ends it.
    pub async fn open(
        &self,
        opening: Opening,
        deadline: Timestamp,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> Result<(), OpenError> {
        let guard = OpeningGuard::new(opening.slot.clone(), &self.allocator);
        let now = budget.clock.now();
        let closing = Closing::plan(now, deadline, self.window)?;
        let batch = self.entropy.batch_id(now);
        let slot = opening.slot.clone();
        let shards = self.shards;
        let record =
            BatchRecord::open(batch, slot.source, slot.key, shards, now, closing.closes_at);
        budget
            .call(RetryPolicy::CONTROL, || self.batch_store.create(&record))
            .await
            .map_err(|source| OpenError::Record { batch, source })?;
        let recorded = opening.record_acknowledged(batch, closing.closes_at);
        let ticket = Ticket {
            source: Some(record.source.clone()),
            shards: Some(shards),
            ..Ticket::new(batch, TicketReason::Window)
        };
        let announced = budget.call(RetryPolicy::CONTROL, || {
            let delay = closing.ticket_delay(budget.clock.now());
            self.batch_queue.send(&ticket, delay)
        });
        let unannounced = |source| OpenError::Ticket { batch, source };
        if planted(Bug::CacheBeforeTicket) {
            guard.opened(recorded.ticket_acknowledged());
            return announced.await.map_err(unannounced);
        }
        if !planted(Bug::TicketAfterFirstClaim) {
            announced.await.map_err(unannounced)?;
        }
        guard.opened(recorded.ticket_acknowledged());
        counts.batch_opened();
        info!(batch_id = %batch, source = %record.source, closes_at = %closing.closes_at, "batch opened");
        Ok(())
    }

    /// Seals every batch that is full or past its window, and sends its immediate ticket. Returns which batches have
    /// their counts in the table.
    pub async fn seal_done(
        &self,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> CountedBatches {
        let sealable = self.allocator.lock().take_sealable();
        let seals = sealable
            .into_iter()
            .map(|sealable| self.seal(sealable, budget, counts))
            .collect();
        bounded(seals, self.concurrency).await.into_iter().collect()
    }

    /// Returns the batch, and whether its counts are in the table.
    async fn seal(
        &self,
        sealable: Sealable,
        budget: &Budget<'_>,
        invocation: &InvocationCounts,
    ) -> (BatchId, bool) {
        let Sealable { id, counts, slot } = sealable;
        let seal = BatchWrite::Seal {
            counts: counts.clone(),
            at: budget.clock.now(),
        };
        let counted = match budget.write(&*self.batch_store, id, &seal).await {
            Ok(Written::Applied(_)) => {
                invocation.batch_sealed();
                info!(batch_id = %id, items_count = counts.confirmed, uncertain_count = counts.uncertain, "batch sealed");
                let ticket = Ticket {
                    source: Some(slot.source),
                    ..Ticket::new(id, TicketReason::Sealed)
                };
                let send = || self.batch_queue.send(&ticket, Duration::ZERO);
                if !planted(Bug::SealWithoutTicket)
                    && let Err(error) = budget.call(RetryPolicy::CONTROL, send).await
                {
                    // The window's ticket still comes: later, but it comes.
                    warn!(batch_id = %id, %error, "no immediate ticket for a sealed batch");
                }
                true
            }
            Ok(Written::Refused(_)) if planted(Bug::RefusedSealCounted) => true,
            // A processor was quicker (its window closed), and everything was counted before.
            Ok(Written::Refused(Some(record)))
                if record.settled == counts.settled && record.uncertain == counts.uncertain =>
            {
                true
            }
            // It was quicker, and the last counts still have to arrive.
            Ok(Written::Refused(_)) => self.write_counts(id, counts, budget).await,
            Err(error) => {
                warn!(batch_id = %id, %error, "batch not sealed");
                false
            }
        };
        (id, counted)
    }

    /// Writes the counts of a batch whose claims `seqs` this invocation made; `false` when they are not known to be
    /// in the table of a batch that is not complete.
    pub async fn count(&self, batch: BatchId, seqs: &SeqSet, budget: &Budget<'_>) -> bool {
        let counts = self.allocator.lock().counts(batch);
        match counts {
            Some(counts) => {
                let version = counts.version;
                let counted = self.write_counts(batch, counts, budget).await;
                if counted {
                    self.allocator.lock().counted(batch, version);
                }
                counted
            }
            None => self.counted_by_another(batch, seqs, budget).await,
        }
    }

    async fn write_counts(&self, batch: BatchId, counts: BatchCounts, budget: &Budget<'_>) -> bool {
        let write = BatchWrite::Count(counts);
        match budget.write(&*self.batch_store, batch, &write).await {
            Ok(Written::Applied(record)) if record.status.is_some() => true,
            Ok(_) if planted(Bug::CompleteBatchCounted) => true,
            // The counts may be there, but too late: a complete batch is not looked at again.
            Ok(Written::Applied(_) | Written::Refused(_)) => {
                warn!(batch_id = %batch, "batch was completed before its claims were counted; their messages come back");
                false
            }
            Err(error) => {
                warn!(batch_id = %batch, %error, "claims not counted");
                false
            }
        }
    }

    /// Another invocation of this environment took the batch for sealing, with our claims in its counts: wait until
    /// the table shows them.
    async fn counted_by_another(&self, batch: BatchId, seqs: &SeqSet, budget: &Budget<'_>) -> bool {
        if planted(Bug::CountedByAnotherUnread) {
            return true;
        }
        let batches = &*self.batch_store;
        let is_counted = || async {
            let read = || batches.read(batch);
            let record = budget.call(RetryPolicy::CONTROL, read).await.ok()??;
            // Counted claims are delivered before the batch can be complete, so a complete one will do as well.
            seqs.is_subset(&record.settled).then_some(())
        };
        let counted = budget.poll(RetryPolicy::CONTROL, is_counted).await;
        counted.is_some()
    }

    /// What became of the batches whose live claims were met. Where an acknowledgement will rely on a claim, its batch
    /// is told first, unless it knows: from then on the batch cannot complete without it. No entry: not found out.
    pub async fn fates(
        &self,
        relied_on: ReliedOn,
        budget: &Budget<'_>,
    ) -> BTreeMap<BatchId, BatchFate> {
        let asked: Vec<_> = relied_on
            .into_iter()
            .map(|(batch, relied_on)| async move {
                Some((batch, self.fate(batch, relied_on, budget).await?))
            })
            .collect();
        bounded(asked, self.concurrency)
            .await
            .into_iter()
            .flatten()
            .collect()
    }

    /// The fate of one batch; see [`fates`](Self::fates).
    pub async fn fate(
        &self,
        batch: BatchId,
        relied_on: SeqSet,
        budget: &Budget<'_>,
    ) -> Option<BatchFate> {
        let fate = self.tell_and_ask(batch, &relied_on, budget).await;
        match fate {
            Ok(fate) => Some(fate),
            Err(error) => {
                warn!(batch_id = %batch, %error, "fate of a batch unknown");
                None
            }
        }
    }

    /// Tells a batch of the claims that are relied on, unless it knows of them or is complete, and returns its fate. Others
    /// may tell it of theirs at the same time: one is first, and the others read again what it knows.
    async fn tell_and_ask(
        &self,
        batch: BatchId,
        relied_on: &SeqSet,
        budget: &Budget<'_>,
    ) -> Result<BatchFate, PortError> {
        let tell = |known: &BatchRecord| {
            let unknown = known.unknown_of(relied_on);
            if known.status.is_none() || unknown.is_empty() || planted(Bug::WitnessSkipped) {
                return None;
            }
            let mut witnessed = known.witnessed.clone();
            witnessed.extend_from(&unknown);
            Some(BatchWrite::Witness {
                witnessed,
                witnesses: known.witnesses,
            })
        };
        let record = budget.update(&*self.batch_store, batch, tell).await?;
        Ok(BatchFate::from(record.as_deref()))
    }
}
