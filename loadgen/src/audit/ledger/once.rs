//! The ledger of the drop rule: every event is due once.

use super::bits::Bits;
use super::changed::Changed;
use super::entry::{Delivery, Entry, Surplus};
use crate::workload::{Content, Workload};

/// Which events were delivered: a bit for each, and 16 bytes for each event with two bodies.
pub(super) struct Once {
    delivered: Bits,
    changed: Changed,
    unique: u64,
    conflicts: u64,
}

impl Once {
    pub fn new(workload: &Workload) -> Self {
        Self {
            delivered: Bits::new(workload.unique()),
            changed: Changed::new(workload),
            unique: workload.unique(),
            conflicts: 0,
        }
    }

    /// Either body of an event may be delivered: whichever of its messages the service claims first. The messages with the
    /// other body are conflicts then.
    pub fn record(&mut self, delivery: &Delivery) -> Entry {
        if self.delivered.set(delivery.number) {
            return Entry::surplus(Surplus::Event);
        }
        if let Some(event) = self.changed.get_mut(delivery.number) {
            let other = match delivery.content {
                Content::Original => Content::Changed,
                Content::Changed => Content::Original,
            };
            self.conflicts += u64::from(event.messages(other));
        }
        Entry::default()
    }

    pub fn conflicts(&self) -> u64 {
        self.conflicts
    }

    pub fn changed(&self) -> &Changed {
        &self.changed
    }

    pub fn missing(&self) -> impl Iterator<Item = (u64, u32)> {
        let missing = (0..self.unique).filter(|number| !self.delivered.get(*number));
        missing.map(|number| (number, 1))
    }
}
