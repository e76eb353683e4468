//! Reads of the lock table that end when everything asked for is read.

use protocol::claim::LockItem;
use protocol::ids::EventId;
use protocol::retry::RetryPolicy;
use tracing::warn;

use super::budget::Budget;
use super::permits::RequestPermits;
use crate::ports::{LockStore, PortError, StoredEvent};

/// Reads items, in order; `None` where there is no item. The list ends with the last item that could be read in time.
pub async fn read_items(
    lock_store: &dyn LockStore,
    ids: &[EventId],
    permits: &RequestPermits,
    budget: &Budget<'_>,
) -> Vec<Option<LockItem>> {
    let mut items = Vec::with_capacity(ids.len());
    while items.len() < ids.len() {
        let unread = &ids[items.len()..];
        let read = || permits.with(budget, lock_store.read(unread));
        match budget.call(RetryPolicy::ITEMS, read).await {
            Ok(read) => items.extend(read),
            Err(error) => {
                warn!(%error, "items not read");
                break;
            }
        }
    }
    items
}

/// Reads the live claims among `ids`. After an error it asks for half as many at once: a hundred large bodies may not
/// come through in the time of one attempt.
///
/// # Errors
/// The last [`PortError`]; nothing is returned of what was read before.
pub async fn read_events(
    lock_store: &dyn LockStore,
    ids: &[EventId],
    permits: &RequestPermits,
    budget: &Budget<'_>,
) -> Result<Vec<StoredEvent>, PortError> {
    let mut events = Vec::with_capacity(ids.len());
    let mut open = ids.to_vec();
    let mut size = open.len();
    let mut attempt = 0;
    while !open.is_empty() {
        let later = open.split_off(size.min(open.len()));
        match permits.with(budget, lock_store.read_events(&open)).await {
            Ok((read, unread)) => {
                events.extend(read);
                open = unread;
            }
            Err(error) => {
                size = (size / 2).max(1);
                attempt += 1;
                if !error.retryable() || !budget.pause(RetryPolicy::ITEMS, attempt).await {
                    return Err(error);
                }
            }
        }
        open.extend(later);
    }
    Ok(events)
}
