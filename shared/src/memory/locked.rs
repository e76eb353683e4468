//! What every fake does with its mutex.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The content of a mutex, whatever a panicking holder left: a fake has no state that could be half written.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
