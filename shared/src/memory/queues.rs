use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use protocol::ids::SourceArn;

use crate::locked::locked;
use crate::ports::{
    BatchQueue, NoticeMessage, NoticeTarget, PortError, QuarantineQueue, Quarantined, QueueDepth,
    SourceQueues,
};
use crate::sqs_text::sqs_text;
use crate::wire::Ticket;

/// The batch queue in memory: the sent tickets in order, and the receipts of tickets that come back.
#[derive(Debug, Default)]
pub struct MemoryBatchQueue {
    sent: Mutex<Vec<(Ticket, Duration)>>,
    retried: Mutex<Vec<(String, Duration)>>,
}

impl MemoryBatchQueue {
    pub fn new() -> MemoryBatchQueue {
        MemoryBatchQueue::default()
    }

    /// Removes and returns every ticket sent so far, with its delay.
    pub fn take(&self) -> Vec<(Ticket, Duration)> {
        std::mem::take(&mut *locked(&self.sent))
    }

    /// Removes and returns every receipt whose ticket comes back so far, with its delay.
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

    async fn send_all(&self, tickets: &[(Ticket, Duration)]) -> Vec<Result<(), PortError>> {
        locked(&self.sent).extend_from_slice(tickets);
        tickets.iter().map(|_| Ok(())).collect()
    }

    async fn depth(&self) -> Result<QueueDepth, PortError> {
        let sent = locked(&self.sent);
        let delayed = sent.iter().filter(|(_, delay)| !delay.is_zero()).count() as u64;
        Ok(QueueDepth {
            visible: sent.len() as u64 - delayed,
            in_flight: 0,
            delayed,
        })
    }

    async fn retry_after(&self, receipt: &str, delay: Duration) -> Result<(), PortError> {
        locked(&self.retried).push((receipt.to_owned(), delay));
        Ok(())
    }
}

/// What was sent to a queue or a target in memory. It can be made to refuse everything.
#[derive(Debug)]
pub struct MemoryOutbox<T> {
    sent: Mutex<Vec<T>>,
    refuses: AtomicBool,
}

pub type MemoryQuarantineQueue = MemoryOutbox<Quarantined>;
pub type MemoryNoticeTarget = MemoryOutbox<NoticeMessage>;

impl<T> Default for MemoryOutbox<T> {
    fn default() -> MemoryOutbox<T> {
        MemoryOutbox {
            sent: Mutex::default(),
            refuses: AtomicBool::default(),
        }
    }
}

impl<T: Clone> MemoryOutbox<T> {
    /// Removes and returns every message sent so far.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *locked(&self.sent))
    }

    /// Refuses every message from now on, or takes them again.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    fn push(&self, message: &T, is_valid: bool) -> Result<(), PortError> {
        if self.refuses.load(Ordering::Relaxed) || !is_valid {
            return Err(PortError::refused("SQS", "refused"));
        }
        locked(&self.sent).push(message.clone());
        Ok(())
    }
}

#[async_trait]
impl QuarantineQueue for MemoryQuarantineQueue {
    async fn send(&self, messages: &[Quarantined]) -> Vec<Result<(), PortError>> {
        let send =
            |message: &Quarantined| self.push(message, sqs_text(&message.body) == *message.body);
        messages.iter().map(send).collect()
    }
}

#[async_trait]
impl NoticeTarget for MemoryNoticeTarget {
    async fn send(&self, notice: &NoticeMessage) -> Result<(), PortError> {
        self.push(notice, true)
    }
}

/// The source queues in memory, with depths that the test sets.
#[derive(Debug, Default)]
pub struct MemorySourceQueues(Mutex<BTreeMap<SourceArn, VecDeque<QueueDepth>>>);

impl MemorySourceQueues {
    pub fn new() -> MemorySourceQueues {
        MemorySourceQueues::default()
    }

    /// Sets the depths of a queue: each request returns the next one, and the last one from then on.
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
        depth.ok_or_else(|| PortError::refused("memory", format!("no such queue: `{source}`")))
    }
}
