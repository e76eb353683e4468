//! One look at a running stack: how many batches and messages there are, how fast events pass, what holds deliveries back, and
//! which alarms ring.
//!
//! A look sends few requests: the queries of `status-index`, one for each queue, two for what holds back, and at most five for batch
//! records. What is counted between two looks, and what an alarm needs of former looks, is kept in [`Look`].

mod alarms;
mod counts;
mod flow;
mod history;
mod holds;
mod queues;

use protocol::time::Timestamp;
use serde::Serialize;

use crate::failure::Failure;
use crate::service::Service;
use crate::waiting::Waits;
use alarms::Sightings;
use counts::Indexed;

pub use alarms::Alarm;
pub use counts::{Counts, Oldest};
pub use flow::{Flow, Rates};
pub use history::{History, Sample};
pub use holds::{Holds, NextTurn};
pub use queues::{QueueDepth, Role};

/// What a look at a stack found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    pub at: Timestamp,
    /// The name of the stack.
    pub stack: String,
    #[serde(flatten)]
    pub counts: Counts,
    /// Events since the look before; `None` at the first look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rates: Option<Rates>,
    /// The queues whose URLs the stack says, and that could be read.
    pub queues: Vec<QueueDepth>,
    pub holds: Holds,
    /// The alarms that ring by what was seen. Those about ages of messages, functions and notices are not looked at.
    pub alarms: Vec<Alarm>,
    /// Errors about queues that could not be read.
    pub unread: Vec<String>,
}

/// Looks at a stack again and again.
#[derive(Debug, Default)]
pub struct Look {
    flow: Flow,
    history: History,
    sightings: Sightings,
}

impl Look {
    /// Looks at the stack once, and adds a sample to the history.
    ///
    /// # Errors
    /// The batch table cannot be read. A queue that cannot be read is in [`Overview::unread`].
    pub async fn look(&mut self, service: &Service) -> Result<Overview, Failure> {
        let catalogue = &*service.catalogue;
        let (indexed, waits, (queues, unread)) =
            tokio::try_join!(Indexed::read(catalogue), Waits::of(service), async {
                Ok(queues::read(service).await)
            },)?;
        let now = service.now();
        let added = self.flow.look(catalogue, &indexed.batches, now).await?;
        let counts = indexed.counts(now);
        let rates = added.and_then(|added| added.rates());
        self.history.push(Sample::of(now, &counts, &queues, rates));
        let rejected = added.map_or(0, |added| added.rejected);
        self.sightings.add(&counts, rejected, now);
        Ok(Overview {
            at: now,
            stack: service.settings.name.clone(),
            rates,
            holds: Holds::of(waits, now),
            alarms: alarms::ringing(&counts, &queues, &self.sightings, now),
            counts,
            queues,
            unread,
        })
    }

    /// Returns what the looks of the last hour saw.
    pub fn history(&self) -> &History {
        &self.history
    }
}

#[cfg(test)]
mod tests;
