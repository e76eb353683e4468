//! Takes the numbers of parts, and gives them up.

use shared::retry::Budget;
use tracing::info;

use super::BatchRun;
use crate::outcome::{RetryTicket, Stop};
use crate::sequences::{Numbered, look_again_at};

impl BatchRun<'_> {
    /// Takes the number of a frozen part and writes it to the record. If another part must be delivered first, the batch is
    /// looked at again later.
    pub(super) async fn take_number(&mut self, index: usize) -> Result<u64, Stop> {
        let components = self.components;
        let record = self.batch.record();
        let taken = components.sequences.take(record, index, &self.budgets.work);
        match taken.await.map_err(|source| self.service(source))? {
            Numbered::Number(number) => {
                let part = self.batch.record().parts.get(index);
                if part.and_then(|part| part.sequence) != Some(number) {
                    self.batch.number(index, number).await?;
                }
                Ok(number)
            }
            Numbered::Held(holder) => {
                let now = self.budgets.work.clock.now();
                let since = components.turns.deliverable_since(self.batch.record(), now);
                let at = look_again_at(since, now);
                info!(batch_id = %self.id(), part = index, %holder, %at, "part waits for its number");
                let completion = &components.completion;
                let turn_at = self.batch.record().turn_at;
                let put_back = completion.put_back(&mut self.batch, at, turn_at, self.budgets);
                Err(Stop::Done(put_back.await?))
            }
        }
    }

    /// Gives up the number of a part that was delivered or set aside, if it may have one.
    pub(super) async fn give_number_up(
        &self,
        index: usize,
        budget: &Budget<'_>,
    ) -> Result<(), RetryTicket> {
        let record = self.batch.record();
        let numbered = record.parts.get(index).and_then(|part| part.sequence);
        if numbered.is_none() && !self.components.delivery.needs_sequence() {
            return Ok(());
        }
        let sequences = &self.components.sequences;
        let given_up = sequences.give_up(record, index, budget);
        given_up.await.map_err(|source| self.service(source))
    }
}
