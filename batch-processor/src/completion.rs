//! Completes a batch, or has it looked at a second time.

use std::sync::Arc;
use std::time::Duration;

use protocol::batch::{EmptyIndex, empty_index};
use protocol::ids::BatchId;
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
use crate::ticket_end::TicketEnd;

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
    ) -> Result<Option<TicketEnd>, TicketEnd> {
        let now = budgets.work.clock.now();
        match empty_index(batch.record(), released, now, self.verify_delay) {
            EmptyIndex::Complete => {
                let complete = self.complete(batch, budgets, metrics).await?;
                Ok(complete.then_some(TicketEnd::Done("complete")))
            }
            EmptyIndex::VerifyAt(at) => {
                batch.verify_at(at).await?;
                let id = batch.id();
                self.send_ticket(id, at, TicketReason::Verify, budgets)
                    .await?;
                info!(batch_id = %id, verify_at = %at, "verify ticket sent");
                Ok(Some(TicketEnd::Done("to be verified")))
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
    ) -> Result<bool, TicketEnd> {
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

    /// Sends a ticket that arrives at `at`, at most [`SQS_DELAY_MAX`] from now.
    pub(crate) async fn send_ticket(
        &self,
        batch: BatchId,
        at: Timestamp,
        reason: TicketReason,
        budgets: &Budgets<'_>,
    ) -> Result<(), TicketEnd> {
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
        Ok(sent?)
    }
}
