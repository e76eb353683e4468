//! What the commands need of a stack beside the ports of the functions. The simulation has a stack of its own.

use std::time::Duration;

use async_trait::async_trait;
use shared::message_attributes::AttributeMap;

use crate::failure::Failure;

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
