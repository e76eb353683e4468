//! Releasing delivered claims: as tombstones for the dedup window, or by deleting them.

use async_trait::async_trait;
use protocol::ids::{BatchShard, EventId, Place, Seq};
use protocol::limits::OVERFLOW_CALLS_MAX;
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::ports::{LockStore, PortError, Release, ReleaseReply, StoredEvent};
use shared::retry::{Budget, Keyed, Writer, bounded};
use tracing::warn;

use crate::handler::Handler;

impl Handler {
    /// Releases `events`; answers the seqs whose release was acknowledged. What was not is found again later.
    ///
    /// What is in `set_aside` was not delivered, and its tombstones say so: another message may claim the event.
    pub async fn release(
        &self,
        events: &[StoredEvent],
        set_aside: &SeqSet,
        budget: &Budget<'_>,
    ) -> SeqSet {
        let window = self.config().common.dedup_window;
        let now = budget.clock.now();
        let (aside, delivered): (Vec<_>, Vec<_>) = events
            .iter()
            .partition(|event| set_aside.contains(event.seq));
        let (remembered, aside_as) = match window.is_zero() {
            true => (Release::Deleted, Release::Deleted),
            false => (
                Release::Remembered(now + window),
                Release::SetAside(now + window),
            ),
        };
        let aside_as = match planted(Bug::SetAsideRemembered) {
            true => remembered,
            false => aside_as,
        };
        let mut all = self.release_as(delivered, remembered, budget).await;
        all.extend_from(&self.release_as(aside, aside_as, budget).await);
        self.remove_bodies(events, &all, budget).await;
        all
    }

    async fn release_as(
        &self,
        events: Vec<&StoredEvent>,
        release: Release,
        budget: &Budget<'_>,
    ) -> SeqSet {
        let mut all = SeqSet::new();
        if events.is_empty() {
            return all;
        }
        let delivered = events.into_iter().map(Delivered).collect();
        let request = ReleaseRequest {
            lock_store: &*self.ports().lock_store,
            release,
        };
        let (released, _) = self.bulk().write_all(&request, delivered, budget).await;
        all.extend(released.into_iter().flatten());
        all
    }

    /// Removes the bodies of released events that did not fit their items. What is left is for the bucket's lifecycle.
    async fn remove_bodies(&self, events: &[StoredEvent], released: &SeqSet, budget: &Budget<'_>) {
        let gone = events.iter().filter(|event| released.contains(event.seq));
        let removals = gone
            .filter_map(|event| event.overflow.as_ref())
            .map(|place| async move {
                let overflow = &*self.ports().overflow_store;
                let remove = || self.permits().with(budget, overflow.remove(place));
                if let Err(error) = budget.call(RetryPolicy::ITEMS, remove).await {
                    warn!(key = place.key, %error, "body of a released claim not removed");
                }
            })
            .collect();
        bounded(removals, OVERFLOW_CALLS_MAX).await;
    }
}

/// One request of releases, as the bulk writer sends it.
struct ReleaseRequest<'a> {
    lock_store: &'a dyn LockStore,
    release: Release,
}

#[async_trait]
impl<'a> Writer for ReleaseRequest<'a> {
    type Item = Delivered<'a>;
    type Reply = ReleaseReply;
    type Done = Option<Seq>;

    async fn send(&self, events: &[Delivered<'a>]) -> Vec<ReleaseReply> {
        let items: Vec<(EventId, Place)> = events
            .iter()
            .map(|Delivered(event)| (event.event_id.clone(), event.place()))
            .collect();
        self.lock_store.release(&items, self.release).await
    }

    fn error(reply: &ReleaseReply) -> Option<&PortError> {
        match reply {
            ReleaseReply::Error(error) => Some(error),
            ReleaseReply::Released => None,
        }
    }

    /// A refused release is not tried again; the batch is looked at once more as long as its claim is there.
    fn settle(
        &self,
        event: Delivered<'a>,
        reply: ReleaseReply,
        _now: Timestamp,
    ) -> Result<Option<Seq>, Delivered<'a>> {
        match reply {
            ReleaseReply::Released => Ok(Some(event.0.seq)),
            ReleaseReply::Error(error @ PortError::Refused { .. }) => {
                warn!(event_id = %event.0.event_id, %error, "claim not released");
                Ok(planted(Bug::RefusedReleaseCounted).then_some(event.0.seq))
            }
            ReleaseReply::Error(_) => Err(event),
        }
    }
}

/// An event whose claim is to be released.
#[derive(Debug)]
struct Delivered<'a>(&'a StoredEvent);

impl Keyed for Delivered<'_> {
    fn key(&self) -> BatchShard {
        self.0.shard
    }
}
