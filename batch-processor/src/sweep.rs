//! The sweep: sends another ticket for each batch that is past its due time.
//!
//! Because of the sweep, a ticket may be lost: the batch is still found by its record. A batch in error is counted and
//! gets no ticket, because it waits for an operator.

use std::sync::Arc;
use std::time::Duration;

use protocol::batch::{BatchWrite, Status};
use protocol::limits::{REMINDED_FOR, SWEEP_BATCHES_MAX};
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::metrics::Metrics;
use shared::ports::{BatchQueue, BatchStore, MetricLog, Overdue, PortError, Ports};
use shared::retry::{Budget, bounded};
use shared::wire::{Ticket, TicketReason};
use tracing::{info, warn};

use crate::invocation::{Budgets, Invocation};

/// The `source` dimension of the sweep's metrics, which are about the batches of all sources.
const ALL_SOURCES: &str = "all";

/// The result of a sweep. For each status, at most [`SWEEP_BATCHES_MAX`] batches are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Swept {
    /// Batches past their `dueAt` that are not in error.
    pub overdue: usize,
    /// Overdue batches that got a ticket.
    pub tickets_sent: usize,
    /// Batches with status `processing`, leased or given up.
    pub processing: usize,
    /// Batches with status `error`, which wait for an operator.
    pub in_error: usize,
    /// Milliseconds since the oldest overdue batch was due; 0 if there is none.
    pub oldest_overdue_age_ms: u64,
}

pub(crate) struct Sweep {
    batch_store: Arc<dyn BatchStore>,
    batch_queue: Arc<dyn BatchQueue>,
    metric_log: Arc<dyn MetricLog>,
    concurrency: usize,
}

impl Sweep {
    pub(crate) fn new(ports: &Ports, concurrency: usize) -> Sweep {
        Sweep {
            batch_store: ports.batch_store.clone(),
            batch_queue: ports.batch_queue.clone(),
            metric_log: ports.metric_log.clone(),
            concurrency,
        }
    }

    /// Sends a ticket for each overdue batch, the oldest first.
    ///
    /// # Errors
    /// [`PortError`] when the batch table could not be read in time; the next sweep reads it again.
    pub(crate) async fn run(
        &self,
        invocation: &Invocation,
        budgets: &Budgets<'_>,
    ) -> Result<Swept, PortError> {
        let budget = &budgets.work;
        let now = budget.clock.now();
        let (mut swept, mut overdue) = self.find(now, budget).await?;
        if planted(Bug::SweepBlind) {
            overdue.clear();
        }
        overdue.sort_unstable_by_key(|record| record.due_at);
        swept.overdue = overdue.len();
        swept.oldest_overdue_age_ms = overdue
            .first()
            .map_or(0, |oldest| oldest.due_at.until(now).as_millis() as u64);
        let reminders = overdue
            .iter()
            .map(|overdue| self.remind(overdue, budget))
            .collect();
        let sent = bounded(reminders, self.concurrency).await;
        swept.tickets_sent = sent.into_iter().filter(|sent| *sent).count();
        info!(
            overdue_count = swept.overdue,
            tickets_count = swept.tickets_sent,
            processing_count = swept.processing,
            error_count = swept.in_error,
            oldest_overdue_age_ms = swept.oldest_overdue_age_ms,
            "sweep done"
        );
        self.write_metrics(&swept, invocation, now);
        Ok(swept)
    }

    /// Returns the numbers of batches in processing and in error, and the overdue batches.
    async fn find(
        &self,
        now: Timestamp,
        budget: &Budget<'_>,
    ) -> Result<(Swept, Vec<Overdue>), PortError> {
        let mut swept = Swept::default();
        let mut overdue: Vec<Overdue> = Vec::new();
        for status in Status::ALL {
            // Batches in processing and in error are counted, so query all of them; the overdue ones come first.
            let until = match status {
                Status::Open | Status::Sealed => now,
                Status::Processing | Status::Error => Timestamp::FAR_FUTURE,
            };
            let find = || self.batch_store.overdue(status, until, SWEEP_BATCHES_MAX);
            let found = budget.call(RetryPolicy::CONTROL, find).await?;
            match status {
                Status::Open | Status::Sealed => {}
                Status::Processing => swept.processing = found.len(),
                Status::Error => {
                    swept.in_error = found.len();
                    continue;
                }
            }
            overdue.extend(found.into_iter().filter(|record| record.due_at < now));
        }
        Ok((swept, overdue))
    }

    /// Sends a ticket for an overdue batch; returns whether the ticket was sent. Moves the due time of the batch, so
    /// that the next sweep sends no second ticket while the first may wait in the queue.
    async fn remind(&self, overdue: &Overdue, budget: &Budget<'_>) -> bool {
        let batch = overdue.batch_id;
        let ticket = Ticket {
            source: Some(overdue.source.clone()),
            ..Ticket::new(batch, TicketReason::Sweep)
        };
        let send = || self.batch_queue.send(&ticket, Duration::ZERO);
        if let Err(error) = budget.call(RetryPolicy::CONTROL, send).await {
            warn!(batch_id = %batch, %error, "no ticket for an overdue batch");
            return false;
        }
        let write = BatchWrite::Reminded {
            was_due_at: overdue.due_at,
            due_at: budget.clock.now() + REMINDED_FOR,
        };
        let reminded = budget.write(&*self.batch_store, batch, &write).await;
        if let Err(error) = reminded {
            warn!(batch_id = %batch, %error, "the next sweep may send another ticket");
        }
        true
    }

    fn write_metrics(&self, swept: &Swept, invocation: &Invocation, now: Timestamp) {
        let mut metrics = Metrics::new();
        metrics.count("BatchesOverdue", swept.overdue as u64);
        metrics.count("BatchesProcessing", swept.processing as u64);
        metrics.count("BatchesInError", swept.in_error as u64);
        metrics.milliseconds("OldestOverdueAge", swept.oldest_overdue_age_ms.into());
        // Zeros are written too, because the alarm on overdue batches recovers only when it sees them.
        let line = metrics.line(&invocation.function, ALL_SOURCES, now);
        self.metric_log.write(&line);
    }
}
