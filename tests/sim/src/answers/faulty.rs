//! Ports that fail, lose replies, and let their environment die.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::ops::Range;
use std::pin::pin;
use std::sync::Mutex;
use std::task::Poll;

use async_trait::async_trait;
use protocol::batch::{BatchRecord, BatchWrite};
use protocol::bodies::ObjectPlace;
use protocol::claim::{Claim, LockItem};
use protocol::ids::{BatchId, BatchShard, EventId, PieceId, SeatKey, SqsMessageId};
use protocol::time::Timestamp;
use shared::locked::locked;
use shared::ports::{
    BatchReply, BatchStore, Change, ClaimReply, Document, IndexEntry, IndexPage, ListPage,
    ListPosition, ListShard, LockStore, NamedItems, ObjectReply, ObjectStore, Piece, PiecesRead,
    PortError, Ports, QuarantineQueue, Quarantined, Release, ReleaseReply, StoredEvent,
};

/// What goes wrong: every random choice of a history is drawn here.
pub(super) struct Faults {
    state: Mutex<State>,
}

struct State {
    rng: fastrand::Rng,
    strike: bool,
}

thread_local! {
    /// Whether the environment that is polled has died.
    static KILLED: Cell<bool> = const { Cell::new(false) };
}

/// What becomes of a request.
enum Outcome {
    Answered,
    /// It never arrives.
    Lost,
    /// Its reply never arrives.
    Unanswered,
}

impl Faults {
    pub(super) fn new(rng: fastrand::Rng) -> Faults {
        let state = State { rng, strike: true };
        Faults {
            state: Mutex::new(state),
        }
    }

    /// Draws a number.
    pub(super) fn draw(&self, range: Range<u32>) -> u32 {
        locked(&self.state).rng.u32(range)
    }

    /// Ends all faults.
    pub(super) fn stop(&self) {
        locked(&self.state).strike = false;
    }

    /// Lets others go on, and then decides about a request. The environment may die.
    async fn outcome(&self) -> Outcome {
        let mut is_first = true;
        poll_fn(|context| {
            context.waker().wake_by_ref();
            match std::mem::replace(&mut is_first, false) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        })
        .await;
        let drawn = {
            let mut state = locked(&self.state);
            match state.strike {
                true => state.rng.u32(0..60),
                false => 60,
            }
        };
        match drawn {
            0 | 1 => {
                KILLED.set(true);
                pending().await
            }
            2 => Outcome::Lost,
            3 => Outcome::Unanswered,
            _ => Outcome::Answered,
        }
    }

    /// Goes on with an invocation until it ends or its environment dies; returns its result.
    pub(super) async fn until_killed<T>(&self, invocation: impl Future<Output = T>) -> Option<T> {
        let mut invocation = pin!(invocation);
        poll_fn(|context| {
            KILLED.set(false);
            match invocation.as_mut().poll(context) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending if KILLED.replace(false) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    async fn call<T>(
        &self,
        request: impl Future<Output = Result<T, PortError>>,
    ) -> Result<T, PortError> {
        match self.outcome().await {
            Outcome::Answered => request.await,
            Outcome::Lost => Err(PortError::throttled("simulated", "not now".to_owned())),
            Outcome::Unanswered => {
                request.await?;
                Err(PortError::unknown("simulated", "no reply".to_owned()))
            }
        }
    }
}

/// The ports that have faults.
pub(super) struct Faulty {
    pub(super) ports: Ports,
    pub(super) faults: std::sync::Arc<Faults>,
}

#[async_trait]
impl NamedItems for Faulty {
    async fn read(&self, name: &str) -> Result<Document, PortError> {
        self.faults.call(self.ports.named_items.read(name)).await
    }

    async fn write(&self, name: &str, from: u64, change: &Change) -> Result<bool, PortError> {
        self.faults
            .call(self.ports.named_items.write(name, from, change))
            .await
    }
}

#[async_trait]
impl LockStore for Faulty {
    fn items_per_request(&self) -> usize {
        self.ports.lock_store.items_per_request()
    }

    async fn claim(&self, claims: &[Claim]) -> Vec<ClaimReply> {
        self.ports.lock_store.claim(claims).await
    }

    async fn replace(&self, claim: &Claim, expected: &LockItem) -> ClaimReply {
        self.ports.lock_store.replace(claim, expected).await
    }

    async fn read(&self, ids: &[EventId]) -> Result<Vec<Option<LockItem>>, PortError> {
        self.faults.call(self.ports.lock_store.read(ids)).await
    }

    async fn read_events(
        &self,
        ids: &[EventId],
    ) -> Result<(Vec<StoredEvent>, Vec<EventId>), PortError> {
        self.faults
            .call(self.ports.lock_store.read_events(ids))
            .await
    }

    async fn release(&self, items: &[(EventId, SeatKey)], release: Release) -> Vec<ReleaseReply> {
        self.ports.lock_store.release(items, release).await
    }

    async fn mark_rejected(
        &self,
        id: &EventId,
        message: &SqsMessageId,
        seat: SeatKey,
        until: Timestamp,
    ) -> Result<(), PortError> {
        let store = &self.ports.lock_store;
        let mark = store.mark_rejected(id, message, seat, until);
        self.faults.call(mark).await
    }

    async fn index(
        &self,
        shard: BatchShard,
        after: Option<&IndexEntry>,
    ) -> Result<IndexPage, PortError> {
        self.faults
            .call(self.ports.lock_store.index(shard, after))
            .await
    }

    async fn has_items(&self) -> Result<bool, PortError> {
        self.ports.lock_store.has_items().await
    }
}

#[async_trait]
impl BatchStore for Faulty {
    async fn create(&self, record: &BatchRecord) -> Result<(), PortError> {
        self.faults
            .call(self.ports.batch_store.create(record))
            .await
    }

    async fn read(&self, batch: BatchId) -> Result<Option<BatchRecord>, PortError> {
        self.faults.call(self.ports.batch_store.read(batch)).await
    }

    async fn write(&self, batch: BatchId, write: &BatchWrite) -> Result<BatchReply, PortError> {
        self.faults
            .call(self.ports.batch_store.write(batch, write))
            .await
    }

    async fn overdue(
        &self,
        list: ListShard,
        due_before: Timestamp,
        after: Option<&ListPosition>,
    ) -> Result<ListPage, PortError> {
        let overdue = self.ports.batch_store.overdue(list, due_before, after);
        self.faults.call(overdue).await
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put(
        &self,
        place: &ObjectPlace,
        id: PieceId,
        piece: &Piece,
        expires_at: Timestamp,
    ) -> Result<ObjectReply, PortError> {
        let put = self.ports.object_store.put(place, id, piece, expires_at);
        self.faults.call(put).await
    }

    async fn get(&self, place: &ObjectPlace, id: PieceId) -> Result<Option<Piece>, PortError> {
        self.faults
            .call(self.ports.object_store.get(place, id))
            .await
    }

    async fn get_from_table(&self, ids: &[PieceId]) -> Result<PiecesRead, PortError> {
        self.faults
            .call(self.ports.object_store.get_from_table(ids))
            .await
    }
}

#[async_trait]
impl QuarantineQueue for Faulty {
    async fn send(&self, messages: &[Quarantined]) -> Vec<Result<(), PortError>> {
        let queue = self
            .ports
            .quarantine_queue
            .as_ref()
            .expect("there is a quarantine");
        let mut replies = BTreeMap::new();
        for (number, message) in messages.iter().enumerate() {
            let send = async {
                let sent = queue.send(std::slice::from_ref(message)).await.pop();
                sent.expect("a reply for each message")
            };
            replies.insert(number, self.faults.call(send).await);
        }
        replies.into_values().collect()
    }
}
