//! The ports of a simulated environment. The world decides the outcome of each request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::oneshot;
use protocol::batch::{BatchRecord, BatchWrite};
use protocol::bodies::ObjectPlace;
use protocol::claim::{Claim, LockItem, Overflow};
use protocol::ids::{
    BatchId, BatchShard, EventId, ObjectId, PieceId, SeatKey, SourceArn, SqsMessageId,
};
use protocol::time::Timestamp;
use shared::memory::SeededEntropy;
use shared::ports::{
    BatchQueue, BatchReply, BatchStore, ClaimReply, Clock, Entropy, IndexEntry, IndexPage,
    ListPage, ListPosition, ListShard, LockStore, MetricLog, NoticeMessage, NoticeTarget,
    ObjectReply, ObjectStore, OverflowStore, Piece, PiecesRead, PortError, Ports, QuarantineQueue,
    Quarantined, QueueDepth, Release, ReleaseReply, SourceQueues, StoredEvent,
};
use shared::wire::Ticket;
use sinks::Rendering;

use crate::index::REPLICAS;
use crate::operator::OPERATOR;
use crate::request_outcome::{MakeError, RequestOutcome, unanswered};
use crate::schedule::Happening;
use crate::world::World;

/// The world, which environments share. There is one thread, so no lock ever blocks.
pub type Shared = Arc<Mutex<World>>;

/// Locks the world for one step.
pub fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An environment: its own clock, its own randomness, the shared world.
pub struct Environment {
    pub world: Shared,
    pub number: u64,
    pub rendering: Rendering,
    pub fingerprint: String,
    entropy: SeededEntropy,
    /// Whether notices are sent.
    notices: bool,
}

impl Environment {
    /// Makes environment `number`, with the sink and the notices of this configuration.
    pub fn new(world: &Shared, number: u64, config: &batch_processor::Config) -> Arc<Environment> {
        let seed = lock(world).rng.u64(..);
        Arc::new(Environment {
            world: world.clone(),
            number,
            rendering: config.sink.rendering.clone(),
            fingerprint: config.sink.fingerprint.clone(),
            entropy: SeededEntropy::new(seed),
            notices: config.completion.is_some(),
        })
    }

    /// Records that items, pages or objects are read.
    pub fn note_reads(&self, count: usize) {
        lock(&self.world).change_look(self.number, |read| read + count as u64);
    }

    /// Sends a request that changes or reads the world when it arrives.
    pub async fn request<T: Send + 'static>(
        &self,
        effect: impl FnOnce(&mut World) -> T + Send + 'static,
    ) -> Result<T, PortError> {
        let outcome = lock(&self.world).draw_outcome();
        let reply = self.dispatch(outcome, effect).await;
        reply.map_err(|error| error())
    }

    /// Sends a request with a reply for each of its members, which arrive one after the other.
    async fn for_each<M: Clone + Send + 'static, T: Send + 'static>(
        &self,
        members: &[M],
        each: impl Fn(&mut World, &M) -> T + Send + 'static,
        failed: impl Fn(PortError) -> T,
    ) -> Vec<T> {
        let (count, members) = (members.len(), members.to_vec());
        let effect = move |world: &mut World| {
            let members = members.iter();
            members.map(|one| each(world, one)).collect::<Vec<T>>()
        };
        let outcome = lock(&self.world).draw_outcome();
        match self.dispatch(outcome, effect).await {
            Ok(replies) => replies,
            Err(error) => (0..count).map(|_| failed(error())).collect(),
        }
    }

    /// Sends a request with this outcome.
    async fn dispatch<T: Send + 'static>(
        &self,
        outcome: RequestOutcome,
        effect: impl FnOnce(&mut World) -> T + Send + 'static,
    ) -> Result<T, MakeError> {
        match outcome {
            RequestOutcome::Answered { apply_ms, reply_ms } => {
                let (sender, receiver) = oneshot::channel();
                let apply = move |world: &mut World| {
                    let reply = effect(world);
                    // The receiver is gone if the environment was killed.
                    let answer = move |_: &mut World| drop(sender.send(reply));
                    world.effect_after(reply_ms, Box::new(answer));
                };
                lock(&self.world).effect_after(apply_ms, Box::new(apply));
                receiver.await.map_err(|_| unanswered as MakeError)
            }
            RequestOutcome::Failed {
                apply_ms,
                after_ms,
                error,
            } => {
                if let Some(apply_ms) = apply_ms {
                    let apply = move |world: &mut World| drop(effect(world));
                    lock(&self.world).effect_after(apply_ms, Box::new(apply));
                }
                self.sleep(Duration::from_millis(after_ms)).await;
                Err(error)
            }
        }
    }
}

#[async_trait]
impl LockStore for Environment {
    fn items_per_request(&self) -> usize {
        lock(&self.world).plan.items_per_request
    }

    async fn claim(&self, claims: &[Claim]) -> Vec<ClaimReply> {
        let claim = |world: &mut World, claim: &Claim| world.claim(claim, None);
        self.for_each(claims, claim, ClaimReply::Error).await
    }

    async fn replace(&self, claim: &Claim, expected: &LockItem) -> ClaimReply {
        let (claim, expected) = (claim.clone(), expected.clone());
        self.request(move |world| world.claim(&claim, Some(&expected)))
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
        let release = move |world: &mut World, item: &_| world.release(item, release);
        self.for_each(items, release, ReleaseReply::Error).await
    }

    async fn mark_rejected(
        &self,
        _: &EventId,
        _: &SqsMessageId,
        _: SeatKey,
        _: Timestamp,
    ) -> Result<(), PortError> {
        unreachable!("histories of answers are apart")
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
            BatchWrite::Seal { .. } | BatchWrite::Witness { .. } | BatchWrite::Reserve(_)
        );
        let environment = self.number;
        let outcome = lock(&self.world).draw_record_outcome(by_processor);
        let reply = self.dispatch(outcome, move |world| {
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
        reply.await.map_err(|error| error())?
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
        let arrive = |world: &mut World, (ticket, delay): &(Ticket, Duration)| {
            world.arrive(|world| world.ticket_of_function(ticket, *delay))
        };
        self.for_each(tickets, arrive, Err).await
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
        let arrive = |world: &mut World, message: &Quarantined| {
            world.arrive(|world| world.quarantine(message))
        };
        self.for_each(messages, arrive, Err).await
    }
}

/// The queue for reports of dropped duplicates, as an environment sends them.
pub struct DuplicateReports(pub Arc<Environment>);

#[async_trait]
impl QuarantineQueue for DuplicateReports {
    async fn send(&self, messages: &[Quarantined]) -> Vec<Result<(), PortError>> {
        let arrive = |world: &mut World, report: &Quarantined| {
            world.arrive(|world| world.duplicate_reported(report))
        };
        self.0.for_each(messages, arrive, Err).await
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

    async fn get_from_table(&self, ids: &[PieceId]) -> Result<PiecesRead, PortError> {
        self.note_reads(1);
        let ids = ids.to_vec();
        self.request(move |world| {
            let count = some_of(world, ids.len());
            let read = ids.into_iter().take(count).map(|id| {
                let piece = world.get_piece(&ObjectPlace::Table, id)?;
                Ok((id, piece))
            });
            read.collect()
        })
        .await?
    }
}

#[async_trait]
impl Clock for Environment {
    fn now(&self) -> Timestamp {
        lock(&self.world).now_in(self.number)
    }

    async fn sleep(&self, duration: Duration) {
        let mut wake_at_ms = None;
        // One wake-up for each sleep: each poll of joined sleeps asks all of them, and wake-ups would double with every joined retry.
        let mut asked: Option<Waker> = None;
        std::future::poll_fn(|context| {
            let mut world = lock(&self.world);
            // Some time passes in any case, so that a loop that waits for nothing comes to its deadline.
            let sleep_ms = (duration.as_millis() as u64).max(1);
            let at_ms = *wake_at_ms.get_or_insert(world.now_ms + sleep_ms);
            if world.now_ms >= at_ms {
                // After it waited for a turn, it looks again.
                world.change_look(self.number, |_| 0);
                return Poll::Ready(());
            }
            let waker = context.waker();
            if !asked.as_ref().is_some_and(|asked| asked.will_wake(waker)) {
                world.happens_at(at_ms, Happening::Wake(waker.clone()));
                asked = Some(waker.clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl Entropy for Environment {
    fn batch_id(&self, now: Timestamp) -> BatchId {
        self.entropy.batch_id(now)
    }

    fn secret(&self) -> [u8; 32] {
        self.entropy.secret()
    }

    fn jitter(&self) -> f64 {
        self.entropy.jitter()
    }
}

impl MetricLog for Environment {
    fn write(&self, _line: &str) {}
}

impl Environment {
    /// Returns the ports for the handlers: each is the environment itself.
    pub fn ports(self: &Arc<Environment>) -> Ports {
        let quarantine = lock(&self.world).plan.quarantine;
        Ports {
            lock_store: self.clone(),
            batch_store: self.clone(),
            batch_queue: self.clone(),
            quarantine_queue: quarantine.then(|| self.clone() as Arc<dyn QuarantineQueue>),
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
