//! The ledger of the drop rule: every event is due once.

use super::bits::Bits;
use super::changed::Changed;
use super::entry::{Delivery, Entry, Surplus};
use crate::workload::{Content, Workload};

/// Which events were delivered: a bit for each.
pub(super) struct Once {
    delivered: Bits,
    unique: u64,
    /// The number of messages with another body than the one that was delivered.
    pub conflicts: u64,
}

impl Once {
    pub fn new(workload: &Workload) -> Self {
        Self {
            delivered: Bits::new(workload.unique()),
            unique: workload.unique(),
            conflicts: 0,
        }
    }

    /// Either body of an event may be delivered: whichever of its messages the service claims first. The messages with the
    /// other body are conflicts then.
    pub fn record(&mut self, delivery: &Delivery, changed: &mut Changed) -> Entry {
        if self.delivered.set(delivery.number) {
            return Entry::surplus(Surplus::Event);
        }
        if let Some(event) = changed.get_mut(delivery.number) {
            let other = match delivery.content {
                Content::Original => Content::Changed,
                Content::Changed => Content::Original,
            };
            self.conflicts += u64::from(event.messages(other));
        }
        Entry::default()
    }

    pub fn missing(&self) -> impl Iterator<Item = (u64, u32)> {
        let missing = (0..self.unique).filter(|number| !self.delivered.get(*number));
        missing.map(|number| (number, 1))
    }
}
