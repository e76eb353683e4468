//! The services that the functions use, as traits: tables, queues, a bucket, time and randomness.
//!
//! Every method sends one request. Adapters do not retry: [`retry`](crate::retry) decides on the schedule, the budget
//! and the meaning of a lost reply, and the simulation runs the same code. A refused condition is an outcome, not an
//! error.

mod error;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use protocol::batch::{BatchRecord, BatchWrite, Listing};
use protocol::claim::{Claim, LockItem, Overflow};
use protocol::ids::{
    BatchId, BatchShard, BodyHash, EventId, SeatKey, Seq, SourceArn, SqsMessageId,
};
use protocol::quota::Quota;
use protocol::time::Timestamp;
use uuid::{Builder, Uuid};

pub use error::PortError;
pub use objects::{ObjectReply, ObjectStore, Piece, PiecesRead, in_range};

use crate::message_attributes::MessageAttributes;
use crate::wire::Ticket;

/// The result of one attempt to write one lock item.
#[derive(Debug)]
pub enum ClaimReply {
    /// The claim is in the table.
    Written,
    /// The condition did not hold. Carries the existing item if the store returned it; otherwise it must be read.
    Exists(Option<LockItem>),
    /// There is no result for this item. The [`PortError`] says whether the item may have been written.
    Error(PortError),
    /// The store refuses this item permanently, because it is too large.
    Unstorable(String),
}

/// The state of a claim after its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The item is deleted, because there is no dedup window.
    Deleted,
    /// The tombstone of a delivered event, until this time.
    Remembered(Timestamp),
    /// The tombstone of an event that was set aside, until this time. Another message may claim the event at
    /// once. The tombstone is kept because it remembers past deliveries.
    SetAside(Timestamp),
}

impl Release {
    /// Returns how the claim of an event is released that is delivered at `now` and remembered for `dedup_window`.
    pub fn of_delivered(now: Timestamp, dedup_window: Duration) -> Release {
        match dedup_window.is_zero() {
            true => Release::Deleted,
            false => Release::Remembered(now + dedup_window),
        }
    }
}

/// The result of one attempt to release one claim.
#[derive(Debug)]
pub enum ReleaseReply {
    /// The claim is released, or the item was no longer this claim.
    Released,
    /// There is no result for this item.
    Error(PortError),
}

/// A claim's entry in the index. It may be out of date: only the table says whether the claim exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    pub event_id: EventId,
    pub seq: Seq,
}

/// One page of a shard's index entries.
#[derive(Clone, Debug, Default)]
pub struct IndexPage {
    /// The entries in seq order.
    pub entries: Vec<IndexEntry>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<IndexEntry>,
}

/// A live claim with its body, as the lock table holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    pub event_id: EventId,
    pub sqs_message_id: SqsMessageId,
    pub body_hash: BodyHash,
    pub shard: BatchShard,
    pub seq: Seq,
    /// The body; empty while the body is in S3 only.
    pub body: Arc<str>,
    /// The S3 object with the body, if it did not fit the lock item.
    pub overflow: Option<Box<Overflow>>,
    pub source: SourceArn,
    /// When SQS received the message.
    pub sent_at: Timestamp,
    /// The message attributes, if there are any.
    pub attributes: Option<MessageAttributes>,
    /// The quota that the event counts in; only events of the log have one.
    pub quota: Option<Box<Quota>>,
}

impl StoredEvent {
    /// Returns the seat, on which the release is conditional.
    pub fn seat_key(&self) -> SeatKey {
        SeatKey {
            shard: self.shard,
            seq: self.seq,
        }
    }
}

/// The items of the lock table, as operators look at them and have them forgotten. The functions do not use it.
#[async_trait]
pub trait LockItems: Send + Sync {
    /// Returns the batch and the seq of the claim that became the tombstone of an event; `None` if there is no tombstone, or it does
    /// not say.
    async fn last_seat(&self, id: &EventId) -> Result<Option<(BatchId, Seq)>, PortError>;

    /// Deletes an item, if it still has the message and the state of `expected`. Returns whether it was deleted.
    ///
    /// # Errors
    /// After [`PortError::Unknown`], the item may be deleted.
    async fn remove(&self, id: &EventId, expected: &LockItem) -> Result<bool, PortError>;

    /// Puts a tombstone in the place of `expected`, if the item still has its message and state; or, without `expected`, if there is no
    /// item. `seat` is that of the claim that ended, if it is known. Returns whether the tombstone is there. So a retry after a lost reply
    /// knows its own write.
    ///
    /// # Errors
    /// After [`PortError::Unknown`], the tombstone may be there.
    async fn remember(
        &self,
        id: &EventId,
        tombstone: &LockItem,
        seat: Option<(BatchId, Seq)>,
        expected: Option<&LockItem>,
    ) -> Result<bool, PortError>;

    /// Reads the whole table with strong consistency, and hands each item over.
    async fn scan(&self, each: &mut (dyn FnMut(EventId, LockItem) + Send))
    -> Result<(), PortError>;
}

/// The lock table.
#[async_trait]
pub trait LockStore: Send + Sync {
    /// Returns how many claims or releases one request carries at most. It may fall to 1 while the environment lives.
    fn items_per_request(&self) -> usize;

    /// Writes claims for event ids that have no item. Takes at most [`items_per_request`](Self::items_per_request)
    /// claims, with different event ids. Returns a reply for each claim, in order.
    async fn claim(&self, claims: &[Claim]) -> Vec<ClaimReply>;

    /// Replaces `expected`, on condition that the item still has that message and state.
    async fn replace(&self, claim: &Claim, expected: &LockItem) -> ClaimReply;

    /// Reads at most 100 items with strong consistency. Returns them in order, `None` where there is no item. May
    /// return fewer items than `ids`; then the last of `ids` were not read.
    async fn read(&self, ids: &[EventId]) -> Result<Vec<Option<LockItem>>, PortError>;

    /// Reads at most 100 items with strong consistency. Returns the live claims, of any batch, and the ids
    /// that were not read.
    async fn read_events(
        &self,
        ids: &[EventId],
    ) -> Result<(Vec<StoredEvent>, Vec<EventId>), PortError>;

    /// Releases claims, on condition that they still have their seat. Takes at most
    /// [`items_per_request`](Self::items_per_request) claims. Returns a reply for each, in order.
    async fn release(&self, items: &[(EventId, SeatKey)], release: Release) -> Vec<ReleaseReply>;

    /// Marks the tombstone of the claim that `message` made in `seat`, because the event was not taken after all: another message may claim it at
    /// once. It stays until `until`. Does nothing if the item is not that tombstone, or is marked.
    async fn mark_rejected(
        &self,
        id: &EventId,
        message: &SqsMessageId,
        seat: SeatKey,
        until: Timestamp,
    ) -> Result<(), PortError>;

    /// Returns one page of the index. It is eventually consistent: entries may be missing, or be of claims that were
    /// released long ago.
    async fn index(
        &self,
        shard: BatchShard,
        after: Option<&IndexEntry>,
    ) -> Result<IndexPage, PortError>;

    /// Returns whether the table has items. DynamoDB counts them about every six hours.
    async fn has_items(&self) -> Result<bool, PortError>;
}

/// The result of a conditional write to the batch table.
#[derive(Debug)]
pub enum BatchReply {
    /// The write was applied; carries the record after it.
    Applied(Box<BatchRecord>),
    /// The condition did not hold; carries the record, `None` when there is none.
    Refused(Option<Box<BatchRecord>>),
}

/// A batch of a list, as `status-index` shows it. It may have made progress since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    pub batch_id: BatchId,
    pub source: SourceArn,
    pub due_at: Timestamp,
}

/// One of the [`STATUS_SHARDS`](protocol::limits::STATUS_SHARDS) keys of a list in `status-index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListShard {
    pub listing: Listing,
    pub shard: u8,
}

/// The last entry of a page, as it is stored: an entry that was edited by hand may have other values than an [`Overdue`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPosition {
    pub batch_id: String,
    /// Milliseconds since the epoch.
    pub due_at: String,
}

/// One page of a list.
#[derive(Clone, Debug, Default)]
pub struct ListPage {
    /// The batches by due time, the oldest first.
    pub batches: Vec<Overdue>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<ListPosition>,
}

/// The batch table.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// Writes a new record. Its id is new, so an existing record means that an earlier attempt was applied: success.
    async fn create(&self, record: &BatchRecord) -> Result<(), PortError>;

    /// Reads a record with strong consistency.
    async fn read(&self, batch: BatchId) -> Result<Option<BatchRecord>, PortError>;

    /// Applies `write` atomically, with the effect of [`apply`](protocol::batch::apply).
    async fn write(&self, batch: BatchId, write: &BatchWrite) -> Result<BatchReply, PortError>;

    /// Returns a page of the batches of this list and shard whose `dueAt` is before `due_before`. Eventually consistent.
    async fn overdue(
        &self,
        list: ListShard,
        due_before: Timestamp,
        after: Option<&ListPosition>,
    ) -> Result<ListPage, PortError>;
}

/// The batch queue.
#[async_trait]
pub trait BatchQueue: Send + Sync {
    /// Sends a ticket that becomes visible after `delay` (whole seconds, at most 900). After a lost reply, the ticket
    /// may have been sent; sending it again is harmless.
    async fn send(&self, ticket: &Ticket, delay: Duration) -> Result<(), PortError>;

    /// Sends up to 10 tickets in one request, each with its delay as in [`send`](Self::send). Returns a result for each, in order.
    async fn send_all(&self, tickets: &[(Ticket, Duration)]) -> Vec<Result<(), PortError>>;

    /// Returns how many tickets the queue holds. The numbers are approximate and may be a minute old.
    async fn depth(&self) -> Result<QueueDepth, PortError>;

    /// Makes a ticket that was received and not acknowledged visible again after `delay` (whole seconds, at most 12
    /// hours from its receive) instead of after the queue's visibility timeout. `receipt` is the ticket's receipt
    /// handle. If it has expired, the result is [`PortError::Refused`], and the queue's visibility timeout holds.
    async fn retry_after(&self, receipt: &str, delay: Duration) -> Result<(), PortError>;
}

/// A message for the quarantine queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The message, by its id in the input queue.
    pub sqs_message_id: SqsMessageId,
    /// The event id, if the message has one.
    pub event_id: Option<EventId>,
    pub source: SourceArn,
    /// Why the message cannot be processed.
    pub reason: String,
    /// The body as received.
    pub body: Arc<str>,
    /// The message attributes as received, if there are any.
    pub attributes: Option<MessageAttributes>,
}

/// The quarantine queue.
#[async_trait]
pub trait QuarantineQueue: Send + Sync {
    /// Sends up to 10 messages; returns a result for each, in order. After a lost reply, a message may be in the queue.
    /// Callers send it again: a message that is in the quarantine twice is better than a lost one.
    async fn send(&self, messages: &[Quarantined]) -> Vec<Result<(), PortError>>;
}

/// A notice to others about a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeMessage {
    /// The source of the batch.
    pub source: SourceArn,
    /// The id of the notice, the same whenever it is sent.
    pub id: String,
    /// The subject: `complete` or `error`.
    pub kind: &'static str,
    /// When that happened.
    pub at: Timestamp,
    /// The manifest of the batch, as JSON.
    pub manifest: String,
}

/// Where notices go: a queue or an event bus.
#[async_trait]
pub trait NoticeTarget: Send + Sync {
    /// Sends a notice. After a lost reply, it may have been sent; sending it again is harmless, because its id and its
    /// manifest are the same.
    async fn send(&self, notice: &NoticeMessage) -> Result<(), PortError>;
}

/// The numbers of messages in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDepth {
    /// Messages that can be received now.
    pub visible: u64,
    /// Messages that were received, and are neither deleted nor visible again.
    pub in_flight: u64,
    /// Messages that were sent with a delay and are not visible yet.
    pub delayed: u64,
}

impl QueueDepth {
    /// Returns whether no message can be received now or later, apart from those in flight.
    pub fn is_empty(&self) -> bool {
        self.visible == 0 && self.delayed == 0
    }
}

/// The queues that events come from.
#[async_trait]
pub trait SourceQueues: Send + Sync {
    /// Returns how many messages a source holds. The numbers are approximate and may be a minute old, so only use them
    /// as a hint. A source that is not a queue is [`PortError::Refused`].
    async fn depth(&self, source: &SourceArn) -> Result<QueueDepth, PortError>;
}

/// The store of bodies that do not fit their lock items.
#[async_trait]
pub trait OverflowStore: Send + Sync {
    /// Stores a body. Each object belongs to one claim, so storing a body twice is harmless.
    async fn put(&self, object: &Overflow, body: &Arc<str>) -> Result<(), PortError>;

    /// Reads a body; returns `None` when there is none.
    async fn get(&self, object: &Overflow) -> Result<Option<Arc<str>>, PortError>;

    /// Removes a body. Succeeds when there is none.
    async fn remove(&self, object: &Overflow) -> Result<(), PortError>;
}

/// The attributes of an item by name.
pub type Attributes = BTreeMap<String, serde_dynamo::AttributeValue>;

/// An item with a name, apart from the name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// How often the item was written; 0 if there is no item.
    pub version: u64,
    pub attributes: Attributes,
}

/// A change of an item. Attributes that it does not name stay as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub set: Attributes,
    pub remove: BTreeSet<String>,
}

/// The items of the batch table that have a name where others have a batch id: see [`named_items`](crate::named_items), whose `get` and
/// `replace` take and return values in place of documents.
#[async_trait]
pub trait NamedItems: Send + Sync {
    /// Reads an item with strong consistency.
    async fn read(&self, name: &str) -> Result<Document, PortError>;

    /// Changes the item, if its version is `from`. Returns `false` if it has another version. After a lost reply, the change may have
    /// been applied; sent again, it is refused.
    async fn write(&self, name: &str, from: u64, change: &Change) -> Result<bool, PortError>;
}

/// The time, and waiting.
#[async_trait]
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    /// Waits for `duration`.
    async fn sleep(&self, duration: Duration);
}

/// The randomness of the protocol: new batch ids and jitter.
pub trait Entropy: Send + Sync {
    /// Returns a new batch id.
    fn batch_id(&self, now: Timestamp) -> BatchId;

    /// Returns random bytes that nobody can guess.
    fn secret(&self) -> [u8; 32];

    /// Returns the name of a new object. None is ever returned twice.
    fn object_name(&self) -> Uuid {
        let secret = self.secret();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&secret[..16]);
        Builder::from_random_bytes(bytes).into_uuid()
    }

    /// Returns a number that is uniform in `0.0..1.0`.
    fn jitter(&self) -> f64;
}

/// The log to which metrics are written.
pub trait MetricLog: Send + Sync {
    /// Writes one line in the embedded metric format.
    fn write(&self, line: &str);
}

/// The ports that both functions use.
#[derive(Clone)]
pub struct Ports {
    pub lock_store: Arc<dyn LockStore>,
    pub batch_store: Arc<dyn BatchStore>,
    pub batch_queue: Arc<dyn BatchQueue>,
    /// Absent without `QUARANTINE_SQS_URL`.
    pub quarantine_queue: Option<Arc<dyn QuarantineQueue>>,
    /// The queue for reports of dropped duplicates, which takes messages as the quarantine does. Absent without
    /// `DUPLICATES_SQS_URL`, and in the batch-processor.
    pub duplicates_queue: Option<Arc<dyn QuarantineQueue>>,
    /// Absent without `COMPLETION`, and in the aggregator.
    pub notice_target: Option<Arc<dyn NoticeTarget>>,
    pub overflow_store: Arc<dyn OverflowStore>,
    pub object_store: Arc<dyn ObjectStore>,
    pub named_items: Arc<dyn NamedItems>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub metric_log: Arc<dyn MetricLog>,
}
