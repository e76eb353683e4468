//! Brings the messages of an invocation into batches of the log: stores them as a load, reserves seats in the current batch of each
//! scope, and fills the slots of the reservations.
//!
//! Every message is a line, also if another has the same event id: duplicates are decided when the batch is closed. A message is
//! acknowledged only if the slot that has its line is known to have this invocation's value.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::allocator::{BatchScope, FlushReason};
use protocol::batch::{BatchRecord, BatchWrite, LogLimits, LogState, Reservation, Status};
use protocol::ids::{BatchId, ObjectId, SlotId};
use protocol::limits::LOG_RETENTION;
use protocol::log::{CurrentBatch, Frame, Slot, object_hash};
use protocol::time::Timestamp;
use shared::load::encode_frame;
use shared::ports::{BatchStore, Entropy, ObjectStore, PortError, Ports};
use shared::retry::{
    Budget, NotStored, ObjectRules, RequestPermits, Slots, Written, bounded, store_object,
};
use shared::traces::names::ITEMS_COUNT;
use shared::traces::span;
use tracing::{error, warn};

use crate::config::Config;
use crate::drain_detector::{DrainDetector, ReceivedCounts};
use crate::invocation::{Budgets, InvocationCounts};
use crate::records::Record;
use crate::scopes::Scopes;

/// Brings messages into batches of the log.
pub(crate) struct Intake {
    scopes: Scopes,
    batch_store: Arc<dyn BatchStore>,
    object_store: Arc<dyn ObjectStore>,
    entropy: Arc<dyn Entropy>,
    permits: Arc<RequestPermits>,
    drain_detector: DrainDetector,
    rules: ObjectRules,
    limits: LogLimits,
    /// How long a batch waits for a next event.
    close_after_idle: Option<Duration>,
    concurrency: usize,
}

/// The lines of one scope, in the order of the invocation.
struct Lines<'a> {
    scope: &'a BatchScope,
    positions: Vec<usize>,
    /// The bytes of their bodies.
    sizes: Vec<u64>,
}

/// The outcome of the lines of a scope.
#[derive(Default)]
struct Taken {
    /// The positions of the messages that may be acknowledged.
    acknowledged: Vec<usize>,
    /// The batches that have one of them, with the last reservation in the last of them.
    batches: Vec<CurrentBatch>,
}

impl Intake {
    pub(crate) fn new(
        config: &Config,
        ports: &Ports,
        permits: Arc<RequestPermits>,
        drain_detector: DrainDetector,
    ) -> Intake {
        Intake {
            scopes: Scopes::new(config, ports),
            batch_store: ports.batch_store.clone(),
            object_store: ports.object_store.clone(),
            entropy: ports.entropy.clone(),
            permits,
            drain_detector,
            rules: ObjectRules {
                bodies: config.bodies.clone(),
                sizes: config.object_sizes,
                retention: LOG_RETENTION,
            },
            limits: LogLimits {
                lines_max: config.limits.items_max,
                bytes_max: config.limits.bytes_max,
            },
            close_after_idle: config.close_after_idle,
            concurrency: config.common.write_concurrency,
        }
    }

    /// Brings messages into their batches. Returns for each whether it may be acknowledged.
    pub(crate) async fn take(
        &self,
        records: &[&Record],
        received: &ReceivedCounts<'_>,
        budgets: &Budgets<'_>,
        counts: &InvocationCounts,
    ) -> Vec<bool> {
        let mut acknowledged = vec![false; records.len()];
        if records.is_empty() {
            return acknowledged;
        }
        let all = lines_by_scope(records);
        let all = self.admitted(all, &budgets.claims).await;
        let store = span("store").count(ITEMS_COUNT, records.len());
        let frames = match store.run(self.store(&all, records, &budgets.claims)).await {
            Ok(frames) => frames,
            Err(error) => {
                error!(%error, "load not stored");
                return acknowledged;
            }
        };
        let take = |(lines, frame)| self.take_lines(lines, frame, &budgets.claims, counts);
        let taken = all.iter().zip(&frames).map(take).collect();
        let taken = bounded(taken, self.concurrency).await;
        let mut urgent: BTreeMap<BatchId, CurrentBatch> = BTreeMap::new();
        for Taken {
            acknowledged: positions,
            batches,
        } in taken
        {
            let is_urgent = positions.iter().any(|index| records[*index].is_urgent);
            if is_urgent {
                urgent.extend(batches.into_iter().map(|current| (current.batch, current)));
            }
            for index in positions {
                acknowledged[index] = true;
            }
        }
        let urgent = urgent.into_values();
        let urgent = urgent.map(|current| (current, FlushReason::Urgent, None));
        let mut seals: Vec<_> = urgent.collect();
        seals.extend(self.drained(received, &budgets.claims).await);
        seals.extend(self.idle(&budgets.wrap_up));
        let seals = seals.iter().map(|(current, reason, idle_since)| {
            let budget = &budgets.wrap_up;
            self.scopes
                .seal(current, *reason, *idle_since, budget, counts)
        });
        bounded(seals.collect(), self.concurrency).await;
        acknowledged
    }

    /// Returns the lines of the scopes that may have a batch. The messages of the others fail, and come back.
    async fn admitted<'a>(&self, all: Vec<Lines<'a>>, budget: &Budget<'_>) -> Vec<Lines<'a>> {
        let scopes: Vec<&BatchScope> = all.iter().map(|lines| lines.scope).collect();
        let admitted = self.scopes.admit(&scopes, budget).await;
        let lines = all.into_iter().zip(admitted);
        let lines = lines.filter_map(|(lines, is_admitted)| {
            if is_admitted {
                return Some(lines);
            }
            let key = lines.scope.key.as_ref().map(|key| key.as_str());
            warn!(
                keys_max = self.scopes.keys_max,
                batch_key = key.unwrap_or_default(),
                failed_count = lines.positions.len(),
                "too many batch keys open"
            );
            None
        });
        lines.collect()
    }

    /// Stores the messages as a load. Returns the frame of each scope, with all its lines.
    async fn store(
        &self,
        all: &[Lines<'_>],
        records: &[&Record],
        budget: &Budget<'_>,
    ) -> Result<Vec<Frame>, NotStored> {
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        let mut frames = Vec::with_capacity(all.len());
        let load = self.entropy.object_name();
        // Before it is stored: a line is decided by this time, and no duplicate that came earlier may win.
        let stored_at = budget.clock.now();
        for lines in all {
            let message = |index: &usize| &records[*index].candidate;
            let frame = encode_frame(lines.positions.iter().map(message));
            let start = bytes.len() as u64;
            bytes.extend(&frame);
            frames.push(Frame {
                load,
                bodies: self.rules.bodies.clone(),
                bytes: start..bytes.len() as u64,
                lines: 0..lines.positions.len() as u32,
                first_seq: 0,
                stored_at,
                hash: object_hash(&frame),
            });
        }
        let (store, permits) = (&*self.object_store, &*self.permits);
        let object = ObjectId::Load(load);
        // Half of the time, so that a slow request leaves time for the slots.
        let half = budget.half();
        store_object(store, &self.rules, object, &bytes, permits, &half).await?;
        Ok(frames)
    }

    /// Brings the lines of a scope into its current batch, and what does not fit into the next ones.
    async fn take_lines(
        &self,
        lines: &Lines<'_>,
        frame: &Frame,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> Taken {
        let mut taken = Taken::default();
        let mut from = 0;
        let mut refused = None;
        while from < lines.positions.len() && budget.has_time() {
            let rest = &lines.sizes[from..];
            let reserved = self
                .reserve(lines.scope, rest, refused, budget, counts)
                .await;
            let (current, record, count) = match reserved {
                Ok(Some(reserved)) => reserved,
                Ok(None) => continue,
                Err(error) => {
                    warn!(source = %lines.scope.source, %error, "no seats reserved");
                    return taken;
                }
            };
            let Some(reserved) = record.reserved(count as u64).filter(|_| count > 0) else {
                // It is full, or takes no reservations any more.
                refused = Some(current.batch);
                if record.status == Some(Status::Open) {
                    let reason = FlushReason::Full;
                    self.scopes
                        .seal(&current, reason, None, budget, counts)
                        .await;
                }
                continue;
            };
            let value = Slot::Filled(Frame {
                lines: from as u32..(from + count) as u32,
                first_seq: reserved.first_seq,
                ..frame.clone()
            });
            let slot = SlotId {
                batch: current.batch,
                number: reserved.slot,
            };
            let slots = Slots {
                store: &*self.object_store,
                permits: &self.permits,
                budget,
            };
            match slots.fill(slot, &value).await {
                Ok(true) => {
                    let positions = &lines.positions[from..from + count];
                    taken.acknowledged.extend(positions);
                    from += count;
                }
                // The batch was closed meanwhile.
                Ok(false) => {
                    refused = Some(current.batch);
                    continue;
                }
                Err(error) => {
                    warn!(batch_id = %current.batch, %error, "slot not known to be filled");
                    return taken;
                }
            }
            let is_full = record.log.as_ref().is_some_and(|log| {
                let next = lines.sizes.get(from).copied().unwrap_or(1);
                log.room([next], self.limits) == 0
            });
            if is_full {
                refused = Some(current.batch);
                let reason = FlushReason::Full;
                self.scopes
                    .seal(&current, reason, None, budget, counts)
                    .await;
            }
            taken.batches.push(current);
        }
        taken
    }

    /// Reserves seats for as many of the first lines, of these sizes, as the current batch of the scope has room for. Returns the batch, its
    /// record afterwards, and how many; none if it has no room. `None` if the batch had no record, which may be there now.
    async fn reserve(
        &self,
        scope: &BatchScope,
        sizes: &[u64],
        refused: Option<BatchId>,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> Result<Option<(CurrentBatch, Box<BatchRecord>, usize)>, PortError> {
        let current = self.scopes.find(scope, refused, budget, counts).await?;
        // As if it was empty: a batch that has too little room says how much it has.
        let mut room = LogState::default().room(sizes.iter().copied(), self.limits);
        let mut attempt = 0;
        loop {
            let write = BatchWrite::Reserve(Reservation {
                lines: room as u64,
                bytes: sizes[..room].iter().sum(),
                at: budget.clock.now(),
                limits: self.limits,
            });
            let store = &*self.batch_store;
            match budget.write(store, current.batch, &write).await? {
                Written::Applied(record) => {
                    counts.seats_reserved(room as u64);
                    self.scopes.reserved(&current, budget.clock.now());
                    return Ok(Some((current, record, room)));
                }
                Written::Refused(Some(record)) => {
                    let is_open = record.status == Some(Status::Open);
                    let log = record.log.as_ref().filter(|_| is_open);
                    room = log.map_or(0, |log| log.room(sizes.iter().copied(), self.limits));
                    if room == 0 {
                        return Ok(Some((current, record, 0)));
                    }
                }
                Written::Refused(None) => {
                    self.scopes.announce_again(&current, budget).await?;
                    budget.next_attempt(&mut attempt).await?;
                    return Ok(None);
                }
            }
            budget.next_attempt(&mut attempt).await?;
        }
    }

    /// Returns the batches of the sources that are drained, to be sealed.
    async fn drained(
        &self,
        received: &ReceivedCounts<'_>,
        budget: &Budget<'_>,
    ) -> Vec<(CurrentBatch, FlushReason, Option<Timestamp>)> {
        let mut drained = Vec::new();
        for (source, own) in received {
            let now = budget.clock.now();
            let is_over = |current: &CurrentBatch| {
                let period = current.scope.period;
                current.scope.source == **source && period.is_none_or(|period| period.ends <= now)
            };
            let mut of_source = self.scopes.remembered();
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
    fn idle(&self, budget: &Budget<'_>) -> Vec<(CurrentBatch, FlushReason, Option<Timestamp>)> {
        let Some(idle) = self.close_after_idle else {
            return Vec::new();
        };
        let now = budget.clock.now();
        let since = now.saturating_sub(idle);
        let open = self.scopes.idle(since).into_iter();
        open.filter(|current| current.is_open_at(now))
            .map(|current| (current, FlushReason::Idle, Some(since)))
            .collect()
    }
}

fn lines_by_scope<'a>(records: &[&'a Record]) -> Vec<Lines<'a>> {
    let mut positions: BTreeMap<&BatchScope, Vec<usize>> = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        positions.entry(&record.scope).or_default().push(index);
    }
    let size = |index: &usize| records[*index].candidate.content_bytes() as u64;
    let lines = positions.into_iter().map(|(scope, positions)| Lines {
        scope,
        sizes: positions.iter().map(size).collect(),
        positions,
    });
    lines.collect()
}
