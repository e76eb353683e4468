//! The schedule of happenings in virtual time.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::redeploy::Change;

/// A change of the world, such as the arrival of a request or a reply.
pub type Effect<World> = Box<dyn FnOnce(&mut World) + Send>;

/// What happens at one time.
pub enum Happening<World> {
    /// A sleeping future wakes up.
    Wake(Waker),
    Effect(Effect<World>),
    /// An act of Lambda, a queue, an operator or the burst.
    Act(Act),
}

/// A happening outside the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A message of the burst is sent.
    Send(usize),
    /// A mapping polls its queue. The mappings of the input queues come first, then the batch queue's.
    Poll(usize),
    /// An invocation reaches its deadline.
    Deadline(u64),
    /// A frozen environment continues.
    Thaw(u64),
    /// The schedule invokes the sweep.
    Sweep,
    /// The TTL removes expired items.
    Expire,
    LoseManifest,
    /// An operator makes the index of the log anew.
    Rebuild,
    /// An operator has an event of the log forgotten.
    Forget,
    /// An operator stops the input, and switches to the log or back once every batch is complete.
    Switch,
    /// What is deployed next knows what was delivered before: it is deployed, and the input starts again.
    Switched,
    /// After a switch to the log, an operator primes its index once more.
    PrimeAgain,
    /// The faults stop.
    Calm,
    /// An operator visits the batches in error.
    Operator,
    Pause(usize),
    /// An operator ends a pause.
    Resume(usize),
    /// A configuration is updated.
    Redeploy(Change),
}

/// All happenings to come.
pub struct Schedule<World> {
    /// By their time, then by a random number, so that those of the same millisecond are in random order, then by a number of their own.
    happenings: BTreeMap<(u64, u32, u64), Happening<World>>,
    number: u64,
}

impl<World> Default for Schedule<World> {
    fn default() -> Schedule<World> {
        Schedule {
            happenings: BTreeMap::new(),
            number: 0,
        }
    }
}

impl<World> Schedule<World> {
    /// Adds a happening; `tie` orders the happenings of the same millisecond.
    pub fn add(&mut self, at_ms: u64, tie: u32, happening: Happening<World>) {
        self.number += 1;
        let key = (at_ms, tie, self.number);
        self.happenings.insert(key, happening);
    }

    /// Drops all acts and wake-ups; returns the effects of requests in flight, in order.
    pub fn drop_acts(&mut self) -> Vec<Effect<World>> {
        let happenings = std::mem::take(&mut self.happenings).into_values();
        let effect = |happening: Happening<World>| match happening {
            Happening::Effect(effect) => Some(effect),
            Happening::Wake(_) | Happening::Act(_) => None,
        };
        happenings.filter_map(effect).collect()
    }

    /// Removes and returns the next happening, with its time.
    pub fn take(&mut self) -> Option<(u64, Happening<World>)> {
        let ((at_ms, ..), happening) = self.happenings.pop_first()?;
        Some((at_ms, happening))
    }
}
