//! The current batches, one for each scope, which all environments share: finds, opens and seals them.

use std::sync::Arc;
use std::time::Duration;

use protocol::batch::{BatchRecord, BatchWrite, Closing, Status};
use protocol::ids::BatchId;
use protocol::limits::{LOG_CALLS_MAX, TICKET_RESEND_AFTER};
use protocol::retry::RetryPolicy;
use protocol::scope::{BatchRules, BatchScope, CurrentBatch, FlushReason, ScopeItem};
use protocol::time::Timestamp;
use shared::named_items::Versioned;
use shared::ports::{BatchQueue, BatchStore, Entropy, NamedItems, PortError, Ports};
use shared::retry::{Budget, Written, bounded};
use shared::traces::names::BATCH_ID;
use shared::traces::{self, BatchLinks, span};
use shared::wire::{Ticket, TicketReason};
use tracing::{info, warn};

use crate::config::Config;
use crate::current_batches::CurrentBatches;
use crate::invocation::InvocationCounts;

/// Finds, opens and seals the current batches of scopes.
pub(crate) struct Scopes {
    batch_store: Arc<dyn BatchStore>,
    batch_queue: Arc<dyn BatchQueue>,
    named_items: Arc<dyn NamedItems>,
    entropy: Arc<dyn Entropy>,
    rules: BatchRules,
    /// `BATCH_KEYS_MAX`.
    pub(crate) keys_max: usize,
    pub(crate) current: Arc<CurrentBatches>,
    /// The spans that brought events into the batches, to which their tickets link.
    pub(crate) links: BatchLinks,
}

impl Scopes {
    pub(crate) fn new(config: &Config, ports: &Ports, current: Arc<CurrentBatches>) -> Scopes {
        Scopes {
            batch_store: ports.batch_store.clone(),
            batch_queue: ports.batch_queue.clone(),
            named_items: ports.named_items.clone(),
            entropy: ports.entropy.clone(),
            rules: config.batch_rules(),
            keys_max: config.keys_max,
            current,
            links: BatchLinks::default(),
        }
    }

    /// Returns which of `scopes` may have a batch: no more with a key or a period than `keys_max` at once.
    pub(crate) async fn admit(&self, scopes: &[&BatchScope], budget: &Budget<'_>) -> Vec<bool> {
        let admitted = |now| self.current.admitted(scopes, self.keys_max, now);
        let at_first = admitted(budget.clock.now());
        if at_first.iter().all(|is_admitted| *is_admitted) {
            return at_first;
        }
        self.forget_sealed(budget).await;
        admitted(budget.clock.now())
    }

    /// Forgets the batches that other environments have sealed.
    async fn forget_sealed(&self, budget: &Budget<'_>) {
        let reads = self.current.all().into_iter().map(|current| async move {
            let read = || self.batch_store.read(current.batch);
            (current.batch, budget.call(RetryPolicy::CONTROL, read).await)
        });
        for (batch, read) in bounded(reads.collect(), LOG_CALLS_MAX).await {
            // A batch whose opener died has no record yet.
            let is_sealed = |record: BatchRecord| record.status != Some(Status::Open);
            if read.is_ok_and(|record| record.is_some_and(is_sealed)) {
                self.forget(batch);
            }
        }
    }

    fn forget(&self, batch: BatchId) {
        self.current.forget(batch);
        self.links.forget(batch);
    }

    fn remember(&self, current: &CurrentBatch, budget: &Budget<'_>) {
        let now = budget.clock.now();
        self.current.remember(current, self.keys_max, now);
    }

    /// Returns the batch that takes the events of a scope; opens one if there is none. `refused` is a batch that takes no more.
    ///
    /// # Errors
    /// [`PortError`] if there is no batch that is known to be announced. A retry may succeed.
    pub(crate) async fn find(
        &self,
        scope: &BatchScope,
        refused: Option<BatchId>,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> Result<CurrentBatch, PortError> {
        let is_usable = |current: &&CurrentBatch| {
            let is_open = current.is_open_at(budget.clock.now());
            // Of the other layout, while environments of two configurations run.
            let is_of_layout = current.bodies.is_log() == self.rules.bodies.is_log();
            is_open && is_of_layout && Some(current.batch) != refused
        };
        if let Some(current) = self.current.of(scope).filter(|one| is_usable(&one)) {
            return Ok(current);
        }
        let mut attempt = 0;
        loop {
            let read = self.read(scope, budget).await?;
            if let Some(current) = read.value.current.as_ref().filter(is_usable) {
                self.remember(current, budget);
                return Ok(current.clone());
            }
            let open = async {
                let opened = self.open(scope, &read, budget).await;
                opened.inspect_err(|_| traces::failed("batch_not_opened"))
            };
            if let Some(current) = span("open").run(open).await? {
                counts.batch_opened();
                return Ok(current);
            }
            // Another environment has opened a batch at the same moment, or an attempt of ours without a reply did.
            budget.next_attempt(&mut attempt).await?;
        }
    }

    async fn read(
        &self,
        scope: &BatchScope,
        budget: &Budget<'_>,
    ) -> Result<Versioned<ScopeItem>, PortError> {
        let read = || self.named_items.get::<ScopeItem>(scope);
        budget.call(RetryPolicy::CONTROL, read).await
    }

    /// Makes a new batch the current one of a scope, if the item is still as it was read, and announces it.
    async fn open(
        &self,
        scope: &BatchScope,
        read: &Versioned<ScopeItem>,
        budget: &Budget<'_>,
    ) -> Result<Option<CurrentBatch>, PortError> {
        let now = budget.clock.now();
        let current =
            CurrentBatch::new(self.entropy.batch_id(now), scope.clone(), now, &self.rules);
        traces::text(BATCH_ID, current.batch);
        let item = ScopeItem {
            current: Some(current.clone()),
        };
        let replace = || self.named_items.replace(scope, read, &item);
        if !budget.call(RetryPolicy::CONTROL, replace).await? {
            return Ok(None);
        }
        self.remember(&current, budget);
        self.announce(&current, budget).await?;
        info!(batch_id = %current.batch, source = %scope.source, closes_at = %current.closes_at, "batch opened");
        Ok(Some(current))
    }

    /// Announces a batch that has no record, unless its window has ended or it is not the current one of its scope any more. The
    /// invocation that opened it may have died before.
    pub(crate) async fn announce_again(
        &self,
        current: &CurrentBatch,
        budget: &Budget<'_>,
    ) -> Result<(), PortError> {
        let scope = &current.scope;
        let read = self.read(scope, budget).await?;
        let open = read.value.open_at(budget.clock.now());
        if let Some(open) = open.filter(|open| open.batch == current.batch) {
            return self.announce(open, budget).await;
        }
        self.forget(current.batch);
        Ok(())
    }

    /// Sends the ticket of a batch, and then puts its record, unless it is there. Both follow from the scope item, so that every
    /// environment sends and puts the same.
    async fn announce(&self, current: &CurrentBatch, budget: &Budget<'_>) -> Result<(), PortError> {
        let closing = Closing {
            closes_at: current.closes_at,
        };
        // Otherwise the sweep sends the ticket, as soon as SQS can delay it until the window ends. Every environment asks by the same time.
        if !closing.is_beyond_delays(current.created_at) {
            let ticket = Ticket {
                source: Some(current.scope.source.clone()),
                is_ahead: true,
                ..Ticket::new(current.batch, TicketReason::Window)
            };
            let delay = || closing.ticket_delay(budget.clock.now());
            self.send(&ticket, delay, budget).await?;
        }
        let record = current.record();
        let create = || self.batch_store.create(&record);
        budget.call(RetryPolicy::CONTROL, create).await
    }

    /// Seals a batch, and sends its immediate ticket; with `idle_since`, only if nothing was reserved in it after that time. If it fails, the
    /// batch starts when its window ends.
    pub(crate) async fn seal(
        &self,
        current: &CurrentBatch,
        reason: FlushReason,
        idle_since: Option<Timestamp>,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) {
        let (batch, at) = (current.batch, budget.clock.now());
        let closing = Closing {
            closes_at: current.closes_at,
        };
        // Otherwise the ticket that was sent when it was opened arrives when its window ends, and it is due then.
        let has_no_ticket = closing.is_beyond_delays(current.created_at);
        let seal = BatchWrite::Seal {
            at,
            due_at: has_no_ticket.then_some(at + TICKET_RESEND_AFTER),
            idle_since,
        };
        match budget.write(&*self.batch_store, batch, &seal).await {
            Ok(Written::Applied(record)) => {
                self.current.forget(batch);
                counts.batch_sealed(reason);
                let reserved = record.reservations.as_ref().map_or(0, |one| one.reserved);
                info!(batch_id = %batch, items_count = reserved, ?reason, "batch sealed");
                let ticket = Ticket {
                    source: Some(current.scope.source.clone()),
                    ..Ticket::new(batch, TicketReason::Sealed)
                };
                if let Err(error) = self.send(&ticket, || Duration::ZERO, budget).await {
                    // The batch is only late: the ticket of its window arrives, or the sweep sends one.
                    warn!(batch_id = %batch, %error, "no immediate ticket for a sealed batch");
                }
                self.links.forget(batch);
            }
            Ok(Written::Refused(record)) => {
                let open = record.filter(|record| record.status == Some(Status::Open));
                match open.and_then(|record| record.reservations) {
                    // It is not idle, because another environment reserved seats.
                    Some(one) if idle_since.is_some() => {
                        self.current.reserved(current, one.last_at)
                    }
                    // Another invocation has sealed it, or its window has ended.
                    _ => self.forget(batch),
                }
            }
            Err(error) => warn!(batch_id = %batch, %error, "batch not sealed"),
        }
    }

    async fn send(
        &self,
        ticket: &Ticket,
        delay: impl Fn() -> Duration,
        budget: &Budget<'_>,
    ) -> Result<(), PortError> {
        let send = async {
            let ticket = Ticket {
                traces: self.links.of_ticket(ticket.batch_id),
                ..ticket.clone()
            };
            let send = || self.batch_queue.send(&ticket, delay());
            let sent = budget.call(RetryPolicy::CONTROL, send).await;
            sent.inspect_err(|_| traces::failed("ticket_not_sent"))
        };
        let span = span("ticket").sends().text(BATCH_ID, ticket.batch_id);
        span.run(send).await
    }
}
