//! Reads of the lock table that continue until every id is read.

use protocol::claim::LockItem;
use protocol::ids::EventId;
use protocol::retry::RetryPolicy;
use tracing::warn;

use super::budget::Budget;
use super::permits::RequestPermits;
use crate::ports::{LockStore, PortError, StoredEvent};

/// Reads items. Returns them in order, `None` where there is no item. The list ends with the last item that was read in
/// time.
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

/// Reads the live claims among `ids`. After an error, the next request has half as many ids, because a hundred large
/// bodies may take longer than one attempt may.
///
/// # Errors
/// The last [`PortError`]; events that were read before it are dropped.
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
