//! What happens when: a heap of events, ordered by time, and by entry where times are equal.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The events to come.
#[derive(Debug)]
pub struct Agenda<E> {
    heap: BinaryHeap<Entry<E>>,
    entries: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: f64,
    number: u64,
    event: E,
}

impl<E> Agenda<E> {
    pub fn new() -> Agenda<E> {
        Agenda {
            heap: BinaryHeap::new(),
            entries: 0,
        }
    }

    /// Enters an event.
    pub fn add(&mut self, at: f64, event: E) {
        debug_assert!(at.is_finite());
        self.entries += 1;
        self.heap.push(Entry {
            at,
            number: self.entries,
            event,
        });
    }

    /// Removes and returns the next event, with its time.
    pub fn next(&mut self) -> Option<(f64, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

impl<E> Ord for Entry<E> {
    /// The heap returns its greatest entry first, so the earliest must be the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .at
            .total_cmp(&self.at)
            .then_with(|| other.number.cmp(&self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_as_they_were_entered() {
        let mut agenda = Agenda::new();
        for (at, name) in [(2.0, "c"), (1.0, "a"), (2.0, "d"), (1.0, "b")] {
            agenda.add(at, name);
        }
        let order: Vec<_> = std::iter::from_fn(|| agenda.next())
            .map(|(_, name)| name)
            .collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
    }
}
