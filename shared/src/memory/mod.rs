//! The ports in memory. They pass the same contract tests as the adapters to AWS.
//!
//! They are exact and immediate; faults, lag and lost replies are put around them by those who need them.

mod batch_store;
mod clock;
mod lock_store;
mod queues;

pub use batch_store::MemoryBatchStore;
pub use clock::{ManualClock, SeededEntropy};
pub use lock_store::MemoryLockStore;
pub use queues::{MemoryBatchQueue, MemoryQuarantine, MemorySourceQueues};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The content of a mutex, whatever a panicking holder left: a fake has no state that could be half written.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
