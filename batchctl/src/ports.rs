//! What the commands need of a stack beside the ports of the functions. The simulation has a stack of its own.

use std::time::Duration;

use async_trait::async_trait;
use protocol::batch::Listing;
use protocol::claim::LockItem;
use protocol::ids::{BatchId, EventId, Seq};
use protocol::time::Timestamp;
use shared::aws::{DynamoBatchCatalogue, DynamoLockStore, Summaries};
use shared::message_attributes::AttributeMap;
use shared::ports::{Overdue, PortError};

use crate::failure::Failure;

/// The lock items, as an operator looks at them and has them forgotten.
#[async_trait]
pub trait LockItems: Send + Sync {
    /// Returns the batch and the seq of the claim that became the tombstone of an event; `None` if there is no tombstone, or it does
    /// not say.
    async fn last_seat(&self, id: &EventId) -> Result<Option<(BatchId, Seq)>, PortError>;

    /// Deletes an item, if it still has the message and the state of `expected`. Returns whether it was deleted. After
    /// [`PortError::Unknown`], it may be deleted.
    async fn remove(&self, id: &EventId, expected: &LockItem) -> Result<bool, PortError>;
}

/// Many records of the batch table.
#[async_trait]
pub trait BatchCatalogue: Send + Sync {
    /// Returns every batch in this list whose `dueAt` is before `due_before`, if that is given. Eventually consistent.
    async fn listed(
        &self,
        listing: Listing,
        due_before: Option<Timestamp>,
    ) -> Result<Vec<Overdue>, PortError>;

    /// Returns the batches with these ids. Those without a record are left out.
    async fn summaries(&self, ids: &[BatchId]) -> Result<Summaries, PortError>;

    /// Returns every complete batch that was opened at or after `since`.
    async fn complete(&self, since: Timestamp) -> Result<Summaries, PortError>;
}

/// A message that was received.
#[derive(Clone, Debug)]
pub struct Received {
    pub message_id: String,
    pub receipt: String,
    pub body: String,
    pub attributes: AttributeMap,
    /// When it was first received, in epoch milliseconds.
    pub first_received_at: Option<u64>,
    pub sent_at: Option<u64>,
}

impl Received {
    /// Returns the text of a message attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name)?.string_value.as_deref()
    }
}

/// What became of a message that was sent.
#[derive(Debug)]
pub enum Sent {
    Yes,
    /// There was no reply: the message may be in the queue.
    Unknown(String),
}

/// A queue of messages.
#[async_trait]
pub trait MessageQueue: Send + Sync {
    /// Receives up to ten messages, which are invisible to others for `invisible_for`; returns none if there are none.
    async fn receive(&self, invisible_for: Duration) -> Result<Vec<Received>, Failure>;

    /// Sends a message, in one attempt: a second one could put it into the queue twice.
    ///
    /// # Errors
    /// The queue refused the message.
    async fn send(&self, body: &str, attributes: AttributeMap) -> Result<Sent, Failure>;

    /// Deletes a message that was received.
    async fn delete(&self, receipt: &str) -> Result<(), Failure>;

    /// Makes a message visible again, that was received and is left in the queue. If this fails, it becomes visible later.
    async fn give_back(&self, receipt: &str);
}

/// The queues of a stack, by URL.
pub trait MessageQueues: Send + Sync {
    fn queue(&self, url: String) -> Box<dyn MessageQueue>;
}

#[async_trait]
impl LockItems for DynamoLockStore {
    async fn last_seat(&self, id: &EventId) -> Result<Option<(BatchId, Seq)>, PortError> {
        DynamoLockStore::last_seat(self, id).await
    }

    async fn remove(&self, id: &EventId, expected: &LockItem) -> Result<bool, PortError> {
        DynamoLockStore::remove(self, id, expected).await
    }
}

#[async_trait]
impl BatchCatalogue for DynamoBatchCatalogue {
    async fn listed(
        &self,
        listing: Listing,
        due_before: Option<Timestamp>,
    ) -> Result<Vec<Overdue>, PortError> {
        DynamoBatchCatalogue::listed(self, listing, due_before).await
    }

    async fn summaries(&self, ids: &[BatchId]) -> Result<Summaries, PortError> {
        DynamoBatchCatalogue::summaries(self, ids).await
    }

    async fn complete(&self, since: Timestamp) -> Result<Summaries, PortError> {
        DynamoBatchCatalogue::complete(self, since).await
    }
}
