//! Sends notices: messages to others that a batch is complete, or went into error.
//!
//! The write that completes the batch, or puts it in error, puts the notice into the record. It is sent after that write, and
//! then removed from the record. If the process dies in between, the ticket comes back; if the ticket is lost too, the sweep
//! finds the record, which stays in `status-index` until its notices were sent.
//!
//! Notices never stop deliveries: an invocation tries for [`NOTICE_TIME_MAX`], and then leaves the notice to the sweep. After that,
//! its environment sends none for [`NOTICE_PAUSE`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::batch::{BatchRecord, BatchWrite, Notice, OperatorDecision, Status};
use protocol::limits::{NOTICE_PAUSE, NOTICE_TIME_MAX};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::notice::notice_message;
use shared::ports::{BatchStore, NoticeTarget, PortError, Ports};
use shared::retry::{Budget, Written};
use tracing::{error, info, warn};

use crate::invocation::Budgets;
use crate::metrics::BatchProcessorMetrics;

/// Sends the notices of batches, if `COMPLETION` is set.
pub(crate) struct Notices {
    target: Option<Arc<dyn NoticeTarget>>,
    batch_store: Arc<dyn BatchStore>,
    /// Until when this environment sends none, in epoch ms.
    paused_until_ms: AtomicU64,
}

impl Notices {
    pub(crate) fn new(ports: &Ports) -> Notices {
        Notices {
            target: ports.notice_target.clone(),
            batch_store: ports.batch_store.clone(),
            paused_until_ms: AtomicU64::default(),
        }
    }

    /// Returns whether there are notices at all.
    pub(crate) fn are_on(&self) -> bool {
        self.target.is_some()
    }

    /// Sends the notices that wait in the record, and removes them from it. What fails is left to the sweep. Shortly after a
    /// failure, they are sent only for the ticket of an operator. Returns whether none waits any more.
    pub(crate) async fn send_waiting(
        &self,
        record: &BatchRecord,
        operator: Option<OperatorDecision>,
        budgets: &Budgets<'_>,
        metrics: &mut BatchProcessorMetrics,
    ) -> bool {
        let Some(target) = &self.target else {
            return record.notices.is_empty();
        };
        // A batch that went into error before `COMPLETION` was set has no notice, but is still due.
        if record.notices.is_empty() && record.status != Some(Status::Error) {
            return true;
        }
        let budget = budgets.wrap_up.within(NOTICE_TIME_MAX);
        let paused_until = Timestamp::from_ms(self.paused_until_ms.load(Ordering::Relaxed));
        if operator.is_none() && budget.clock.now() < paused_until {
            return record.notices.is_empty();
        }
        for notice in &record.notices {
            let notice_id = notice.id(record.batch_id);
            if let Err(error) = send(&**target, record, notice, &budget).await {
                error!(notice_id, %error, "notice not sent; the sweep tries again");
                metrics.notices_failed.add(1);
                let until = budget.clock.now() + NOTICE_PAUSE;
                self.paused_until_ms.store(until.as_ms(), Ordering::Relaxed);
                return false;
            }
            info!(notice_id, "notice sent");
            self.paused_until_ms.store(0, Ordering::Relaxed);
            metrics.notices_sent.add(1);
        }
        self.mark_sent(record, &budget).await
    }

    /// Removes the notices from the record; returns whether it did. If not, they are sent again, with the same ids and content.
    async fn mark_sent(&self, record: &BatchRecord, budget: &Budget<'_>) -> bool {
        let write = BatchWrite::NoticesSent {
            status: record.status,
            count: record.notices.len(),
            last: record.notices.last().map_or(0, |notice| notice.number),
            due_at: record.error_due_at(budget.clock.now()),
        };
        let batch = record.batch_id;
        match budget.write(&*self.batch_store, batch, &write).await {
            Ok(Written::Applied(_)) => true,
            // Somebody took the batch up, or another invocation sent the notices.
            Ok(Written::Refused(_)) => {
                info!(batch_id = %batch, "notices changed meanwhile");
                false
            }
            Err(error) => {
                warn!(batch_id = %batch, %error, "notices may be sent again");
                false
            }
        }
    }
}

async fn send(
    target: &dyn NoticeTarget,
    record: &BatchRecord,
    notice: &Notice,
    budget: &Budget<'_>,
) -> Result<(), PortError> {
    let message = notice_message(record, notice);
    let send = || target.send(&message);
    budget.call(RetryPolicy::CONTROL, send).await
}
