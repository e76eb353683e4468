use std::sync::Mutex;
use std::time::Duration;

use super::locked;
use crate::ports::{BatchQueue, PortError, Quarantine, Quarantined};
use crate::wire::Ticket;

/// The batch queue in memory: what was sent, in order.
#[derive(Debug, Default)]
pub struct MemoryBatchQueue(Mutex<Vec<(Ticket, Duration)>>);

impl MemoryBatchQueue {
    /// An empty queue.
    pub fn new() -> MemoryBatchQueue {
        MemoryBatchQueue::default()
    }

    /// Takes everything sent so far, with its delay.
    pub fn take(&self) -> Vec<(Ticket, Duration)> {
        std::mem::take(&mut *locked(&self.0))
    }
}

impl BatchQueue for MemoryBatchQueue {
    async fn send(&self, ticket: &Ticket, delay: Duration) -> Result<(), PortError> {
        locked(&self.0).push((ticket.clone(), delay));
        Ok(())
    }
}

/// The quarantine queue in memory.
#[derive(Debug, Default)]
pub struct MemoryQuarantine(Mutex<Vec<Quarantined>>);

impl MemoryQuarantine {
    /// An empty quarantine.
    pub fn new() -> MemoryQuarantine {
        MemoryQuarantine::default()
    }

    /// Takes everything sent so far.
    pub fn take(&self) -> Vec<Quarantined> {
        std::mem::take(&mut *locked(&self.0))
    }
}

impl Quarantine for MemoryQuarantine {
    async fn send(&self, messages: &[Quarantined]) -> Vec<Result<(), PortError>> {
        locked(&self.0).extend_from_slice(messages);
        messages.iter().map(|_| Ok(())).collect()
    }
}
