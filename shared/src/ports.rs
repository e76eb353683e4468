//! What the protocol needs of the world.
//!
//! Every method is one attempt: the adapters do not retry, so that the schedule, the budget and the meaning of a lost
//! reply are decided in one place, [`calls`](crate::calls), and the simulation exercises exactly that code.
//! Losing a race is an outcome, not an error.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use protocol::batch::{BatchRecord, BatchWrite, Status};
use protocol::claim::{Claim, LockItem, Overflow};
use protocol::ids::{BatchId, BatchShard, BodyHash, EventId, Place, Seq, SourceArn, SqsMessageId};
use protocol::time::Timestamp;

use crate::wire::Ticket;

/// Why an attempt has no result.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The service said "not now"; nothing was written.
    #[error("throttled by {service}: {message}")]
    Throttled {
        /// Which service.
        service: &'static str,
        /// Its words.
        message: String,
    },
    /// No reply, or one that does not tell: a write may have been applied, now or later.
    #[error("no answer from {service}: {message}")]
    Unknown {
        /// Which service.
        service: &'static str,
        /// What was seen instead.
        message: String,
    },
    /// The service said "never": missing table or queue, no permission, invalid request. Nothing was written.
    #[error("refused by {service}: {message}")]
    Refused {
        /// Which service.
        service: &'static str,
        /// Its words.
        message: String,
    },
    /// There was no time left to send the request; nothing was written.
    #[error("deadline reached before the request was sent")]
    DeadlineReached,
}

impl PortError {
    /// Whether the same call may succeed later.
    pub fn retryable(&self) -> bool {
        match self {
            PortError::Throttled { .. } | PortError::Unknown { .. } => true,
            PortError::Refused { .. } | PortError::DeadlineReached => false,
        }
    }
}

/// What one attempt to write one lock item came to.
#[derive(Debug)]
pub enum ClaimReply {
    /// The claim is in the table.
    Written,
    /// The condition did not hold. The item that is there, where the store tells; else read it.
    Exists(Option<LockItem>),
    /// No result for this item; see [`PortError`] for whether it may have been written.
    Error(PortError),
    /// The store takes every other item, but never this one (too large for it).
    Unstorable(String),
}

/// What a release makes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Nothing: there is no dedup window.
    Deleted,
    /// The tombstone of what was delivered, until then.
    Remembered(Timestamp),
    /// The tombstone of what an operator set aside, until then: another message may claim its event at once. It stays in
    /// the table so long for what it remembers of deliveries before.
    SetAside(Timestamp),
}

/// What one attempt to release one claim came to.
#[derive(Debug)]
pub enum ReleaseReply {
    /// It is released, or was not this claim any more.
    Released,
    /// No result for this item.
    Error(PortError),
}

/// A claim's entry in the index: a proposal, not the truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The event.
    pub event_id: EventId,
    /// Position in the batch.
    pub seq: Seq,
}

/// One page of a shard's index entries.
#[derive(Clone, Debug, Default)]
pub struct IndexPage {
    /// In seq order.
    pub entries: Vec<IndexEntry>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<IndexEntry>,
}

/// An event as it stands in the lock table: what is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// The event.
    pub event_id: EventId,
    /// The message that claimed it.
    pub sqs_message_id: SqsMessageId,
    /// Content hash of the body.
    pub body_hash: BodyHash,
    /// Where it sits.
    pub shard: BatchShard,
    /// Position in the batch.
    pub seq: Seq,
    /// The body; nothing while it is elsewhere.
    pub body: Arc<str>,
    /// Where the body is, if it did not fit the item.
    pub overflow: Option<Box<Overflow>>,
    /// Where it came from.
    pub source: SourceArn,
    /// When it was sent.
    pub sent_at: Timestamp,
}

impl StoredEvent {
    /// Where it sits: what its release is conditional on.
    pub fn place(&self) -> Place {
        Place {
            shard: self.shard,
            seq: self.seq,
        }
    }
}

/// The lock table.
#[async_trait]
pub trait LockStore: Send + Sync {
    /// How many claims or releases one request carries at most.
    fn items_per_request(&self) -> usize;

    /// Writes claims for event ids that have no item. At most [`items_per_request`](Self::items_per_request), no two
    /// with one event id. Answers per claim, in order.
    async fn claim(&self, claims: &[Claim]) -> Vec<ClaimReply>;

    /// Replaces `expected`, on condition that it is still exactly that state of that message.
    async fn replace(&self, claim: &Claim, expected: &LockItem) -> ClaimReply;

    /// Reads items, strongly consistent, in order; `None` where there is no item. At most 100.
    /// May answer fewer than asked (the rest was not read): ask again for the rest.
    async fn read(&self, ids: &[EventId]) -> Result<Vec<Option<LockItem>>, PortError>;

    /// Reads those of `ids` that are live claims, strongly consistent, any batch; others are left out of the answer.
    /// At most 100. The second list holds ids that were not read: ask again for them.
    async fn read_events(
        &self,
        ids: &[EventId],
    ) -> Result<(Vec<StoredEvent>, Vec<EventId>), PortError>;

    /// Releases claims on condition that they still hold this place. At most [`items_per_request`](Self::items_per_request). Answers per item, in order.
    async fn release(&self, items: &[(EventId, Place)], release: Release) -> Vec<ReleaseReply>;

    /// One page of the index, eventually consistent: entries may be missing, and may be of claims long released.
    async fn index(
        &self,
        shard: BatchShard,
        after: Option<&IndexEntry>,
    ) -> Result<IndexPage, PortError>;
}

/// What a conditional write to the batch table came to.
#[derive(Debug)]
pub enum BatchReply {
    /// Applied; the record as it stands now.
    Applied(Box<BatchRecord>),
    /// The condition did not hold; the record as it stands, `None` when there is none.
    Refused(Option<Box<BatchRecord>>),
}

/// A batch for which something should have happened, as `status-index` shows it: it may have moved on since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The batch.
    pub batch_id: BatchId,
    /// Where its events come from.
    pub source: SourceArn,
    /// When something should have happened.
    pub due_at: Timestamp,
}

/// The batch table.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// Writes a new record. Its id is new; finding it there means an earlier attempt was applied, which is success.
    async fn create(&self, record: &BatchRecord) -> Result<(), PortError>;

    /// Reads a record, strongly consistent.
    async fn read(&self, batch: BatchId) -> Result<Option<BatchRecord>, PortError>;

    /// Applies `write` as [`apply`](protocol::batch::apply) says, atomically.
    async fn write(&self, batch: BatchId, write: &BatchWrite) -> Result<BatchReply, PortError>;

    /// Up to `max` batches with this status whose `dueAt` is before `now`, oldest first, eventually consistent.
    async fn overdue(
        &self,
        status: Status,
        now: Timestamp,
        max: usize,
    ) -> Result<Vec<Overdue>, PortError>;
}

/// The batch queue.
#[async_trait]
pub trait BatchQueue: Send + Sync {
    /// Sends a ticket that becomes visible after `delay` (whole seconds, at most 900). A lost reply may mean that it
    /// was sent; sending it again is harmless.
    async fn send(&self, ticket: &Ticket, delay: Duration) -> Result<(), PortError>;

    /// Lets a ticket that was received and will not be acknowledged be received again after `delay` (whole seconds, at
    /// most 12 hours from its receive), and not after the queue's visibility timeout. `receipt` is what came with it. A
    /// receipt that is no longer good is [`PortError::Refused`]; then the ticket comes when the queue says.
    async fn retry_after(&self, receipt: &str, delay: Duration) -> Result<(), PortError>;
}

/// A message that cannot be processed, on its way to where people look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The message.
    pub sqs_message_id: SqsMessageId,
    /// Its event id, where it has one.
    pub event_id: Option<EventId>,
    /// Where it came from.
    pub source: SourceArn,
    /// What is wrong with it.
    pub reason: String,
    /// The body as received.
    pub body: Arc<str>,
}

/// The quarantine queue.
#[async_trait]
pub trait QuarantineQueue: Send + Sync {
    /// Sends up to 10 messages; answers per message, in order. A lost reply may mean that it was sent; sending it
    /// again shows it twice, which is better than not at all.
    async fn send(&self, messages: &[Quarantined]) -> Vec<Result<(), PortError>>;
}

/// How many messages of a queue are where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDepth {
    /// Can be received now.
    pub visible: u64,
    /// Received, and neither deleted nor visible again.
    pub in_flight: u64,
    /// Sent, and not visible yet.
    pub delayed: u64,
}

impl QueueDepth {
    /// Whether nothing is left to be received.
    pub fn is_empty(&self) -> bool {
        self.visible == 0 && self.delayed == 0
    }
}

/// The queues that events come from.
#[async_trait]
pub trait SourceQueues: Send + Sync {
    /// How many messages a source holds. A hint, never the truth: the figures are approximate, and as AWS has it they
    /// may be a minute old. A source that is no queue is [`PortError::Refused`].
    async fn depth(&self, source: &SourceArn) -> Result<QueueDepth, PortError>;
}

/// Where bodies are that do not fit their items.
#[async_trait]
pub trait OverflowStore: Send + Sync {
    /// Stores a body. A place is one claim's alone, so that storing again what may have been stored is harmless.
    async fn put(&self, place: &Overflow, body: &Arc<str>) -> Result<(), PortError>;

    /// Reads a body; `None` where there is none.
    async fn get(&self, place: &Overflow) -> Result<Option<Arc<str>>, PortError>;

    /// Removes a body; one that is not there is removed already.
    async fn remove(&self, place: &Overflow) -> Result<(), PortError>;
}

/// Time, and waiting for it.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Resolves after `duration`.
    async fn sleep(&self, duration: Duration);
}

/// New batch ids and jitter: the randomness of the protocol.
pub trait Entropy: Send + Sync {
    /// A batch id never given before.
    fn batch_id(&self, now: Timestamp) -> BatchId;

    /// Uniform in `0.0..1.0`.
    fn jitter(&self) -> f64;
}

/// Where lines of metrics go.
pub trait MetricLog: Send + Sync {
    /// Writes one line of the embedded metric format.
    fn write(&self, line: &str);
}

/// The ports that both functions use.
#[derive(Clone)]
pub struct Ports {
    /// The lock table.
    pub lock_store: Arc<dyn LockStore>,
    /// The batch table.
    pub batch_store: Arc<dyn BatchStore>,
    /// The batch queue.
    pub batch_queue: Arc<dyn BatchQueue>,
    /// The quarantine queue, if there is one.
    pub quarantine_queue: Option<Arc<dyn QuarantineQueue>>,
    /// Where bodies are that do not fit their items.
    pub overflow_store: Arc<dyn OverflowStore>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Metrics.
    pub metric_log: Arc<dyn MetricLog>,
}
