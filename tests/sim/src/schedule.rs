//! The schedule of happenings in virtual time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::task::Waker;

use crate::act::Act;

/// A change of the world, such as the arrival of a request or a reply.
pub type Effect<World> = Box<dyn FnOnce(&mut World) + Send>;

/// What happens at one time.
pub enum Happening<World> {
    /// A sleeping future wakes up.
    Wake(Waker),
    /// A change of the world.
    Effect(Effect<World>),
    /// An act of Lambda, a queue, an operator or the burst.
    Act(Act),
}

struct Entry<World> {
    at_ms: u64,
    /// A random number, so that happenings of the same millisecond are in random order.
    tie: u32,
    number: u64,
    happening: Happening<World>,
}

impl<World> Entry<World> {
    fn key(&self) -> (u64, u32, u64) {
        (self.at_ms, self.tie, self.number)
    }
}

impl<World> PartialEq for Entry<World> {
    fn eq(&self, other: &Entry<World>) -> bool {
        self.key() == other.key()
    }
}

impl<World> Eq for Entry<World> {}

impl<World> PartialOrd for Entry<World> {
    fn partial_cmp(&self, other: &Entry<World>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<World> Ord for Entry<World> {
    /// Compares in reverse, because the heap returns its greatest entry and the schedule needs the earliest.
    fn cmp(&self, other: &Entry<World>) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// All happenings to come.
pub struct Schedule<World> {
    heap: BinaryHeap<Entry<World>>,
    number: u64,
}

impl<World> Default for Schedule<World> {
    fn default() -> Schedule<World> {
        Schedule {
            heap: BinaryHeap::new(),
            number: 0,
        }
    }
}

impl<World> Schedule<World> {
    /// Adds a happening; `tie` orders the happenings of the same millisecond.
    pub fn add(&mut self, at_ms: u64, tie: u32, happening: Happening<World>) {
        self.number += 1;
        self.heap.push(Entry {
            at_ms,
            tie,
            number: self.number,
            happening,
        });
    }

    /// Drops all acts and wake-ups; returns the effects of requests in flight, in order.
    pub fn drop_acts(&mut self) -> Vec<Effect<World>> {
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.sort_by_key(Entry::key);
        let effect = |entry: Entry<World>| match entry.happening {
            Happening::Effect(effect) => Some(effect),
            Happening::Wake(_) | Happening::Act(_) => None,
        };
        entries.into_iter().filter_map(effect).collect()
    }

    /// Removes and returns the next happening, with its time.
    pub fn take(&mut self) -> Option<(u64, Happening<World>)> {
        self.heap.pop().map(|entry| (entry.at_ms, entry.happening))
    }
}
