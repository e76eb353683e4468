//! The events that have two bodies.

use crate::workload::{Content, Workload};

/// The events that have two bodies, by number: 16 bytes for each.
pub(super) struct Changed(Vec<ChangedEvent>);

/// An event with two bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChangedEvent {
    number: u32,
    /// The number of its messages that have the body of the first one.
    pub originals: u32,
    /// The number of its messages that have the other body.
    pub changed: u32,
    /// How many deliveries had the other body.
    pub delivered_changed: u32,
}

impl ChangedEvent {
    /// Returns how many of the event's messages have a body.
    pub fn messages(&self, content: Content) -> u32 {
        match content {
            Content::Original => self.originals,
            Content::Changed => self.changed,
        }
    }
}

impl Changed {
    /// Computes every repeat twice if there are such events, and once if there are none.
    pub fn new(workload: &Workload) -> Self {
        let mut numbers = Vec::new();
        workload.for_each_repeat(|number, changed| {
            if changed {
                let number = u32::try_from(number);
                numbers.push(number.expect("an event number is below the limit of messages"));
            }
        });
        numbers.sort_unstable();
        let events = numbers.chunk_by(|a, b| a == b).map(|same| ChangedEvent {
            number: same[0],
            originals: 1,
            changed: same.len() as u32,
            delivered_changed: 0,
        });
        let mut all = Self(events.collect());
        if !all.0.is_empty() {
            workload.for_each_repeat(|number, changed| {
                if let Some(event) = all.get_mut(number).filter(|_| !changed) {
                    event.originals += 1;
                }
            });
        }
        all
    }

    pub fn contains(&self, number: u64) -> bool {
        self.at(number).is_some()
    }

    fn at(&self, number: u64) -> Option<usize> {
        let key = |event: &ChangedEvent| u64::from(event.number);
        self.0.binary_search_by_key(&number, key).ok()
    }

    /// Returns an event, if it has two bodies.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut ChangedEvent> {
        self.at(number).map(|at| &mut self.0[at])
    }
}
