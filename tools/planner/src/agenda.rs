//! What happens when: events, ordered by time, and by entry where times are equal.

use std::collections::BTreeMap;

/// The events to come.
#[derive(Debug)]
pub struct Agenda<E> {
    /// By the bits of their times, which are ordered as times from 0 on are, and by the number of their entry.
    events: BTreeMap<(u64, u64), E>,
    entries: u64,
}

impl<E> Agenda<E> {
    pub fn new() -> Agenda<E> {
        Agenda {
            events: BTreeMap::new(),
            entries: 0,
        }
    }

    pub fn add(&mut self, at: f64, event: E) {
        debug_assert!(at.is_finite() && at.is_sign_positive());
        self.entries += 1;
        self.events.insert((at.to_bits(), self.entries), event);
    }

    /// Removes and returns the next event, with its time.
    pub fn next(&mut self) -> Option<(f64, E)> {
        let ((at, _), event) = self.events.pop_first()?;
        Some((f64::from_bits(at), event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_as_they_were_entered() {
        let mut agenda = Agenda::new();
        for (at, name) in [(2.0, "c"), (1.0, "a"), (2.0, "d"), (0.0, "z"), (1.0, "b")] {
            agenda.add(at, name);
        }
        let order: Vec<_> = std::iter::from_fn(|| agenda.next())
            .map(|(_, name)| name)
            .collect();
        assert_eq!(order, ["z", "a", "b", "c", "d"]);
    }
}
