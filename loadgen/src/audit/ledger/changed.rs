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
                numbers.push(
                    u32::try_from(number).expect("an event number is below the limit of messages"),
                );
            }
        });
        numbers.sort_unstable();
        let mut events: Vec<ChangedEvent> = Vec::new();
        for number in numbers {
            match events.last_mut().filter(|last| last.number == number) {
                Some(last) => last.changed += 1,
                None => events.push(ChangedEvent {
                    number,
                    originals: 1,
                    changed: 1,
                    delivered_changed: 0,
                }),
            }
        }
        let mut all = Self(events);
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
        let key = |event: &ChangedEvent| u64::from(event.number);
        self.0.binary_search_by_key(&number, key).is_ok()
    }

    /// Returns an event, if it has two bodies.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut ChangedEvent> {
        let at = self
            .0
            .binary_search_by_key(&number, |event| u64::from(event.number));
        at.ok().map(|at| &mut self.0[at])
    }
}
