//! Completes a batch, or has it looked at a second time.

use std::sync::Arc;
use std::time::Duration;

use protocol::batch::{EmptyIndex, empty_index};
use protocol::ids::BatchId;
use protocol::limits::{CLOCK_SKEW_MAX, DUE_GRACE, SQS_DELAY_MAX, TICKETS_IN_CHAIN_MAX};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::ports::BatchQueue;
use shared::traces::names::BATCH_ID;
use shared::traces::{Links, span};
use shared::wire::{Ticket, TicketReason};
use tracing::info;

use crate::invocation::Budgets;
use crate::lease::LeasedBatch;
use crate::metrics::BatchProcessorMetrics;
use crate::outcome::{Done, RetryTicket};

/// Ends the work on a batch.
pub(crate) struct Completion {
    pub(crate) batch_queue: Arc<dyn BatchQueue>,
    /// How long after a look that found nothing the batch is looked at once more.
    pub(crate) verify_delay: Duration,
    /// `MAX_BATCH_SIZE`: how many events a full batch has.
    pub(crate) batch_items_max: u64,
}

impl Completion {
    /// Completes the batch or sends a verify ticket, after a look that found nothing new and nothing missing. Returns `None`
    /// when the batch must be looked at again now.
    pub(crate) async fn after_empty_look(
        &self,
        batch: &mut LeasedBatch<'_>,
        released: &SeqSet,
        budgets: &Budgets<'_>,
        metrics: &mut BatchProcessorMetrics,
    ) -> Result<Option<Done>, RetryTicket> {
        let now = budgets.work.clock.now();
        match empty_index(batch.record(), released, now, self.verify_delay) {
            EmptyIndex::Complete => {
                let complete = self.complete(batch, budgets, metrics).await?;
                Ok(complete.then_some(Done::Complete))
            }
            EmptyIndex::VerifyAt(at) => {
                batch.verify_at(at).await?;
                let id = batch.id();
                self.send_ticket(id, at, TicketReason::Verify, budgets)
                    .await?;
                info!(batch_id = %id, verify_at = %at, "verify ticket sent");
                Ok(Some(Done::Verifying))
            }
        }
    }

    /// Completes the batch. Returns `false` when a claim was counted or witnessed since the record was read; then the
    /// batch must be looked at again.
    pub(crate) async fn complete(
        &self,
        batch: &mut LeasedBatch<'_>,
        budgets: &Budgets<'_>,
        metrics: &mut BatchProcessorMetrics,
    ) -> Result<bool, RetryTicket> {
        let at = budgets.work.clock.now();
        let completed = span("complete").text(BATCH_ID, batch.id());
        if !completed.run(batch.complete(at)).await? {
            return Ok(false);
        }
        let record = batch.record();
        let age = at - record.created_at;
        let items_count = record.members().len();
        let delivered_count = items_count.saturating_sub(record.set_aside.len());
        info!(batch_id = %record.batch_id, items_count, parts_count = record.parts.len(), age_ms = age.as_millis() as u64, "batch complete");
        metrics.batches_completed.add(1);
        metrics.batch_age.measured(age);
        if delivered_count > 0 {
            let full = self.batch_items_max;
            metrics.fill_ratio.measured(delivered_count, full);
        }
        Ok(true)
    }

    /// Puts the batch back until `until`. If that is soon, a ticket is sent for that time; otherwise the sweep sends one.
    /// The sweep also sends the ticket after every [`TICKETS_IN_CHAIN_MAX`] leases.
    pub(crate) async fn put_back(
        &self,
        batch: &mut LeasedBatch<'_>,
        until: Timestamp,
        turn_at: Option<Timestamp>,
        budgets: &Budgets<'_>,
    ) -> Result<Done, RetryTicket> {
        info!(batch_id = %batch.id(), %until, "part must wait");
        let at = until + CLOCK_SKEW_MAX;
        // Lambda stops a chain of tickets that each come from the invocation before. A ticket of the sweep begins another chain.
        let may_send = !batch.record().attempts.is_multiple_of(TICKETS_IN_CHAIN_MAX);
        let is_soon = may_send && budgets.work.clock.now().until(at) < SQS_DELAY_MAX;
        let due_at = match is_soon {
            true => at + DUE_GRACE,
            false => until,
        };
        batch.put_back(due_at, turn_at).await?;
        if is_soon {
            let id = batch.id();
            self.send_ticket(id, at, TicketReason::Sweep, budgets)
                .await?;
        }
        Ok(Done::Waiting)
    }

    /// Sends a ticket that arrives at `at`, at most [`SQS_DELAY_MAX`] from now.
    async fn send_ticket(
        &self,
        batch: BatchId,
        at: Timestamp,
        reason: TicketReason,
        budgets: &Budgets<'_>,
    ) -> Result<(), RetryTicket> {
        let sent = async {
            let ticket = Ticket {
                traces: Links::of_present(),
                ..Ticket::new(batch, reason)
            };
            let send = || {
                let delay = budgets.work.clock.now().whole_secs_until(at);
                self.batch_queue.send(&ticket, delay)
            };
            budgets.wrap_up.call(RetryPolicy::CONTROL, send).await
        };
        let sent = span("ticket").sends().text(BATCH_ID, batch).run(sent).await;
        sent.map_err(|source| RetryTicket::Service { batch, source })
    }
}
