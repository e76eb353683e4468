//! The ports of a simulated environment. The world decides the outcome of each request.

mod time;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::oneshot;
use protocol::batch::{BatchRecord, BatchWrite};
use protocol::bodies::ObjectPlace;
use protocol::claim::{Claim, LockItem, Overflow};
use protocol::ids::{BatchId, BatchShard, EventId, ObjectId, PieceId, SeatKey, SourceArn};
use protocol::time::Timestamp;
use shared::memory::SeededEntropy;
use shared::ports::{
    BatchQueue, BatchReply, BatchStore, ClaimReply, Clock, IndexEntry, IndexPage, ListPage,
    ListPosition, ListShard, LockStore, MetricLog, NoticeMessage, NoticeTarget, ObjectReply,
    ObjectStore, OverflowStore, Piece, PortError, Ports, QuarantineQueue, Quarantined, QueueDepth,
    Release, ReleaseReply, SourceQueues, StoredEvent,
};
use shared::wire::Ticket;
use sinks::Rendering;

use crate::index::REPLICAS;
use crate::operator::OPERATOR;
use crate::request_outcome::{RequestOutcome, refused, throttled, unanswered};
use crate::world::World;

/// The world, which environments share. There is one thread, so no lock ever blocks.
pub type Shared = Arc<Mutex<World>>;

/// Locks the world for one step.
pub fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An environment: its own clock, its own randomness, the shared world.
pub struct Environment {
    world: Shared,
    number: u64,
    rendering: Rendering,
    fingerprint: String,
    entropy: SeededEntropy,
    quarantine: bool,
    notices: bool,
    items_per_request: usize,
}

impl Environment {
    /// Makes environment `number`, with the sink and the notices of this configuration.
    pub fn new(
        world: Shared,
        number: u64,
        config: &batch_processor::Config,
        seed: u64,
    ) -> Environment {
        let (quarantine, items_per_request) = {
            let plan = &lock(&world).plan;
            (plan.quarantine, plan.items_per_request)
        };
        Environment {
            world,
            number,
            rendering: config.sink.rendering.clone(),
            fingerprint: config.sink.fingerprint.clone(),
            entropy: SeededEntropy::new(seed),
            quarantine,
            notices: config.completion.is_some(),
            items_per_request,
        }
    }

    /// The world.
    pub fn world(&self) -> &Shared {
        &self.world
    }

    /// The number of the environment.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How parts are rendered.
    pub fn rendering(&self) -> &Rendering {
        &self.rendering
    }

    /// The fingerprint of the sink.
    pub fn sink_fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Records that items, pages or objects are read.
    pub fn note_reads(&self, count: usize) {
        lock(&self.world).note_reads(self.number, count as u64);
    }

    /// Sends a request that changes or reads the world when it arrives.
    pub async fn request<T: Send + 'static>(
        &self,
        effect: impl FnOnce(&mut World) -> T + Send + 'static,
    ) -> Result<T, PortError> {
        let dispatched = {
            let mut world = lock(&self.world);
            let outcome = world.draw_outcome();
            dispatch(&mut world, outcome, effect)
        };
        self.reply(dispatched).await
    }

    /// Sends a write to a batch record.
    async fn request_record<T: Send + 'static>(
        &self,
        by_processor: bool,
        effect: impl FnOnce(&mut World) -> T + Send + 'static,
    ) -> Result<T, PortError> {
        let dispatched = {
            let mut world = lock(&self.world);
            let outcome = world.draw_record_outcome(by_processor);
            dispatch(&mut world, outcome, effect)
        };
        self.reply(dispatched).await
    }

    async fn reply<T>(&self, dispatched: Dispatched<T>) -> Result<T, PortError> {
        match dispatched {
            Dispatched::Answered(reply) => reply.await.map_err(|_| unanswered()),
            Dispatched::Failed { after_ms, error } => {
                self.sleep(Duration::from_millis(after_ms)).await;
                Err(error)
            }
        }
    }

    async fn for_each<T: Send + 'static>(
        &self,
        count: usize,
        effect: impl FnOnce(&mut World) -> Vec<T> + Send + 'static,
        failed: impl Fn(PortError) -> T,
    ) -> Vec<T> {
        match self.request(effect).await {
            Ok(replies) => replies,
            Err(error) => (0..count)
                .map(|_| {
                    failed(match &error {
                        PortError::Throttled { .. } => throttled(),
                        PortError::Refused { .. } => refused(),
                        PortError::Unknown { .. } => unanswered(),
                        PortError::DeadlineReached => PortError::DeadlineReached,
                    })
                })
                .collect(),
        }
    }
}

/// A request in flight.
enum Dispatched<T> {
    /// A reply will arrive.
    Answered(oneshot::Receiver<T>),
    /// No reply will arrive; the caller gets an error after a while.
    Failed { after_ms: u64, error: PortError },
}

fn dispatch<T: Send + 'static>(
    world: &mut World,
    outcome: RequestOutcome,
    effect: impl FnOnce(&mut World) -> T + Send + 'static,
) -> Dispatched<T> {
    match outcome {
        RequestOutcome::Answered { apply_ms, reply_ms } => {
            let (sender, receiver) = oneshot::channel();
            let apply = move |world: &mut World| {
                let reply = effect(world);
                // The receiver is gone if the environment was killed.
                let answer = move |_: &mut World| drop(sender.send(reply));
                world.effect_after(reply_ms, Box::new(answer));
            };
            world.effect_after(apply_ms, Box::new(apply));
            Dispatched::Answered(receiver)
        }
        RequestOutcome::Refused { after_ms } => Dispatched::Failed {
            after_ms,
            error: refused(),
        },
        RequestOutcome::Throttled { after_ms } => Dispatched::Failed {
            after_ms,
            error: throttled(),
        },
        RequestOutcome::Lost {
            apply_ms,
            notice_ms,
        } => {
            if let Some(apply_ms) = apply_ms {
                let apply = move |world: &mut World| drop(effect(world));
                world.effect_after(apply_ms, Box::new(apply));
            }
            Dispatched::Failed {
                after_ms: notice_ms,
                error: unanswered(),
            }
        }
    }
}

#[async_trait]
impl LockStore for Environment {
    fn items_per_request(&self) -> usize {
        self.items_per_request
    }

    async fn claim(&self, claims: &[Claim]) -> Vec<ClaimReply> {
        let (count, claims) = (claims.len(), claims.to_vec());
        let effect = move |world: &mut World| world.claim(&claims);
        self.for_each(count, effect, ClaimReply::Error).await
    }

    async fn replace(&self, claim: &Claim, expected: &LockItem) -> ClaimReply {
        let (claim, expected) = (claim.clone(), expected.clone());
        self.request(move |world| world.replace(&claim, &expected))
            .await
            .unwrap_or_else(ClaimReply::Error)
    }

    async fn read(&self, ids: &[EventId]) -> Result<Vec<Option<LockItem>>, PortError> {
        self.note_reads(ids.len());
        let ids = ids.to_vec();
        self.request(move |world| {
            let read = some_of(world, ids.len());
            ids[..read].iter().map(|id| world.locks.get(id)).collect()
        })
        .await
    }

    async fn read_events(
        &self,
        ids: &[EventId],
    ) -> Result<(Vec<StoredEvent>, Vec<EventId>), PortError> {
        self.note_reads(ids.len());
        let mut ids = ids.to_vec();
        let environment = self.number;
        self.request(move |world| {
            let unread = ids.split_off(some_of(world, ids.len()));
            let events = world.stored(&ids);
            if let Some(event) = events.first() {
                world.reads_bodies(environment, event.shard.batch);
            }
            (events, unread)
        })
        .await
    }

    async fn release(&self, items: &[(EventId, SeatKey)], release: Release) -> Vec<ReleaseReply> {
        let (count, items) = (items.len(), items.to_vec());
        let effect = move |world: &mut World| world.release(&items, release);
        self.for_each(count, effect, ReleaseReply::Error).await
    }

    async fn index(
        &self,
        shard: BatchShard,
        after: Option<&IndexEntry>,
    ) -> Result<IndexPage, PortError> {
        self.note_reads(1);
        let after = after.cloned();
        self.request(move |world| {
            let replica = world.rng.usize(..REPLICAS);
            let (now_ms, entries_max) = (world.now_ms, world.plan.page_entries);
            world
                .index
                .page(shard, after.as_ref(), replica, now_ms, entries_max)
        })
        .await
    }

    async fn has_items(&self) -> Result<bool, PortError> {
        self.request(|world| !world.locks.items().is_empty()).await
    }
}

/// Returns how many of `count` keys a read returns: mostly all, at least one.
fn some_of(world: &mut World, count: usize) -> usize {
    if count > 1 && world.strikes(world.plan.faults.throttle_member) {
        world.rng.usize(1..count)
    } else {
        count
    }
}

#[async_trait]
impl BatchStore for Environment {
    async fn create(&self, record: &BatchRecord) -> Result<(), PortError> {
        let record = record.clone();
        self.request(move |world| world.create(&record)).await
    }

    async fn read(&self, batch: BatchId) -> Result<Option<BatchRecord>, PortError> {
        self.note_reads(1);
        self.request(move |world| world.batches.get(batch)).await
    }

    async fn write(&self, batch: BatchId, write: &BatchWrite) -> Result<BatchReply, PortError> {
        let write = write.clone();
        let by_processor = !matches!(
            write,
            BatchWrite::Count(_)
                | BatchWrite::Seal { .. }
                | BatchWrite::Witness { .. }
                | BatchWrite::Reserve(_)
                | BatchWrite::SealLog { .. }
        );
        let environment = self.number;
        let reply = self.request_record(by_processor, move |world| {
            let reply = world.write(batch, &write)?;
            if let BatchReply::Applied(record) = &reply {
                world.check_number_awaited(environment, record, &write);
                world.check_look(environment, record, &write);
                if let BatchWrite::Lease { lease, .. } = &write {
                    world.leased(environment, batch, &lease.owner);
                }
            }
            Ok(reply)
        });
        reply.await?
    }

    async fn overdue(
        &self,
        list: ListShard,
        due_before: Timestamp,
        after: Option<&ListPosition>,
    ) -> Result<ListPage, PortError> {
        let after = after.cloned();
        self.request(move |world| world.overdue(list, due_before, after.as_ref()))
            .await
    }
}

#[async_trait]
impl BatchQueue for Environment {
    async fn send(&self, ticket: &Ticket, delay: Duration) -> Result<(), PortError> {
        let (ticket, is_operator) = (ticket.clone(), self.number == OPERATOR);
        self.request(move |world| match is_operator {
            true => world.ticket_of_operator(&ticket),
            false => world.ticket_of_function(&ticket, delay),
        })
        .await
    }

    async fn send_all(&self, tickets: &[(Ticket, Duration)]) -> Vec<Result<(), PortError>> {
        let (count, tickets) = (tickets.len(), tickets.to_vec());
        let effect = move |world: &mut World| world.take_tickets(&tickets);
        self.for_each(count, effect, Err).await
    }

    async fn depth(&self) -> Result<QueueDepth, PortError> {
        self.request(|world| world.tickets.depth(world.now_ms))
            .await
    }

    async fn retry_after(&self, receipt: &str, delay: Duration) -> Result<(), PortError> {
        let receipt = receipt.parse().expect("the receipt of a simulated ticket");
        self.request(move |world| world.retry_ticket(receipt, delay))
            .await
    }
}

#[async_trait]
impl QuarantineQueue for Environment {
    async fn send(&self, messages: &[Quarantined]) -> Vec<Result<(), PortError>> {
        let (count, messages) = (messages.len(), messages.to_vec());
        let effect = move |world: &mut World| world.quarantine(&messages);
        self.for_each(count, effect, Err).await
    }
}

/// The queue for reports of dropped duplicates, as an environment sends them.
pub struct DuplicateReports(pub Arc<Environment>);

#[async_trait]
impl QuarantineQueue for DuplicateReports {
    async fn send(&self, messages: &[Quarantined]) -> Vec<Result<(), PortError>> {
        let (count, messages) = (messages.len(), messages.to_vec());
        let effect = move |world: &mut World| world.duplicates_reported(&messages);
        self.0.for_each(count, effect, Err).await
    }
}

#[async_trait]
impl NoticeTarget for Environment {
    async fn send(&self, notice: &NoticeMessage) -> Result<(), PortError> {
        let notice = notice.clone();
        self.request(move |world| world.notice(&notice)).await
    }
}

#[async_trait]
impl SourceQueues for Environment {
    async fn depth(&self, source: &SourceArn) -> Result<QueueDepth, PortError> {
        let source = source.clone();
        self.request(move |world| world.depth(&source)).await
    }
}

#[async_trait]
impl OverflowStore for Environment {
    async fn put(&self, object: &Overflow, body: &Arc<str>) -> Result<(), PortError> {
        let (key, body) = (object.key.clone(), body.clone());
        self.request(move |world| drop(world.overflow.insert(key, body)))
            .await
    }

    async fn get(&self, object: &Overflow) -> Result<Option<Arc<str>>, PortError> {
        let key = object.key.clone();
        self.request(move |world| world.overflow.get(&key).cloned())
            .await
    }

    async fn remove(&self, object: &Overflow) -> Result<(), PortError> {
        let key = object.key.clone();
        self.request(move |world| drop(world.overflow.remove(&key)))
            .await
    }
}

#[async_trait]
impl ObjectStore for Environment {
    async fn put(
        &self,
        place: &ObjectPlace,
        id: PieceId,
        piece: &Piece,
        expires_at: Timestamp,
    ) -> Result<ObjectReply, PortError> {
        let (place, piece) = (place.clone(), piece.clone());
        self.request(move |world| world.put_piece(&place, id, &piece, expires_at))
            .await?
    }

    async fn get(&self, place: &ObjectPlace, id: PieceId) -> Result<Option<Piece>, PortError> {
        self.note_reads(1);
        let place = place.clone();
        let environment = self.number;
        self.request(move |world| {
            if let ObjectId::Load(_) = id.object {
                world.reads_load(environment);
            }
            world.get_piece(&place, id)
        })
        .await?
    }
}

impl MetricLog for Environment {
    fn write(&self, _line: &str) {}
}

impl Environment {
    /// Returns the ports for the handlers: each is the environment itself.
    pub fn ports(self: &Arc<Environment>) -> Ports {
        Ports {
            lock_store: self.clone(),
            batch_store: self.clone(),
            batch_queue: self.clone(),
            quarantine_queue: self
                .quarantine
                .then(|| self.clone() as Arc<dyn QuarantineQueue>),
            duplicates_queue: None,
            notice_target: self.notices.then(|| self.clone() as Arc<dyn NoticeTarget>),
            overflow_store: self.clone(),
            object_store: self.clone(),
            named_items: self.clone(),
            clock: self.clone(),
            entropy: self.clone(),
            metric_log: self.clone(),
        }
    }
}
