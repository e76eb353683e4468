//! The writes that say what became of the seats of a batch.

use protocol::batch::{BatchWrite, Resolution};
use protocol::seqs::SeqSet;
use protocol::slot::ClaimCounts;

use super::LeasedBatch;
use crate::ticket_end::TicketEnd;

impl LeasedBatch<'_> {
    /// Writes what the slots say of the claims. Returns `false` when a claim was witnessed since the record was read; then it must be
    /// written again.
    pub(crate) async fn count(
        &mut self,
        counts: ClaimCounts,
        uncertain: u64,
    ) -> Result<bool, TicketEnd> {
        let write = BatchWrite::Count {
            owner: self.owner.clone(),
            counts,
            uncertain,
            witnesses: self.record.witnesses,
        };
        self.write_as_read(&write, self.budgets.work).await
    }

    /// Writes what was decided about the lines of a batch of the log. Another lease may have written the same before.
    pub(crate) async fn resolve(
        &mut self,
        winners: SeqSet,
        resolution: Resolution,
    ) -> Result<(), TicketEnd> {
        let write = BatchWrite::Resolve {
            owner: self.owner.clone(),
            winners,
            resolution,
        };
        self.write(&write, self.budgets.work).await
    }

    /// Notes that the duplicates and conflicts of a batch of the log are reported.
    pub(crate) async fn reported(&mut self) -> Result<(), TicketEnd> {
        let owner = self.owner.clone();
        self.write(&BatchWrite::Reported { owner }, self.budgets.work)
            .await
    }
}
