use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use protocol::ids::SourceArn;

use super::locked::locked;
use crate::ports::{BatchQueue, PortError, QuarantineQueue, Quarantined, QueueDepth, SourceQueues};
use crate::sqs_text::sqs_text;
use crate::wire::Ticket;

/// The batch queue in memory: what was sent, in order, and what is to come again.
#[derive(Debug, Default)]
pub struct MemoryBatchQueue {
    sent: Mutex<Vec<(Ticket, Duration)>>,
    retried: Mutex<Vec<(String, Duration)>>,
}

impl MemoryBatchQueue {
    /// An empty queue.
    pub fn new() -> MemoryBatchQueue {
        MemoryBatchQueue::default()
    }

    /// Takes everything sent so far, with its delay.
    pub fn take(&self) -> Vec<(Ticket, Duration)> {
        std::mem::take(&mut *locked(&self.sent))
    }

    /// Takes every receipt whose ticket shall come again so far, with its delay.
    pub fn take_retried(&self) -> Vec<(String, Duration)> {
        std::mem::take(&mut *locked(&self.retried))
    }
}

#[async_trait]
impl BatchQueue for MemoryBatchQueue {
    async fn send(&self, ticket: &Ticket, delay: Duration) -> Result<(), PortError> {
        locked(&self.sent).push((ticket.clone(), delay));
        Ok(())
    }

    async fn retry_after(&self, receipt: &str, delay: Duration) -> Result<(), PortError> {
        locked(&self.retried).push((receipt.to_owned(), delay));
        Ok(())
    }
}

/// The quarantine queue in memory.
#[derive(Debug, Default)]
pub struct MemoryQuarantineQueue(Mutex<Vec<Quarantined>>);

impl MemoryQuarantineQueue {
    /// An empty quarantine.
    pub fn new() -> MemoryQuarantineQueue {
        MemoryQuarantineQueue::default()
    }

    /// Takes everything sent so far.
    pub fn take(&self) -> Vec<Quarantined> {
        std::mem::take(&mut *locked(&self.0))
    }
}

#[async_trait]
impl QuarantineQueue for MemoryQuarantineQueue {
    async fn send(&self, messages: &[Quarantined]) -> Vec<Result<(), PortError>> {
        let send = |message: &Quarantined| {
            if sqs_text(&message.body) != *message.body {
                return Err(PortError::Refused {
                    service: "SQS",
                    message: "InvalidMessageContents".to_owned(),
                });
            }
            locked(&self.0).push(message.clone());
            Ok(())
        };
        messages.iter().map(send).collect()
    }
}

/// The queues that events come from, in memory: as deep as they are said to be.
#[derive(Debug, Default)]
pub struct MemorySourceQueues(Mutex<BTreeMap<SourceArn, VecDeque<QueueDepth>>>);

impl MemorySourceQueues {
    /// No queues.
    pub fn new() -> MemorySourceQueues {
        MemorySourceQueues::default()
    }

    /// From now on the queue of this source is so deep: one depth each time it is asked, then the last.
    pub fn set(&self, source: SourceArn, depths: impl IntoIterator<Item = QueueDepth>) {
        locked(&self.0).insert(source, depths.into_iter().collect());
    }
}

#[async_trait]
impl SourceQueues for MemorySourceQueues {
    async fn depth(&self, source: &SourceArn) -> Result<QueueDepth, PortError> {
        let mut queues = locked(&self.0);
        let depths = queues.get_mut(source);
        let depth = depths.and_then(|depths| match depths.len() {
            0 | 1 => depths.front().copied(),
            _ => depths.pop_front(),
        });
        depth.ok_or_else(|| PortError::Refused {
            service: "memory",
            message: format!("there is no queue `{source}`"),
        })
    }
}
