//! Locks a mutex that a panic may have poisoned.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a panic of another holder, which poisons it. Going on is safe: a fake, a list of spans or a cache
/// of URLs has no state that could be half written. Whatever a queue of writes and its rates say, the conditions of the writes
/// keep the table correct.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
