//! Virtual time: what happens next, and when.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::task::Waker;

use crate::lambda::Act;
use crate::world::World;

/// Something that changes the world by itself: a request that arrives, a reply that comes back.
pub type Effect = Box<dyn FnOnce(&mut World) + Send>;

/// What happens at a point in time.
pub enum Happening {
    /// A future that slept may go on.
    Wake(Waker),
    /// The world changes.
    Effect(Effect),
    /// Lambda, a queue or the burst does something.
    Act(Act),
}

struct Entry {
    at_ms: u64,
    /// Drawn, so that what happens in the same millisecond happens in any order.
    tie: u32,
    number: u64,
    happening: Happening,
}

impl Entry {
    fn key(&self) -> (u64, u32, u64) {
        (self.at_ms, self.tie, self.number)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Reversed: the heap answers its greatest entry, and wanted is the earliest.
    fn cmp(&self, other: &Entry) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Everything that is going to happen.
#[derive(Default)]
pub struct Schedule {
    heap: BinaryHeap<Entry>,
    number: u64,
}

impl Schedule {
    /// Adds something; `tie` orders it among what happens in the same millisecond.
    pub fn add(&mut self, at_ms: u64, tie: u32, happening: Happening) {
        self.number += 1;
        self.heap.push(Entry {
            at_ms,
            tie,
            number: self.number,
            happening,
        });
    }

    /// Drops what Lambda, queues and people would do; answers what is under way by itself, in order.
    pub fn drop_acts(&mut self) -> Vec<Effect> {
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.sort_by_key(Entry::key);
        let effect = |entry: Entry| match entry.happening {
            Happening::Effect(effect) => Some(effect),
            Happening::Wake(_) | Happening::Act(_) => None,
        };
        entries.into_iter().filter_map(effect).collect()
    }

    /// Takes what happens next, with its time.
    pub fn take(&mut self) -> Option<(u64, Happening)> {
        self.heap.pop().map(|entry| (entry.at_ms, entry.happening))
    }
}
