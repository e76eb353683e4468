//! Seats for the messages of an invocation: reserves seats and a slot in the current batch of each scope, fills the slot when it is known
//! what became of the seats, and seals the batches that should start.
//!
//! A seat is given out once, and never again: a duplicate takes one too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::batch::{
    BatchLimits, BatchRecord, BatchWrite, Reservation, Reservations, Reserved, Status,
};
use protocol::ids::{BatchId, Seat, Seq, SlotId};
use protocol::retry::RetryPolicy;
use protocol::scope::{BatchScope, CurrentBatch, FlushReason};
use protocol::slot::Slot;
use protocol::time::Timestamp;
use shared::ports::{BatchStore, ObjectStore, PortError, Ports};
use shared::retry::{Budget, RequestPermits, Slots, Written, bounded};
use tracing::warn;

use crate::config::Config;
use crate::drain_detector::{DrainDetector, ReceivedCounts};
use crate::invocation::{Budgets, InvocationCounts};
use crate::records::Record;
use crate::scopes::Scopes;

/// Gives seats to messages.
pub(crate) struct Grants {
    pub(crate) scopes: Scopes,
    batch_store: Arc<dyn BatchStore>,
    object_store: Arc<dyn ObjectStore>,
    permits: Arc<RequestPermits>,
    drain_detector: DrainDetector,
    limits: BatchLimits,
    /// How long a batch waits for a next event.
    close_after_idle: Option<Duration>,
    concurrency: usize,
}

/// The messages of one scope that wait for seats, by their positions in the invocation.
pub(crate) struct Waiting<'a> {
    pub(crate) scope: &'a BatchScope,
    pub(crate) positions: Vec<usize>,
    /// A batch that gives them no seats.
    pub(crate) refused: Option<BatchId>,
}

/// Seats in a batch, and the slot that says what became of them.
pub(crate) struct Grant {
    pub(crate) current: CurrentBatch,
    pub(crate) first_seq: Seq,
    pub(crate) count: usize,
    slot: SlotId,
    reservations: Reservations,
}

/// The reply to a request for seats.
pub(crate) enum Reply {
    Granted(Box<Grant>),
    /// The batch has no room, or gives out no seats any more.
    Refused {
        /// Whether it was open until now.
        was_open: bool,
    },
    /// The batch had no record. It has one now, unless another batch is the current one of its scope.
    Unannounced,
}

/// Batches that should start, and why; with a time, only if nothing was reserved after it.
pub(crate) type Seals = Vec<(CurrentBatch, FlushReason, Option<Timestamp>)>;

impl Grant {
    /// Returns the seats, in order.
    pub(crate) fn seats(&self) -> impl Iterator<Item = Seat> + use<> {
        let (batch, shards) = (self.current.batch, self.current.shards);
        let seqs = (self.first_seq..).take(self.count);
        seqs.map(move |seq| Seat { batch, seq, shards })
    }
}

impl Grants {
    pub(crate) fn new(
        config: &Config,
        ports: &Ports,
        scopes: Scopes,
        permits: Arc<RequestPermits>,
        drain_detector: DrainDetector,
    ) -> Grants {
        Grants {
            scopes,
            batch_store: ports.batch_store.clone(),
            object_store: ports.object_store.clone(),
            permits,
            drain_detector,
            limits: config.limits,
            close_after_idle: config.close_after_idle,
            concurrency: config.common.write_concurrency,
        }
    }

    /// Returns the messages of the scopes that may have a batch, by scope, and the positions of the others, which fail.
    pub(crate) async fn admit<'a>(
        &self,
        records: &[&'a Record],
        budget: &Budget<'_>,
    ) -> (Vec<Waiting<'a>>, Vec<usize>) {
        let all = by_scope(records);
        let scopes: Vec<&BatchScope> = all.iter().map(|one| one.scope).collect();
        let admitted = self.scopes.admit(&scopes, budget).await;
        let (mut waiting, mut failed) = (Vec::with_capacity(all.len()), Vec::new());
        for (one, is_admitted) in all.into_iter().zip(admitted) {
            if is_admitted {
                waiting.push(one);
                continue;
            }
            let key = one.scope.key.as_ref().map(|key| key.as_str());
            warn!(
                keys_max = self.scopes.keys_max,
                batch_key = key.unwrap_or_default(),
                failed_count = one.positions.len(),
                "too many batch keys open"
            );
            failed.extend(one.positions);
        }
        (waiting, failed)
    }

    /// Reserves seats for as many of the first messages, of these sizes in bytes, as a batch has room for. Until `until`, nobody takes the
    /// slot for one that stays empty. A batch that has no room is sealed.
    ///
    /// # Errors
    /// [`PortError`] if it is not known whether seats are reserved. They are not used then, and their slot stays empty.
    pub(crate) async fn reserve(
        &self,
        current: &CurrentBatch,
        sizes: &[u64],
        until: Timestamp,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> Result<Reply, PortError> {
        // As if it was empty: a batch that has too little room says how much it has.
        let mut room = Reservations::default().room(sizes.iter().copied(), self.limits);
        let mut attempt = 0;
        loop {
            let write = BatchWrite::Reserve(Reservation {
                seats: room as u64,
                bytes: sizes[..room].iter().sum(),
                at: budget.clock.now(),
                until,
                limits: self.limits,
            });
            let store = &*self.batch_store;
            match budget.write(store, current.batch, &write).await? {
                Written::Applied(record) => {
                    let Some((reservations, reserved)) = reserved(*record, room) else {
                        return Ok(Reply::Refused { was_open: false });
                    };
                    counts.seats_reserved(room as u64);
                    self.scopes.current.reserved(current, budget.clock.now());
                    return Ok(Reply::Granted(Box::new(Grant {
                        current: current.clone(),
                        first_seq: reserved.first_seq,
                        count: room,
                        slot: SlotId {
                            batch: current.batch,
                            number: reserved.slot,
                        },
                        reservations,
                    })));
                }
                Written::Refused(Some(record)) => {
                    let was_open = record.status == Some(Status::Open);
                    let reservations = record.reservations.as_ref().filter(|_| was_open);
                    room =
                        reservations.map_or(0, |one| one.room(sizes.iter().copied(), self.limits));
                    if room == 0 {
                        if let Some(reservations) = reservations {
                            self.seal_full(current, reservations, budget, counts).await;
                        }
                        return Ok(Reply::Refused { was_open });
                    }
                }
                Written::Refused(None) => {
                    self.scopes.announce_again(current, budget).await?;
                    budget.next_attempt(&mut attempt).await?;
                    return Ok(Reply::Unannounced);
                }
            }
            budget.next_attempt(&mut attempt).await?;
        }
    }

    /// Returns whether a batch is open.
    ///
    /// # Errors
    /// [`PortError`] if its record cannot be read.
    pub(crate) async fn is_open(
        &self,
        batch: BatchId,
        budget: &Budget<'_>,
    ) -> Result<bool, PortError> {
        let read = || self.batch_store.read(batch);
        let record = budget.call(RetryPolicy::CONTROL, read).await?;
        Ok(record.is_some_and(|record| record.status == Some(Status::Open)))
    }

    /// Fills the slot of a grant. Returns whether it has this value; if not, the batch was closed before.
    ///
    /// # Errors
    /// [`PortError`] if that is not known. The messages must come back then.
    pub(crate) async fn fill(
        &self,
        grant: &Grant,
        value: &Slot,
        budget: &Budget<'_>,
    ) -> Result<bool, PortError> {
        let slots = Slots {
            store: &*self.object_store,
            permits: &self.permits,
            budget,
        };
        let filled = slots.fill(grant.slot, value).await;
        filled.inspect_err(|error| {
            warn!(batch_id = %grant.current.batch, %error, "slot not known to be filled");
        })
    }

    /// Seals the batch of a grant whose slot is filled, if it has no room for a next message of `next_bytes`. Returns whether it is full.
    pub(crate) async fn seal_if_full(
        &self,
        grant: &Grant,
        next_bytes: Option<u64>,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> bool {
        let next = next_bytes.unwrap_or(1);
        let is_full = grant.reservations.room([next], self.limits) == 0;
        if is_full {
            self.seal_full(&grant.current, &grant.reservations, budget, counts)
                .await;
        }
        is_full
    }

    async fn seal_full(
        &self,
        current: &CurrentBatch,
        reservations: &Reservations,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) {
        let reason = match reservations.reserved < self.limits.items_max {
            true => FlushReason::Bytes,
            false => FlushReason::Full,
        };
        self.scopes
            .seal(current, reason, None, budget, counts)
            .await;
    }

    /// Seals the batches with urgent events, those whose source is drained, and those that are idle.
    pub(crate) async fn seal_due(
        &self,
        urgent: BTreeMap<BatchId, CurrentBatch>,
        received: &ReceivedCounts<'_>,
        budgets: &Budgets<'_>,
        counts: &InvocationCounts,
    ) {
        let urgent = urgent.into_values();
        let mut seals: Seals = urgent
            .map(|current| (current, FlushReason::Urgent, None))
            .collect();
        seals.extend(self.drained(received, &budgets.claims).await);
        seals.extend(self.idle(&budgets.wrap_up));
        let seals = seals.iter().map(|(current, reason, idle_since)| {
            let budget = &budgets.wrap_up;
            self.scopes
                .seal(current, *reason, *idle_since, budget, counts)
        });
        bounded(seals.collect(), self.concurrency).await;
    }

    /// Returns the batches of the drained sources whose periods, if any, are over.
    async fn drained(&self, received: &ReceivedCounts<'_>, budget: &Budget<'_>) -> Seals {
        let mut drained = Vec::new();
        for (source, own) in received {
            let now = budget.clock.now();
            let is_over = |current: &CurrentBatch| {
                let period = current.scope.period;
                current.scope.source == **source && period.is_none_or(|period| period.ends <= now)
            };
            let mut of_source = self.scopes.current.all();
            of_source.retain(is_over);
            if !of_source.is_empty()
                && budget.has_time()
                && self.drain_detector.is_drained(source, *own, budget).await
            {
                let reason = FlushReason::Drained;
                drained.extend(of_source.into_iter().map(|current| (current, reason, None)));
            }
        }
        drained
    }

    /// Returns the batches that seem to be idle, each to be sealed if it is, if there is such a limit.
    fn idle(&self, budget: &Budget<'_>) -> Seals {
        let Some(idle) = self.close_after_idle else {
            return Vec::new();
        };
        let now = budget.clock.now();
        let since = now.saturating_sub(idle);
        let open = self.scopes.current.idle(since).into_iter();
        open.filter(|current| current.is_open_at(now))
            .map(|current| (current, FlushReason::Idle, Some(since)))
            .collect()
    }
}

/// Returns the reservations of a batch, and what the last one got, from the record as its write returned it.
fn reserved(record: BatchRecord, seats: usize) -> Option<(Reservations, Reserved)> {
    let reserved = record.reserved(seats as u64).filter(|_| seats > 0)?;
    Some((record.reservations?, reserved))
}

fn by_scope<'a>(records: &[&'a Record]) -> Vec<Waiting<'a>> {
    let mut positions: BTreeMap<&BatchScope, Vec<usize>> = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        positions.entry(&record.scope).or_default().push(index);
    }
    let waiting = positions.into_iter().map(|(scope, positions)| Waiting {
        scope,
        positions,
        refused: None,
    });
    waiting.collect()
}
