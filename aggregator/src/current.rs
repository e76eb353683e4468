//! The current batches, shared by every invocation of an environment.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::allocator::{Allocator, BatchLimits, Opened, SeatEnd, Slot};
use protocol::claim::Candidate;
use protocol::ids::Seat;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use shared::calls::Budget;

/// The allocator behind a lock that is never held across an `await`, and a bell for those who wait for it to change.
#[derive(Debug)]
pub struct CurrentBatches {
    allocator: Mutex<Allocator>,
    changed: Notify,
}

impl CurrentBatches {
    /// No batch is open.
    pub fn new(limits: BatchLimits) -> CurrentBatches {
        CurrentBatches {
            allocator: Mutex::new(Allocator::new(limits)),
            changed: Notify::new(),
        }
    }

    /// The allocator, for one decision.
    pub fn lock(&self) -> MutexGuard<'_, Allocator> {
        // A decision that panicked left its counts as they were or uncertain; both are states the protocol knows.
        self.allocator
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes everybody who waits for a change.
    pub fn ring(&self) {
        self.changed.notify_waiters();
    }

    /// The next change; create it before looking, so that none is missed between looking and waiting.
    pub fn change(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

/// Waits for `change`, but not past the budget, and not longer than `longest`; whether it came.
pub async fn wait(change: Notified<'_>, budget: &Budget<'_>, longest: Duration) -> bool {
    let rest = budget.clock.now().until(budget.stop_at).min(longest);
    let change = std::pin::pin!(change);
    let sleep = std::pin::pin!(budget.clock.sleep(rest));
    matches!(
        futures::future::select(change, sleep).await,
        futures::future::Either::Left(_)
    )
}

/// A candidate on its seat. Dropped before it is settled (a panic in the same environment), it counts as uncertain.
#[derive(Debug)]
pub struct Seated<'a> {
    /// Position among the leaders of the invocation.
    pub leader: usize,
    /// The event.
    pub candidate: &'a Candidate,
    /// Its place.
    pub seat: Seat,
    current: &'a CurrentBatches,
    settled: bool,
}

impl<'a> Seated<'a> {
    /// Puts a candidate on a seat the allocator gave.
    pub fn new(
        leader: usize,
        candidate: &'a Candidate,
        seat: Seat,
        current: &'a CurrentBatches,
    ) -> Seated<'a> {
        Seated {
            leader,
            candidate,
            seat,
            current,
            settled: false,
        }
    }

    /// Tells the allocator how it ended, and whether its claim tells duplicates of the event from redeliveries.
    pub fn settle(mut self, end: SeatEnd, tells_duplicates: bool) {
        self.end(end, tells_duplicates);
    }

    fn end(&mut self, end: SeatEnd, tells_duplicates: bool) {
        if !std::mem::replace(&mut self.settled, true) {
            let mut allocator = self.current.lock();
            allocator.settle(self.seat, self.candidate.body.len() as u64, end);
            if tells_duplicates {
                allocator.remember(self.seat, self.candidate);
            }
            drop(allocator);
            self.current.ring();
        }
    }
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        self.end(SeatEnd::Uncertain, false);
    }
}

/// Frees the slot of an opening that came to nothing, however it ended.
#[derive(Debug)]
pub struct OpeningGuard<'a> {
    slot: Slot,
    current: &'a CurrentBatches,
    done: bool,
}

impl<'a> OpeningGuard<'a> {
    /// Guards an opening.
    pub fn new(slot: Slot, current: &'a CurrentBatches) -> OpeningGuard<'a> {
        OpeningGuard {
            slot,
            current,
            done: false,
        }
    }
}

impl OpeningGuard<'_> {
    /// The opening succeeded.
    pub fn opened(mut self, opened: Opened) {
        self.done = true;
        self.current.lock().opened(opened);
        self.current.ring();
    }
}

impl Drop for OpeningGuard<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.current.lock().opening_failed(&self.slot);
            self.current.ring();
        }
    }
}
