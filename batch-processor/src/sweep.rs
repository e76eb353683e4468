//! The sweep: sends another ticket for each batch that is past its due time.
//!
//! Because of the sweep, a ticket may be lost: the batch is still found by its record. A batch in error is counted and
//! gets no ticket, because it waits for an operator, until [`BATCH_LIFE_MAX`] after it was opened. Then the sweep has it set
//! aside.

use std::sync::Arc;
use std::time::Duration;

use protocol::batch::{BatchWrite, Status};
use protocol::ids::BatchId;
use protocol::limits::{BATCH_LIFE_MAX, REMINDED_FOR, SWEEP_BATCHES_MAX};
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::metrics::{About, Level, OldestAge, write_line};
use shared::ports::{BatchQueue, BatchStore, MetricLog, Overdue, PortError, Ports};
use shared::retry::{Budget, bounded};
use shared::traces::Links;
use shared::wire::{Ticket, TicketReason};
use tracing::{info, warn};

use crate::invocation::{Budgets, Invocation};
use crate::metrics::SweepMetrics;

/// The `source` dimension of the sweep's metrics, which are about the batches of all sources.
const ALL_SOURCES: &str = "all";

/// The result of a sweep. For each status, at most [`SWEEP_BATCHES_MAX`] batches are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Swept {
    /// Batches past their `dueAt` that are not in error.
    pub overdue: usize,
    /// Batches that got a ticket: overdue ones, and old ones in error.
    pub tickets_sent: usize,
    /// Batches with status `processing`, leased or given up.
    pub processing: usize,
    /// Batches with status `error`, which wait for an operator.
    pub in_error: usize,
    /// Milliseconds since the oldest overdue batch was due; 0 if there is none.
    pub oldest_overdue_age_ms: u64,
    /// Milliseconds since the oldest batch in error was opened; 0 if there is none.
    pub oldest_error_age_ms: u64,
}

pub(crate) struct Sweep {
    batch_store: Arc<dyn BatchStore>,
    batch_queue: Arc<dyn BatchQueue>,
    metric_log: Arc<dyn MetricLog>,
    /// Whether there is a quarantine queue, to which old batches in error go.
    has_quarantine_queue: bool,
    concurrency: usize,
}

/// A batch that gets a ticket.
struct Reminder {
    batch: Overdue,
    reason: TicketReason,
}

impl Sweep {
    pub(crate) fn new(ports: &Ports, concurrency: usize) -> Sweep {
        Sweep {
            has_quarantine_queue: ports.quarantine_queue.is_some(),
            batch_store: ports.batch_store.clone(),
            batch_queue: ports.batch_queue.clone(),
            metric_log: ports.metric_log.clone(),
            concurrency,
        }
    }

    /// Sends a ticket for each overdue batch, and for each old one in error, the oldest first.
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
        overdue.sort_unstable_by_key(|reminder| reminder.batch.due_at);
        let reminders = overdue
            .iter()
            .map(|reminder| self.remind(reminder, budget))
            .collect();
        let sent = bounded(reminders, self.concurrency).await;
        swept.tickets_sent = sent.into_iter().filter(|sent| *sent).count();
        info!(
            overdue_count = swept.overdue,
            tickets_count = swept.tickets_sent,
            processing_count = swept.processing,
            error_count = swept.in_error,
            oldest_overdue_age_ms = swept.oldest_overdue_age_ms,
            oldest_error_age_ms = swept.oldest_error_age_ms,
            "sweep done"
        );
        self.write_metrics(&swept, invocation, now);
        Ok(swept)
    }

    /// Counts the batches, and returns those that get a ticket.
    async fn find(
        &self,
        now: Timestamp,
        budget: &Budget<'_>,
    ) -> Result<(Swept, Vec<Reminder>), PortError> {
        let mut swept = Swept::default();
        let mut reminders = Vec::new();
        for status in Status::ALL {
            // Batches in processing and in error are counted, so query all of them; the overdue ones come first.
            let until = match status {
                Status::Open | Status::Sealed => now,
                Status::Processing | Status::Error => Timestamp::FAR_FUTURE,
            };
            let find = || self.batch_store.overdue(status, until, SWEEP_BATCHES_MAX);
            let mut found = budget.call(RetryPolicy::CONTROL, find).await?;
            let reason = match status {
                Status::Open | Status::Sealed => TicketReason::Sweep,
                Status::Processing => {
                    swept.processing = found.len();
                    TicketReason::Sweep
                }
                Status::Error => {
                    swept.in_error = found.len();
                    let ages = found
                        .iter()
                        .map(|batch| batch.batch_id.opened_at().until(now));
                    swept.oldest_error_age_ms = longest_ms(ages);
                    let is_old = |id: BatchId| id.opened_at() + BATCH_LIFE_MAX <= now;
                    found.retain(|batch| self.has_quarantine_queue && is_old(batch.batch_id));
                    TicketReason::Quarantine
                }
            };
            found.retain(|batch| batch.due_at < now);
            if status != Status::Error {
                swept.overdue += found.len();
                let oldest_ms = longest_ms(found.iter().map(|batch| batch.due_at.until(now)));
                swept.oldest_overdue_age_ms = swept.oldest_overdue_age_ms.max(oldest_ms);
            }
            reminders.extend(found.into_iter().map(|batch| Reminder { batch, reason }));
        }
        Ok((swept, reminders))
    }

    /// Sends a ticket for a batch; returns whether the ticket was sent. Moves the due time of the batch, so
    /// that the next sweep sends no second ticket while the first may wait in the queue.
    async fn remind(&self, reminder: &Reminder, budget: &Budget<'_>) -> bool {
        let overdue = &reminder.batch;
        let batch = overdue.batch_id;
        let ticket = Ticket {
            source: Some(overdue.source.clone()),
            traces: Links::of_present(),
            ..Ticket::new(batch, reminder.reason)
        };
        let send = || self.batch_queue.send(&ticket, Duration::ZERO);
        if let Err(error) = budget.call(RetryPolicy::CONTROL, send).await {
            warn!(batch_id = %batch, %error, "ticket not sent");
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
        let metrics = SweepMetrics {
            batches_overdue: Level(swept.overdue as u64),
            batches_processing: Level(swept.processing as u64),
            batches_in_error: Level(swept.in_error as u64),
            oldest_overdue_age: OldestAge(swept.oldest_overdue_age_ms),
            oldest_error_age: OldestAge(swept.oldest_error_age_ms),
        };
        let about = About {
            function: &invocation.function,
            source: ALL_SOURCES,
            at: now,
        };
        write_line(&*self.metric_log, about, &metrics);
    }
}

/// Returns the longest time, in milliseconds; 0 if there is none.
fn longest_ms(times: impl Iterator<Item = Duration>) -> u64 {
    times.max().unwrap_or_default().as_millis() as u64
}
