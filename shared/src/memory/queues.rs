use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use protocol::ids::SourceArn;

use super::locked::locked;
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

/// The quarantine queue in memory. It can be made to refuse everything.
#[derive(Debug, Default)]
pub struct MemoryQuarantineQueue {
    sent: Mutex<Vec<Quarantined>>,
    refuses: AtomicBool,
}

impl MemoryQuarantineQueue {
    pub fn new() -> MemoryQuarantineQueue {
        MemoryQuarantineQueue::default()
    }

    /// Removes and returns every message sent so far.
    pub fn take(&self) -> Vec<Quarantined> {
        std::mem::take(&mut *locked(&self.sent))
    }

    /// Refuses every message from now on, or takes them again.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }
}

#[async_trait]
impl QuarantineQueue for MemoryQuarantineQueue {
    async fn send(&self, messages: &[Quarantined]) -> Vec<Result<(), PortError>> {
        let send = |message: &Quarantined| {
            let is_refused = self.refuses.load(Ordering::Relaxed);
            if is_refused || sqs_text(&message.body) != *message.body {
                return Err(PortError::Refused {
                    service: "SQS",
                    message: "InvalidMessageContents".to_owned(),
                });
            }
            locked(&self.sent).push(message.clone());
            Ok(())
        };
        messages.iter().map(send).collect()
    }
}

/// A target of notices in memory. It can be made to fail.
#[derive(Debug, Default)]
pub struct MemoryNoticeTarget {
    sent: Mutex<Vec<NoticeMessage>>,
    fails: AtomicBool,
}

impl MemoryNoticeTarget {
    pub fn new() -> MemoryNoticeTarget {
        MemoryNoticeTarget::default()
    }

    /// Removes and returns every notice sent so far.
    pub fn take(&self) -> Vec<NoticeMessage> {
        std::mem::take(&mut *locked(&self.sent))
    }

    /// Lets every request fail from now on, or succeed again.
    pub fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }
}

#[async_trait]
impl NoticeTarget for MemoryNoticeTarget {
    async fn send(&self, notice: &NoticeMessage) -> Result<(), PortError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(PortError::Refused {
                service: "memory",
                message: "no such target".to_owned(),
            });
        }
        locked(&self.sent).push(notice.clone());
        Ok(())
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
        depth.ok_or_else(|| PortError::Refused {
            service: "memory",
            message: format!("no such queue: `{source}`"),
        })
    }
}
