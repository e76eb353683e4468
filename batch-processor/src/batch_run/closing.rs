//! Closes a batch: reads its slots, and counts its claims.

use std::sync::Arc;

use tracing::info;

use super::BatchRun;
use crate::object_reader::Closed;
use crate::ticket_end::TicketEnd;

impl BatchRun<'_> {
    /// Counts the claims of a batch, unless that is done, or decides about the lines of a batch of the log. Nothing of the batch is frozen,
    /// set aside or proven before.
    pub(super) async fn settle(&mut self) -> Result<(), TicketEnd> {
        if self.batch.record().bodies.is_log() {
            return self.resolve().await;
        }
        while !self.batch.record().is_resolved() {
            let closed = self.close().await?;
            let mut counts = closed.counts.clone();
            let record = self.batch.record();
            counts.witnessed.extend_from(&record.witnessed);
            let uncertain = record.uncertain_beside(&counts);
            let confirmed = counts.confirmed;
            if self.batch.count(counts, uncertain).await? {
                self.metrics.holes.add(closed.holes);
                info!(batch_id = %self.id(), items_count = confirmed, uncertain_count = uncertain, "batch closed");
            }
        }
        Ok(())
    }

    /// Reads the slots of the batch, and fills those that stay empty.
    pub(super) async fn close(&mut self) -> Result<Arc<Closed>, TicketEnd> {
        let reader = &self.components.body_source.object_reader;
        let closed = reader.close(self.batch.record(), &self.budgets.work);
        match closed.await {
            Ok(closed) => Ok(closed),
            Err(error) => Err(self.hand_over_failed(error.into()).await),
        }
    }
}
