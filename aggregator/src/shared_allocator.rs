//! The allocator that all invocations of an environment share: the seats and counts of its open batches.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::allocator::{Allocator, BatchLimits, BatchScope, Opened, SeatEnd};
use protocol::claim::Candidate;
use protocol::ids::Seat;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use shared::retry::Budget;

/// The allocator behind a lock, with a notification of its changes. The lock is never held across an `await`.
#[derive(Debug)]
pub struct SharedAllocator {
    allocator: Mutex<Allocator>,
    changed: Notify,
}

impl SharedAllocator {
    /// Returns an allocator without open batches.
    pub fn new(limits: BatchLimits) -> SharedAllocator {
        SharedAllocator {
            allocator: Mutex::new(Allocator::new(limits)),
            changed: Notify::new(),
        }
    }

    /// Locks the allocator, for one decision.
    pub fn lock(&self) -> MutexGuard<'_, Allocator> {
        // After a panic the counts are either unchanged or uncertain, and the protocol allows for both.
        self.allocator
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all tasks that wait for a change.
    pub fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Returns a future that ends at the next change. Call this before reading the allocator, so that no change between the
    /// read and the wait is missed.
    pub fn next_change(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

/// Waits for `change`, at most until the budget ends and at most for `longest`. Returns whether the change came.
pub async fn wait_for_change(change: Notified<'_>, budget: &Budget<'_>, longest: Duration) -> bool {
    let time_left = budget.clock.now().until(budget.stop_at).min(longest);
    let change = std::pin::pin!(change);
    let sleep = std::pin::pin!(budget.clock.sleep(time_left));
    matches!(
        futures::future::select(change, sleep).await,
        futures::future::Either::Left(_)
    )
}

/// A candidate with a seat. If it is dropped before it is finished, for example by a panic, its seat counts as uncertain.
#[derive(Debug)]
pub struct Seated<'a> {
    /// The position of the candidate among the first messages of each event id in the invocation.
    pub first: usize,
    pub candidate: &'a Candidate,
    pub seat: Seat,
    allocator: &'a SharedAllocator,
    finished: bool,
}

impl<'a> Seated<'a> {
    /// Pairs a candidate with a seat that `allocator` gave out.
    pub fn new(
        first: usize,
        candidate: &'a Candidate,
        seat: Seat,
        allocator: &'a SharedAllocator,
    ) -> Seated<'a> {
        Seated {
            first,
            candidate,
            seat,
            allocator,
            finished: false,
        }
    }

    /// Reports the end of the attempt to the allocator. With `remember`, the allocator keeps the claim in memory, and
    /// finishes later messages of the event without a request.
    pub fn finish(mut self, end: SeatEnd, remember: bool) {
        self.end(end, remember);
    }

    fn end(&mut self, end: SeatEnd, remember: bool) {
        if !std::mem::replace(&mut self.finished, true) {
            let mut allocator = self.allocator.lock();
            allocator.finish(self.seat, self.candidate.content_bytes() as u64, end);
            if remember {
                allocator.remember(self.seat, self.candidate);
            }
            drop(allocator);
            self.allocator.notify();
        }
    }
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        self.end(SeatEnd::Uncertain, false);
    }
}

/// Frees the scope of an opening that does not succeed, also if the opening is cancelled or panics.
#[derive(Debug)]
pub struct OpeningGuard<'a> {
    scope: BatchScope,
    allocator: &'a SharedAllocator,
    done: bool,
}

impl<'a> OpeningGuard<'a> {
    /// Guards the opening of a batch for `scope`.
    pub fn new(scope: BatchScope, allocator: &'a SharedAllocator) -> OpeningGuard<'a> {
        OpeningGuard {
            scope,
            allocator,
            done: false,
        }
    }
}

impl OpeningGuard<'_> {
    /// Hands the opened batch to the allocator, which gives out its seats from now on.
    pub fn opened(mut self, opened: Opened) {
        self.done = true;
        self.allocator.lock().opened(opened);
        self.allocator.notify();
    }
}

impl Drop for OpeningGuard<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.allocator.lock().opening_failed(&self.scope);
            self.allocator.notify();
        }
    }
}
