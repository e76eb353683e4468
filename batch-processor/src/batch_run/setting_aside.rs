//! Sends the events of a batch that is set aside to the quarantine.

use tracing::{error, warn};

use super::BatchRun;
use crate::body_source::Unread;
use crate::index_snapshot::missing;
use crate::reading::{HandOverError, ReadEvents, ReadLimits};
use crate::ticket_end::TicketEnd;

impl BatchRun<'_> {
    /// Sends exactly the members of the frozen part to the quarantine.
    pub(super) async fn quarantine_frozen(
        &mut self,
        index: usize,
        mut frozen: Unread,
    ) -> Result<bool, TicketEnd> {
        let mut read = self.read_with_losses(&mut frozen, ReadLimits::NONE).await;
        if let Some(failed) = read.failed.take() {
            // The part stays frozen, without the events that could be read.
            return Err(self.quarantine_readable(read, failed).await);
        }
        if let Some(missing) = missing(self.batch.record(), &read.seqs()) {
            return self.wait_for_index(missing).await;
        }
        self.quarantine(read, Some(index)).await?;
        Ok(true)
    }

    /// Sends the entries that are in no part yet to the quarantine.
    pub(super) async fn quarantine_new(&mut self, mut new: Unread) -> Result<bool, TicketEnd> {
        let mut found = false;
        loop {
            let limits = self.components.part_rules.without_part();
            let mut read = self.read_with_losses(&mut new, limits).await;
            if let Some(failed) = read.failed.take() {
                return Err(self.quarantine_readable(read, failed).await);
            }
            let seqs = read.seqs();
            if new.is_empty()
                && let Some(missing) = missing(self.batch.record(), &seqs)
            {
                return self.wait_for_index(missing).await;
            }
            if !seqs.is_empty() {
                self.quarantine(read, None).await?;
                found = true;
            }
            if new.is_empty() {
                return Ok(found);
            }
        }
    }

    /// Sends what could be read to the quarantine, and then stops because of what could not.
    async fn quarantine_readable(&mut self, read: ReadEvents, failed: HandOverError) -> TicketEnd {
        if !read.seqs().is_empty()
            && let Err(end) = self.quarantine(read, None).await
        {
            return end;
        }
        self.hand_over_failed(failed).await
    }

    /// Sends events of `part`, or of no part, to the quarantine, writes that to the record, and releases their claims.
    async fn quarantine(&mut self, read: ReadEvents, part: Option<usize>) -> Result<(), TicketEnd> {
        let batch = self.id();
        let quarantine = &self.components.quarantine;
        let record = self.batch.record();
        let sent = match quarantine.send(read, record, &self.budgets.work).await {
            Ok(sent) => sent,
            Err(error) => return Err(self.hand_over_failed(error).await),
        };
        // A part is recorded only when all its events were sent. Of events in no part, the sent ones are
        // recorded, so that they are not sent again.
        if sent.unsent_count == 0 || part.is_none() && !sent.seqs.is_empty() {
            warn!(batch_id = %batch, items_count = sent.seqs.len(), "events set aside");
            self.metrics.quarantined.add(sent.seqs.len());
            self.batch.quarantined(&sent.seqs, part).await?;
            if let Some(index) = part {
                self.give_number_up(index, &self.budgets.wrap_up).await?;
            }
            self.release(&sent.events).await?;
        }
        match (sent.refused, sent.unsent_count) {
            (Some(error), _) => {
                error!(batch_id = %batch, error, "an event cannot be set aside");
                Err(self.batch.fail(error).await)
            }
            (None, 0) => Ok(()),
            (None, count) => Err(TicketEnd::retry(format!(
                "{count} messages may not have reached the quarantine"
            ))),
        }
    }
}
