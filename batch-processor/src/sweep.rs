//! The sweep: sends another ticket for each batch that is past its due time.
//!
//! Because of the sweep, a ticket may be lost: the batch is still found by its record. A batch in error is counted and
//! gets no ticket, because it waits for an operator, until [`BATCH_LIFE_MAX`] after it was opened. Then the sweep has it set
//! aside.
//!
//! With `DELIVERY_HOURS`, batches that wait for the hours to begin get their tickets beforehand, with a delay until then.
//!
//! A batch whose window ends later than SQS can delay a ticket has none yet. Its ticket is sent beforehand too.
//!
//! With `COMPLETION`, a batch whose notices were not sent gets a ticket too.

use std::sync::Arc;
use std::time::Duration;

use protocol::batch::{BatchWrite, Closing, Listing, Status};
use protocol::ids::BatchId;
use protocol::limits::{
    BATCH_LIFE_MAX, CLOCK_SKEW_MAX, DUE_GRACE, NOTICE_TICKETS_MAX, REMINDED_FOR, SQS_DELAY_MAX,
    SWEEP_BATCHES_MAX,
};
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::delivery_hours::DeliveryHours;
use shared::metrics::{About, Level, OldestAge, write_line};
use shared::ports::{BatchQueue, BatchStore, MetricLog, Overdue, PortError, Ports};
use shared::retry::{Budget, bounded};
use shared::traces::Links;
use shared::wire::{Ticket, TicketReason};
use tracing::{error, info, warn};

use crate::config::Config;
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
    /// Batches whose notices should have been sent; absent without `COMPLETION`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notices_waiting: Option<usize>,
    /// Milliseconds since the oldest overdue batch was due; 0 if there is none.
    pub oldest_overdue_age_ms: u64,
    /// Milliseconds since the oldest batch in error was opened; 0 if there is none.
    pub oldest_error_age_ms: u64,
}

pub(crate) struct Sweep {
    batch_store: Arc<dyn BatchStore>,
    batch_queue: Arc<dyn BatchQueue>,
    metric_log: Arc<dyn MetricLog>,
    hours: Option<DeliveryHours>,
    /// Whether notices are sent.
    has_notices: bool,
    /// Whether there is a quarantine queue, to which old batches in error go.
    has_quarantine_queue: bool,
    concurrency: usize,
}

/// A batch that gets a ticket.
struct Reminder {
    batch: Overdue,
    reason: TicketReason,
    /// When the ticket should arrive.
    at: Timestamp,
    /// Whether it is the first ticket of the batch, sent before its window ends. Whether it needs one, its record tells.
    is_first: bool,
}

impl Sweep {
    pub(crate) fn new(config: &Config, ports: &Ports) -> Sweep {
        Sweep {
            hours: config.delivery_hours.clone(),
            has_quarantine_queue: ports.quarantine_queue.is_some(),
            has_notices: ports.notice_target.is_some(),
            batch_store: ports.batch_store.clone(),
            batch_queue: ports.batch_queue.clone(),
            metric_log: ports.metric_log.clone(),
            concurrency: config.common.write_concurrency,
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
        let mut waiting = Vec::new();
        let (mut swept, mut overdue) = self.find(now, budget, &mut waiting).await?;
        let oldest_notice_age = self.add_waiting(waiting, now, budget, &mut overdue).await;
        swept.notices_waiting = oldest_notice_age.map(|(count, _)| count);
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
        let age_ms = oldest_notice_age.map(|(_, age_ms)| age_ms);
        self.write_metrics(&swept, age_ms, invocation, now);
        Ok(swept)
    }

    /// Adds the batches whose notices wait: complete ones, and those in error that `waiting` has. Returns how many there are, and
    /// the milliseconds since the oldest was opened; `None` without `COMPLETION`.
    async fn add_waiting(
        &self,
        mut waiting: Vec<Overdue>,
        now: Timestamp,
        budget: &Budget<'_>,
        overdue: &mut Vec<Reminder>,
    ) -> Option<(usize, u64)> {
        if !self.has_notices {
            return None;
        }
        let find = || {
            self.batch_store
                .overdue(Listing::Notices, now, NOTICE_TICKETS_MAX)
        };
        match budget.call(RetryPolicy::CONTROL, find).await {
            Ok(found) => waiting.extend(found),
            // Deliveries come first: overdue batches get their tickets all the same.
            Err(error) => {
                error!(%error, "batches whose notices wait are not found; the next sweep looks again")
            }
        }
        waiting.sort_unstable_by_key(|batch| batch.due_at);
        waiting.truncate(NOTICE_TICKETS_MAX);
        // From the opening on, because a ticket moves the due time.
        let ages = waiting
            .iter()
            .map(|batch| batch.batch_id.opened_at().until(now));
        let found = (waiting.len(), longest_ms(ages));
        overdue.extend(waiting.into_iter().map(|batch| Reminder {
            batch,
            reason: TicketReason::Sweep,
            at: now,
            is_first: false,
        }));
        Some(found)
    }

    /// Counts the batches, and returns those that get a ticket. Puts batches in error that are due and need not be set aside
    /// into `waiting`: their notices may not have been sent.
    async fn find(
        &self,
        now: Timestamp,
        budget: &Budget<'_>,
        waiting: &mut Vec<Overdue>,
    ) -> Result<(Swept, Vec<Reminder>), PortError> {
        let mut swept = Swept::default();
        let mut reminders = Vec::new();
        let opening = self.next_opening(now);
        for status in Status::ALL {
            // Batches in processing and in error are counted, so query all of them; the overdue ones come first.
            let until = match status {
                Status::Open => now + SQS_DELAY_MAX + DUE_GRACE,
                Status::Sealed => now,
                Status::Processing | Status::Error => Timestamp::FAR_FUTURE,
            };
            let find = || {
                let listing = Listing::Status(status);
                self.batch_store.overdue(listing, until, SWEEP_BATCHES_MAX)
            };
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
                    let is_old = |id: BatchId| {
                        let is_over = id.opened_at() + BATCH_LIFE_MAX <= now;
                        is_over || planted(Bug::SetAsideTooEarly)
                    };
                    let is_set_aside =
                        |batch: &Overdue| self.has_quarantine_queue && is_old(batch.batch_id);
                    let due = found.iter().filter(|batch| batch.due_at < now);
                    waiting.extend(due.filter(|batch| !is_set_aside(batch)).cloned());
                    found.retain(is_set_aside);
                    TicketReason::Quarantine
                }
            };
            let waits = |batch: &&Overdue| opening == Some(batch.due_at);
            let waiting = found.iter().filter(waits).cloned();
            reminders.extend(waiting.map(|batch| Reminder {
                at: batch.due_at + CLOCK_SKEW_MAX,
                batch,
                reason,
                is_first: false,
            }));
            let closes = |batch: &&Overdue| status == Status::Open && may_have_no_ticket(batch);
            let closing = found
                .iter()
                .filter(|batch| batch.due_at >= now && !planted(Bug::FirstTicketForgotten));
            reminders.extend(closing.filter(closes).cloned().map(|batch| Reminder {
                // When its window has ended by every clock.
                at: batch.due_at.saturating_sub(DUE_GRACE),
                batch,
                reason,
                is_first: true,
            }));
            found.retain(|batch| batch.due_at < now);
            if status != Status::Error {
                swept.overdue += found.len();
                let oldest_ms = longest_ms(found.iter().map(|batch| batch.due_at.until(now)));
                swept.oldest_overdue_age_ms = swept.oldest_overdue_age_ms.max(oldest_ms);
            }
            reminders.extend(found.into_iter().map(|batch| Reminder {
                batch,
                reason,
                at: now,
                is_first: false,
            }));
        }
        Ok((swept, reminders))
    }

    /// Returns when the hours of delivery begin, if a ticket can be sent for that time.
    fn next_opening(&self, now: Timestamp) -> Option<Timestamp> {
        let opens = self.hours.as_ref()?.closed_until(now)?;
        (now.until(opens + CLOCK_SKEW_MAX) < SQS_DELAY_MAX).then_some(opens)
    }

    /// Sends a ticket for a batch; returns whether the ticket was sent. Moves the due time of the batch, so
    /// that the next sweep sends no second ticket while the first may wait in the queue.
    async fn remind(&self, reminder: &Reminder, budget: &Budget<'_>) -> bool {
        let overdue = &reminder.batch;
        let batch = overdue.batch_id;
        if reminder.is_first && !planted(Bug::FirstTicketRepeated) {
            let read = || self.batch_store.read(batch);
            let read = budget.call(RetryPolicy::CONTROL, read).await;
            if read.is_ok_and(|record| record.is_none_or(|record| !record.awaits_first_ticket())) {
                return false;
            }
        }
        let ticket = Ticket {
            source: Some(overdue.source.clone()),
            traces: Links::of_present(),
            ..Ticket::new(batch, reminder.reason)
        };
        let send = || {
            let delay = budget.clock.now().whole_secs_until(reminder.at);
            self.batch_queue.send(&ticket, delay)
        };
        if let Err(error) = budget.call(RetryPolicy::CONTROL, send).await {
            warn!(batch_id = %batch, %error, "ticket not sent");
            return false;
        }
        let write = BatchWrite::Reminded {
            was_due_at: overdue.due_at,
            due_at: budget.clock.now().max(reminder.at) + REMINDED_FOR,
        };
        let reminded = budget.write(&*self.batch_store, batch, &write).await;
        if let Err(error) = reminded {
            warn!(batch_id = %batch, %error, "the next sweep may send another ticket");
        }
        true
    }

    fn write_metrics(
        &self,
        swept: &Swept,
        oldest_notice_age_ms: Option<u64>,
        invocation: &Invocation,
        now: Timestamp,
    ) {
        let metrics = SweepMetrics {
            batches_overdue: Level(swept.overdue as u64),
            batches_processing: Level(swept.processing as u64),
            batches_in_error: Level(swept.in_error as u64),
            oldest_overdue_age: OldestAge(swept.oldest_overdue_age_ms),
            oldest_error_age: OldestAge(swept.oldest_error_age_ms),
            notices_waiting: swept.notices_waiting.map(|count| Level(count as u64)),
            oldest_notice_age: oldest_notice_age_ms.map(OldestAge),
        };
        let about = About {
            function: &invocation.function,
            source: ALL_SOURCES,
            at: now,
        };
        write_line(&*self.metric_log, about, &metrics);
    }
}

/// Returns whether an open batch is due so late that it may have got no ticket when it was opened. Another batch is due so late if the
/// sweep sent it a ticket.
fn may_have_no_ticket(batch: &Overdue) -> bool {
    let closing = Closing {
        closes_at: batch.due_at.saturating_sub(DUE_GRACE + CLOCK_SKEW_MAX),
    };
    closing.is_beyond_delays(batch.batch_id.opened_at())
}

/// Returns the longest time, in milliseconds; 0 if there is none.
fn longest_ms(times: impl Iterator<Item = Duration>) -> u64 {
    times.max().unwrap_or_default().as_millis() as u64
}
