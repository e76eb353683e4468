//! What an invocation does to batch records: open, count, seal, witness, ask.

use std::collections::BTreeMap;

use protocol::allocator::{Opening, Sealable};
use protocol::batch::{Account, BatchRecord, BatchWrite, Closing, NoWindow};
use protocol::claim::BatchFate;
use protocol::ids::BatchId;
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::calls::{Budget, Written, bounded};
use shared::ports::PortError;
use shared::wire::{Ticket, TicketReason};
use tracing::{info, warn};

use crate::current::OpeningGuard;
use crate::handler::{Handler, Tally};

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

/// Per batch whose live claims were met: the seqs that an acknowledgement will rely on.
pub type Met = BTreeMap<BatchId, SeqSet>;

impl Handler {
    /// Opens a batch: record, then ticket; only then may it be claimed into.
    ///
    /// # Errors
    /// [`OpenError`]; the slot is free again, and a batch that got a record stays empty until the sweep ends it.
    pub async fn open_batch(
        &self,
        opening: Opening,
        deadline: Timestamp,
        budget: &Budget<'_>,
        tally: &Tally,
    ) -> Result<(), OpenError> {
        let guard = OpeningGuard::new(opening.slot.clone(), self.current());
        let ports = self.ports();
        let now = budget.clock.now();
        let closing = Closing::plan(now, deadline, self.config().window)?;
        let batch = ports.entropy.batch_id(now);
        let slot = opening.slot.clone();
        let shards = self.config().limits.shards;
        let record =
            BatchRecord::open(batch, slot.source, slot.key, shards, now, closing.closes_at);
        budget
            .call(RetryPolicy::CONTROL, || ports.batch_store.create(&record))
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
            ports.batch_queue.send(&ticket, delay)
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
        tally.opened();
        info!(batch_id = %batch, source = %record.source, closes_at = %closing.closes_at, "batch opened");
        Ok(())
    }

    /// Seals every batch that is full or past its window, and sends its immediate ticket. Answers which batches now
    /// have their counts in the table.
    pub async fn seal_done(&self, budget: &Budget<'_>, tally: &Tally) -> BTreeMap<BatchId, bool> {
        let sealable = self.current().lock().take_sealable();
        let seals = sealable
            .into_iter()
            .map(|sealable| self.seal(sealable, budget, tally))
            .collect();
        bounded(seals, self.config().common.write_concurrency)
            .await
            .into_iter()
            .collect()
    }

    /// Answers whether the counts of the batch are in the table.
    async fn seal(
        &self,
        sealable: Sealable,
        budget: &Budget<'_>,
        tally: &Tally,
    ) -> (BatchId, bool) {
        let Sealable { id, account, slot } = sealable;
        let seal = BatchWrite::Seal {
            account: account.clone(),
            at: budget.clock.now(),
        };
        let counted = match budget.write(&*self.ports().batch_store, id, &seal).await {
            Ok(Written::Applied(_)) => {
                tally.sealed();
                info!(batch_id = %id, items_count = account.confirmed, uncertain_count = account.uncertain, "batch sealed");
                let ticket = Ticket {
                    source: Some(slot.source),
                    ..Ticket::new(id, TicketReason::Sealed)
                };
                let send = || {
                    self.ports()
                        .batch_queue
                        .send(&ticket, std::time::Duration::ZERO)
                };
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
                if record.settled == account.settled && record.uncertain == account.uncertain =>
            {
                true
            }
            // It was quicker, and the last counts still have to arrive.
            Ok(Written::Refused(_)) => self.write_account(id, account, budget).await,
            Err(error) => {
                warn!(batch_id = %id, %error, "batch not sealed");
                false
            }
        };
        (id, counted)
    }

    /// Writes the counts of a batch whose claims `seqs` this invocation made; `false` when they are not known to be
    /// in the table of a batch that is not complete.
    pub async fn account(&self, batch: BatchId, seqs: &SeqSet, budget: &Budget<'_>) -> bool {
        let account = self.current().lock().account(batch);
        match account {
            Some(account) => {
                let version = account.version;
                let counted = self.write_account(batch, account, budget).await;
                if counted {
                    self.current().lock().counted(batch, version);
                }
                counted
            }
            None => self.counted_by_another(batch, seqs, budget).await,
        }
    }

    async fn write_account(&self, batch: BatchId, account: Account, budget: &Budget<'_>) -> bool {
        let write = BatchWrite::Account(account);
        match budget
            .write(&*self.ports().batch_store, batch, &write)
            .await
        {
            Ok(Written::Applied(record)) if record.status.is_some() => true,
            Ok(_) if planted(Bug::CompleteBatchCounted) => true,
            // The counts may be there, but they came too late: nobody will look at them any more.
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
        let mut attempt = 0;
        loop {
            let batches = &*self.ports().batch_store;
            let read = budget
                .call(RetryPolicy::CONTROL, || batches.read(batch))
                .await;
            if let Ok(Some(record)) = read
                && seqs.is_subset(&record.settled)
            {
                // Counted claims are delivered before the batch can be complete, so a complete one will do as well.
                return true;
            }
            attempt += 1;
            if !budget.pause(RetryPolicy::CONTROL, attempt).await {
                return false;
            }
        }
    }

    /// What became of the batches whose live claims were met. Where an acknowledgement will rely on a claim, its batch
    /// is told first, unless it knows: from then on the batch cannot complete without it. No entry: not found out.
    pub async fn fates(&self, met: Met, budget: &Budget<'_>) -> BTreeMap<BatchId, BatchFate> {
        let asked: Vec<_> = met
            .into_iter()
            .map(|(batch, relied_on)| async move {
                Some((batch, self.fate(batch, relied_on, budget).await?))
            })
            .collect();
        bounded(asked, self.config().common.write_concurrency)
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
        let batches = &*self.ports().batch_store;
        let read = budget
            .call(RetryPolicy::CONTROL, || batches.read(batch))
            .await?;
        let mut record = read.map(Box::new);
        let mut attempt = 0;
        loop {
            let Some(known) = record.as_deref().filter(|known| known.status.is_some()) else {
                return Ok(BatchFate::from(record.as_deref()));
            };
            let unknown = known.unknown_of(relied_on);
            if unknown.is_empty() || planted(Bug::WitnessSkipped) {
                return Ok(BatchFate::Alive);
            }
            let mut witnessed = known.witnessed.clone();
            witnessed.extend_from(&unknown);
            let write = BatchWrite::Witness {
                witnessed,
                witnesses: known.witnesses,
            };
            record = match budget.write(batches, batch, &write).await? {
                Written::Applied(record) => return Ok(BatchFate::from(Some(&*record))),
                Written::Refused(record) => record,
            };
            attempt += 1;
            if !budget.pause(RetryPolicy::CONTROL, attempt).await {
                return Err(PortError::Throttled {
                    service: "others",
                    message: format!("batch {batch} was told of other claims at every attempt"),
                });
            }
        }
    }
}
