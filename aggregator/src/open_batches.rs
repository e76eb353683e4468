//! Writes the records of open batches: opens, counts and seals them. Reads the resolutions of the batches of existing claims.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::allocator::{Opening, Sealable};
use protocol::batch::{BatchCounts, BatchRecord, BatchWrite, Closing, NoWindow};
use protocol::bodies::Bodies;
use protocol::ids::BatchId;
use protocol::limits::TICKET_RESEND_AFTER;
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::ports::{BatchQueue, BatchStore, Entropy, PortError, Ports};
use shared::retry::{Budget, Written, bounded};
use shared::traces::names::BATCH_ID;
use shared::traces::{self, BatchLinks, span};
use shared::wire::{Ticket, TicketReason};
use tracing::{info, warn};

use crate::complete_records::CompleteRecords;
use crate::config::Config;
use crate::invocation::InvocationCounts;
use crate::shared_allocator::{OpeningGuard, SharedAllocator};

/// Why no batch could be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The deadline is so far away that the ticket's delay would exceed what SQS allows.
    #[error(transparent)]
    NoWindow(#[from] NoWindow),
    /// The write of the record was not acknowledged.
    #[error("record of batch `{batch}`: not written: {source}")]
    Record {
        batch: BatchId,
        #[source]
        source: PortError,
    },
    /// The record is written, but its ticket was not acknowledged. The batch stays empty.
    #[error("ticket of batch `{batch}`: not sent: {source}")]
    Ticket {
        batch: BatchId,
        #[source]
        source: PortError,
    },
}

/// The batches of the live claims that attempts found, each with the seats of those claims that an acknowledgement will rely
/// on.
pub type ReliedOn = BTreeMap<BatchId, SeqSet>;

/// The batches whose counts this invocation tried to write, and whether the batch table is known to have them.
pub type CountedBatches = BTreeMap<BatchId, bool>;

/// Opens, counts and seals batches, and reads the resolutions of the batches of existing claims.
pub struct OpenBatches {
    allocator: Arc<SharedAllocator>,
    batch_store: Arc<dyn BatchStore>,
    batch_queue: Arc<dyn BatchQueue>,
    entropy: Arc<dyn Entropy>,
    window: Duration,
    shards: u16,
    bodies: Bodies,
    dedup_window: Duration,
    concurrency: usize,
    ended: CompleteRecords,
    links: BatchLinks,
    /// Batches whose seal could not be written. The allocator does not have them any more.
    unsealed: Mutex<Vec<Sealable>>,
}

impl OpenBatches {
    /// Returns an object that writes the records of the batches in `allocator`.
    pub fn new(config: &Config, ports: &Ports, allocator: Arc<SharedAllocator>) -> OpenBatches {
        OpenBatches {
            allocator,
            batch_store: ports.batch_store.clone(),
            batch_queue: ports.batch_queue.clone(),
            entropy: ports.entropy.clone(),
            window: config.window,
            shards: config.limits.shards,
            bodies: config.bodies.clone(),
            dedup_window: config.common.dedup_window,
            concurrency: config.common.write_concurrency,
            ended: CompleteRecords::default(),
            links: BatchLinks::default(),
            unsealed: Mutex::default(),
        }
    }

    /// Returns the allocator, which has the seats and counts of the open batches.
    pub fn allocator(&self) -> &SharedAllocator {
        &self.allocator
    }

    /// Returns the spans that claimed events of the open batches, to which their tickets link.
    pub fn links(&self) -> &BatchLinks {
        &self.links
    }

    /// Opens a batch: writes its record, then sends its ticket. The allocator gives out seats of the batch only after both
    /// were acknowledged.
    ///
    /// # Errors
    /// [`OpenError`]. The scope is free again then. A batch that got a record but no ticket stays empty until the sweep sends a
    /// ticket.
    pub async fn open(
        &self,
        opening: Opening,
        deadline: Timestamp,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> Result<(), OpenError> {
        let guard = OpeningGuard::new(opening.scope.clone(), &self.allocator);
        let now = budget.clock.now();
        let closing = Closing::plan(now, deadline, self.window, opening.scope.period)?;
        let batch = self.entropy.batch_id(now);
        traces::text(BATCH_ID, batch);
        let scope = opening.scope.clone();
        let shards = self.shards;
        let record = BatchRecord::open(
            batch,
            scope.source,
            scope.key,
            shards,
            now,
            closing.closes_at,
        )
        .with_period(scope.period)
        .with_bodies(self.bodies.clone(), self.dedup_window);
        let create = || self.batch_store.create(&record);
        let created = budget.call(RetryPolicy::CONTROL, create).await;
        created.map_err(|source| OpenError::Record { batch, source })?;
        let recorded = opening.record_acknowledged(&record);
        let ticket = Ticket {
            source: Some(record.source.clone()),
            shards: Some(shards),
            ..Ticket::new(batch, TicketReason::Window)
        };
        let delay = || closing.ticket_delay(budget.clock.now());
        let not_sent = |source| OpenError::Ticket { batch, source };
        // Otherwise the sweep sends the ticket, as soon as SQS can delay it until the window ends.
        if !closing.is_beyond_delays(now) {
            let sent = self.send_ticket(ticket, delay, budget).await;
            sent.map_err(not_sent)?;
        }
        guard.opened(recorded.ticket_acknowledged());
        counts.batch_opened();
        info!(batch_id = %batch, source = %record.source, closes_at = %closing.closes_at, "batch opened");
        Ok(())
    }

    /// Seals every batch that gets no further claims and has no attempt in flight, and sends its immediate ticket. Returns
    /// which of them the batch table has the counts of.
    pub async fn seal_sealable(
        &self,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> CountedBatches {
        let mut sealable = std::mem::take(&mut *self.unsealed());
        sealable.extend(self.allocator.lock().take_sealable());
        let seals = sealable.into_iter();
        let seals = seals.map(|sealable| self.seal(sealable, budget, counts));
        let counted = bounded(seals.collect(), self.concurrency).await;
        counted.into_iter().collect()
    }

    fn unsealed(&self) -> MutexGuard<'_, Vec<Sealable>> {
        self.unsealed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seals a batch. Returns its id, and whether its counts are in the table.
    async fn seal(
        &self,
        sealable: Sealable,
        budget: &Budget<'_>,
        invocation_counts: &InvocationCounts,
    ) -> (BatchId, bool) {
        let Sealable {
            id,
            ref counts,
            ref scope,
            closes_at,
            reason,
        } = sealable;
        let at = budget.clock.now();
        // Otherwise the ticket that was sent when it was opened arrives when its window closes, and it is due then.
        let has_no_ticket = Closing { closes_at }.is_beyond_delays(id.opened_at());
        let seal = BatchWrite::Seal {
            counts: counts.clone(),
            at,
            due_at: has_no_ticket.then_some(at + TICKET_RESEND_AFTER),
        };
        let counted = match budget.write(&*self.batch_store, id, &seal).await {
            Ok(Written::Applied(_)) => {
                invocation_counts.batch_sealed(reason);
                info!(batch_id = %id, items_count = counts.confirmed, uncertain_count = counts.uncertain, ?reason, "batch sealed");
                let ticket = Ticket {
                    source: Some(scope.source.clone()),
                    ..Ticket::new(id, TicketReason::Sealed)
                };
                if let Err(error) = self.send_ticket(ticket, || Duration::ZERO, budget).await {
                    // The batch is only late: the ticket of its window arrives, or the sweep sends one.
                    warn!(batch_id = %id, %error, "no immediate ticket for a sealed batch");
                }
                true
            }
            // The window closed and a processor has taken the batch, but the record has these counts already.
            Ok(Written::Refused(Some(record)))
                if record.settled == counts.settled && record.uncertain == counts.uncertain =>
            {
                true
            }
            // A processor has taken the batch, and the record does not have the last counts yet.
            Ok(Written::Refused(_)) => self.write_counts(id, counts.clone(), budget).await,
            Err(error) => {
                warn!(batch_id = %id, %error, "batch not sealed: the next invocation tries again");
                self.unsealed().push(sealable);
                return (id, false);
            }
        };
        self.links.forget(id);
        (id, counted)
    }

    /// Sends a ticket, which names the span that sends it and the spans that claimed events of its batch.
    async fn send_ticket(
        &self,
        ticket: Ticket,
        delay: impl Fn() -> Duration,
        budget: &Budget<'_>,
    ) -> Result<(), PortError> {
        let batch = ticket.batch_id;
        let send = async {
            let ticket = Ticket {
                traces: self.links.of_ticket(batch),
                ..ticket
            };
            let send = || self.batch_queue.send(&ticket, delay());
            let sent = budget.call(RetryPolicy::CONTROL, send).await;
            sent.inspect_err(|_| traces::failed("ticket_not_sent"))
        };
        span("ticket").sends().text(BATCH_ID, batch).run(send).await
    }

    /// Makes sure that the record of a batch counts the claims `seqs`, which this invocation made: writes the counts, or
    /// waits until the invocation that seals the batch has written them. Returns `false` if the record does not count them,
    /// or only counted them after the batch was complete, or if that is unknown.
    pub async fn ensure_counted(&self, batch: BatchId, seqs: &SeqSet, budget: &Budget<'_>) -> bool {
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
            // The record may have the counts, but too late: nobody processes a complete batch again.
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

    /// Waits until the record counts the claims `seqs`. Another invocation of this environment is sealing the batch, and
    /// its counts include these claims.
    async fn counted_by_another(&self, batch: BatchId, seqs: &SeqSet, budget: &Budget<'_>) -> bool {
        let batches = &*self.batch_store;
        let is_counted = || async {
            let read = || batches.read(batch);
            let record = budget.call(RetryPolicy::CONTROL, read).await.ok()??;
            // A complete batch will do as well: a batch completes only after its counted claims were delivered or set
            // aside.
            seqs.is_subset(record.counted()).then_some(())
        };
        let counted = budget.poll(RetryPolicy::CONTROL, is_counted).await;
        counted.is_some()
    }

    /// Returns the records of the batches of existing claims. A claim that an acknowledgement will rely on is first
    /// recorded as a witness, unless the record knows it: then the batch cannot complete without the claim. A batch whose
    /// record could not be read has no entry.
    pub async fn witness_all(
        &self,
        relied_on: ReliedOn,
        budget: &Budget<'_>,
    ) -> BTreeMap<BatchId, Option<Arc<BatchRecord>>> {
        let asked = relied_on.into_iter().map(|(batch, relied_on)| async move {
            let record = self.witness(batch, &relied_on, budget).await.ok()?;
            Some((batch, record))
        });
        let records = bounded(asked.collect(), self.concurrency).await;
        records.into_iter().flatten().collect()
    }

    /// Records the seqs `relied_on` as witnesses, unless the record knows them or is complete, and returns the record, if
    /// there is one. When several invocations record witnesses at the same time, one write succeeds, and the others read
    /// the record and try again.
    pub async fn witness(
        &self,
        batch: BatchId,
        relied_on: &SeqSet,
        budget: &Budget<'_>,
    ) -> Result<Option<Arc<BatchRecord>>, PortError> {
        if let Some(record) = self.ended.get(batch) {
            return Ok(Some(record));
        }
        let witness = |known: &BatchRecord| {
            let unknown = known.unknown_of(relied_on);
            if known.status.is_none() || unknown.is_empty() {
                return None;
            }
            let witnessed = known.witnessed.union(&unknown);
            Some(BatchWrite::Witness {
                witnessed,
                witnesses: known.witnesses,
            })
        };
        let updated = budget.update(&*self.batch_store, batch, witness).await;
        let record = updated.inspect_err(
            |error| warn!(batch_id = %batch, %error, "resolution of the batch unknown"),
        )?;
        let record = record.map(Arc::from);
        if let Some(record) = &record {
            self.ended.keep(record);
        }
        Ok(record)
    }
}
