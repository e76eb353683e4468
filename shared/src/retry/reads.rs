//! Reads that continue until everything is read: of ids from the lock table, and of a list of batches.

use protocol::batch::Listing;
use protocol::claim::LockItem;
use protocol::ids::EventId;
use protocol::limits::{STATUS_SHARDS, SWEEP_PAGES_MAX};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use tracing::warn;

use super::budget::{Budget, bounded};
use super::permits::RequestPermits;
use crate::ports::{BatchStore, ListShard, LockStore, Overdue, PortError, StoredEvent};

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

/// The batches of a list that could be read.
#[derive(Debug, Default)]
pub struct List {
    /// The batches by due time, the oldest first.
    pub batches: Vec<Overdue>,
    /// Whether there may be later ones, which were not read in time or within [`SWEEP_PAGES_MAX`].
    pub is_cut: bool,
}

/// Reads lists of batches, each up to a due time, with `concurrency` requests at once. Returns what was read of each list, key by key.
pub async fn read_lists(
    batch_store: &dyn BatchStore,
    lists: Vec<(Listing, Timestamp)>,
    concurrency: usize,
    budget: &Budget<'_>,
) -> Vec<(Listing, Result<List, PortError>)> {
    let keys = lists.into_iter().flat_map(|(listing, due_before)| {
        (0..STATUS_SHARDS).map(move |shard| (ListShard { listing, shard }, due_before))
    });
    let reads = keys.map(|(list, due_before)| async move {
        let read = read_list(batch_store, list, due_before, budget).await;
        (list.listing, read)
    });
    bounded(reads.collect(), concurrency).await
}

/// Reads the batches of one key of a list, page after page. Batches read before an error are returned, since they
/// are the oldest.
///
/// # Errors
/// The first page could not be read.
async fn read_list(
    batch_store: &dyn BatchStore,
    list: ListShard,
    due_before: Timestamp,
    budget: &Budget<'_>,
) -> Result<List, PortError> {
    let mut read = List::default();
    let mut after = None;
    for page in 0..SWEEP_PAGES_MAX {
        let query = || batch_store.overdue(list, due_before, after.as_ref());
        match budget.call(RetryPolicy::CONTROL, query).await {
            Ok(page) => {
                read.batches.extend(page.batches);
                after = page.next;
            }
            Err(error) if page == 0 => return Err(error),
            Err(error) => {
                warn!(?list, %error, "list of batches read in part");
                break;
            }
        }
        if after.is_none() {
            return Ok(read);
        }
    }
    read.is_cut = true;
    Ok(read)
}
