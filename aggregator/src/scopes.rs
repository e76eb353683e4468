//! The current batches of the log, one for each scope, which all environments share: finds, opens and seals them.
//!
//! An environment remembers the scope items that it has read. That saves reads; no promise depends on it, because a batch that takes no
//! reservations refuses them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::allocator::{BatchScope, FlushReason};
use protocol::batch::{BatchRecord, BatchWrite, Closing, Status};
use protocol::bodies::Bodies;
use protocol::ids::BatchId;
use protocol::limits::{LOG_CALLS_MAX, TICKET_RESEND_AFTER};
use protocol::log::{CurrentBatch, ScopeItem};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::named_items::Versioned;
use shared::ports::{BatchQueue, BatchStore, Entropy, NamedItems, PortError, Ports};
use shared::retry::{Budget, Written, bounded};
use shared::traces::names::BATCH_ID;
use shared::traces::span;
use shared::wire::{Ticket, TicketReason};
use tracing::{info, warn};

use crate::config::Config;
use crate::invocation::InvocationCounts;

/// A batch that an environment remembers.
struct Known {
    current: CurrentBatch,
    /// The last reservation in it, as far as the environment knows.
    last_at: Timestamp,
}

/// Finds, opens and seals the current batches of scopes.
pub(crate) struct Scopes {
    batch_store: Arc<dyn BatchStore>,
    batch_queue: Arc<dyn BatchQueue>,
    named_items: Arc<dyn NamedItems>,
    entropy: Arc<dyn Entropy>,
    window: Duration,
    dedup_window: Duration,
    bodies: Bodies,
    /// `BATCH_KEYS_MAX`.
    pub(crate) keys_max: usize,
    known: Mutex<BTreeMap<BatchScope, Known>>,
}

impl Scopes {
    pub(crate) fn new(config: &Config, ports: &Ports) -> Scopes {
        Scopes {
            batch_store: ports.batch_store.clone(),
            batch_queue: ports.batch_queue.clone(),
            named_items: ports.named_items.clone(),
            entropy: ports.entropy.clone(),
            window: config.window,
            dedup_window: config.common.dedup_window,
            bodies: config.bodies.clone(),
            keys_max: config.limits.keys_max,
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<BatchScope, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, current: &CurrentBatch, now: Timestamp) {
        let mut known = self.known();
        if known.len() >= self.keys_max {
            known.retain(|_, known| known.current.is_open_at(now));
        }
        let (scope, current) = (current.scope.clone(), current.clone());
        let last_at = now;
        known.insert(scope, Known { current, last_at });
    }

    /// Remembers that a batch got a reservation.
    pub(crate) fn reserved(&self, current: &CurrentBatch, at: Timestamp) {
        if let Some(known) = self.known().get_mut(&current.scope) {
            known.last_at = known.last_at.max(at);
        }
    }

    /// Returns which of `scopes` may have a batch: no more with a key or a period than `keys_max` at once.
    pub(crate) async fn admit(&self, scopes: &[&BatchScope], budget: &Budget<'_>) -> Vec<bool> {
        let admitted = self.admitted(scopes, budget.clock.now());
        if admitted.iter().all(|is_admitted| *is_admitted) {
            return admitted;
        }
        self.forget_sealed(budget).await;
        self.admitted(scopes, budget.clock.now())
    }

    /// Forgets the batches that other environments have sealed.
    async fn forget_sealed(&self, budget: &Budget<'_>) {
        let reads = self.remembered().into_iter().map(|current| async move {
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

    fn admitted(&self, scopes: &[&BatchScope], now: Timestamp) -> Vec<bool> {
        let known = self.known();
        let is_open = |known: &Known| known.current.is_open_at(now);
        let of_many = known.iter().filter(|(scope, _)| scope.is_one_of_many());
        let open_count = of_many.filter(|(_, known)| is_open(known)).count();
        let mut room = self.keys_max.saturating_sub(open_count);
        let admit = |scope: &&BatchScope| {
            let is_new = scope.is_one_of_many() && !known.get(*scope).is_some_and(is_open);
            let is_admitted = !is_new || room > 0;
            room -= usize::from(is_new && is_admitted);
            is_admitted
        };
        scopes.iter().map(admit).collect()
    }

    fn forget(&self, batch: BatchId) {
        self.known().retain(|_, known| known.current.batch != batch);
    }

    /// Returns the batches that the environment remembers, those whose window has ended among them.
    pub(crate) fn remembered(&self) -> Vec<CurrentBatch> {
        let known = self.known();
        known.values().map(|known| known.current.clone()).collect()
    }

    /// Returns the remembered batches of which the environment knows no reservation after `since`.
    pub(crate) fn idle(&self, since: Timestamp) -> Vec<CurrentBatch> {
        let known = self.known();
        let idle = known.values().filter(|known| known.last_at <= since);
        idle.map(|known| known.current.clone()).collect()
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
            current.is_open_at(budget.clock.now()) && Some(current.batch) != refused
        };
        let known = self.known().get(scope).map(|known| known.current.clone());
        if let Some(current) = known.as_ref().filter(is_usable) {
            return Ok(current.clone());
        }
        let mut attempt = 0;
        loop {
            let read = self.read(scope, budget).await?;
            if let Some(current) = read.value.current.as_ref().filter(is_usable) {
                self.remember(current, budget.clock.now());
                return Ok(current.clone());
            }
            if let Some(current) = self.open(scope, &read, budget).await? {
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
        let current = CurrentBatch::new(
            self.entropy.batch_id(now),
            scope.clone(),
            now,
            self.window,
            self.bodies.clone(),
            self.dedup_window,
        );
        let item = ScopeItem {
            current: Some(current.clone()),
        };
        let replace = || self.named_items.replace(scope, read, &item);
        if !budget.call(RetryPolicy::CONTROL, replace).await? {
            return Ok(None);
        }
        self.remember(&current, now);
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
        let seal = BatchWrite::SealLog {
            at,
            due_at: has_no_ticket.then_some(at + TICKET_RESEND_AFTER),
            idle_since,
        };
        match budget.write(&*self.batch_store, batch, &seal).await {
            Ok(Written::Applied(record)) => {
                self.forget(batch);
                counts.batch_sealed(reason);
                let reserved = record.log.as_ref().map_or(0, |log| log.reserved);
                info!(batch_id = %batch, items_count = reserved, ?reason, "batch sealed");
                let ticket = Ticket {
                    source: Some(current.scope.source.clone()),
                    ..Ticket::new(batch, TicketReason::Sealed)
                };
                if let Err(error) = self.send(&ticket, || Duration::ZERO, budget).await {
                    // The batch is only late: the ticket of its window arrives, or the sweep sends one.
                    warn!(batch_id = %batch, %error, "no immediate ticket for a sealed batch");
                }
            }
            Ok(Written::Refused(record)) => {
                let open = record.filter(|record| record.status == Some(Status::Open));
                match open.and_then(|record| record.log) {
                    // It is not idle, because another environment reserved seats.
                    Some(log) if idle_since.is_some() => self.reserved(current, log.last_at),
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
        let send = || self.batch_queue.send(ticket, delay());
        let sent = budget.call(RetryPolicy::CONTROL, send);
        let span = span("ticket").sends().text(BATCH_ID, ticket.batch_id);
        span.run(sent).await
    }
}
