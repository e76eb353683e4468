//! The rate of deliveries: takes turns, and lets one part after the other begin.

use std::sync::Arc;
use std::time::Duration;

use protocol::batch::BatchRecord;
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use protocol::turns::{Turn, Turns};
use shared::named_items::Versioned;
use shared::ports::{NamedItems, PortError};
use shared::retry::Budget;

/// The rate of deliveries.
pub(crate) struct Rate {
    pub(crate) events_per_second: u64,
    pub(crate) named_items: Arc<dyn NamedItems>,
}

/// The turns as they are stored, and those of them that count.
#[derive(Clone, Copy)]
pub(crate) struct ReadTurns {
    stored: Versioned<Turns>,
    pub(crate) turns: Turns,
}

impl Rate {
    /// Takes a turn for everything that is left of a batch, unless it is farther away than `ahead`.
    pub(crate) async fn take_turn(
        &self,
        record: &BatchRecord,
        ahead: Duration,
        mut read: ReadTurns,
        budget: &Budget<'_>,
    ) -> Result<Turn, PortError> {
        let events_count = record.undelivered_count();
        let mut attempt = 0;
        loop {
            let turn = read.turns.take(events_count, ahead, budget.clock.now());
            match turn {
                Turn::Full { .. } => return Ok(turn),
                Turn::Taken { turns, .. } if self.replace(read.stored, turns, budget).await? => {
                    return Ok(turn);
                }
                Turn::Taken { .. } => budget.next_attempt(&mut attempt).await?,
            }
            read = self.read(budget).await?;
        }
    }

    /// Lets a part of `events_count` events go to the sink. Returns when the next part may go.
    ///
    /// # Errors
    /// [`PortError`] when the turns cannot be read or written. The inner error is the time before which the part may not go.
    pub(crate) async fn begin(
        &self,
        events_count: u64,
        budget: &Budget<'_>,
    ) -> Result<Result<Timestamp, Timestamp>, PortError> {
        let mut attempt = 0;
        loop {
            let ReadTurns { stored, turns } = self.read(budget).await?;
            match turns.begin(events_count, budget.clock.now()) {
                Err(until) => return Ok(Err(until)),
                Ok(turns) if self.replace(stored, turns, budget).await? => {
                    return Ok(Ok(turns.next_at));
                }
                Ok(_) => budget.next_attempt(&mut attempt).await?,
            }
        }
    }

    /// Reads the turns.
    pub(crate) async fn read(&self, budget: &Budget<'_>) -> Result<ReadTurns, PortError> {
        let read = || self.named_items.get(&());
        let stored: Versioned<Turns> = budget.call(RetryPolicy::CONTROL, read).await?;
        let turns = Turns::at_rate(stored.value, self.events_per_second, budget.clock.now());
        Ok(ReadTurns { stored, turns })
    }

    /// After a lost reply, the write is sent again and refused. Then a turn was taken that nobody uses, or a part begins that waits for
    /// its own time.
    async fn replace(
        &self,
        from: Versioned<Turns>,
        to: Turns,
        budget: &Budget<'_>,
    ) -> Result<bool, PortError> {
        let replace = || self.named_items.replace(&(), &from, &to);
        budget.call(RetryPolicy::CONTROL, replace).await
    }
}
