//! Releasing delivered claims: as tombstones for the dedup window, or by deleting them.

use protocol::ids::{BatchShard, EventId, Place};
use protocol::limits::OVERFLOW_CALLS_MAX;
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use shared::calls::{Budget, bounded};
use shared::ports::{PortError, Release, ReleaseReply, StoredEvent};
use shared::writes::{Member, WriteQueue};
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
        let size = self.ports().lock_store.items_per_request();
        let concurrency = self.config().common.write_concurrency;
        let delivered = events.into_iter().map(Delivered).collect();
        let now = budget.clock.now();
        let queue = WriteQueue::new(delivered, size, concurrency, self.paces(), now);
        let workers = (0..queue.workers())
            .map(|_| self.release_from(&queue, release, budget))
            .collect();
        for seqs in bounded(workers, concurrency).await {
            all.extend_from(&seqs);
        }
        all
    }

    /// Removes the bodies of released events that did not fit their items. What is left is for the bucket's lifecycle.
    async fn remove_bodies(&self, events: &[StoredEvent], released: &SeqSet, budget: &Budget<'_>) {
        let gone = events.iter().filter(|event| released.contains(event.seq));
        let removals = gone
            .filter_map(|event| event.overflow.as_ref())
            .map(|place| async move {
                let overflow = &*self.ports().overflow_store;
                let remove = || self.limited(budget, overflow.remove(place));
                if let Err(error) = budget.call(RetryPolicy::ITEMS, remove).await {
                    warn!(key = place.key, %error, "body of a released claim not removed");
                }
            })
            .collect();
        bounded(removals, OVERFLOW_CALLS_MAX).await;
    }

    /// Releases what the queue hands out, putting back what was throttled or lost.
    async fn release_from(
        &self,
        queue: &WriteQueue<'_, Delivered<'_>>,
        release: Release,
        budget: &Budget<'_>,
    ) -> SeqSet {
        let mut released = SeqSet::new();
        let mut losses = 0;
        loop {
            let members = queue.next(budget).await;
            if members.is_empty() {
                return released;
            }
            let items: Vec<(EventId, Place)> = members
                .iter()
                .map(|Delivered(event)| (event.event_id.clone(), event.place()))
                .collect();
            let Ok(place) = self.place(budget).await else {
                queue.put_back(members);
                return released;
            };
            let replies = self.ports().lock_store.release(&items, release).await;
            drop(place);
            let keys = members.iter().map(Member::key);
            queue.replied(keys.zip(replies.iter().map(error_of)), budget.clock.now());
            let mut again = Vec::new();
            let mut lost = false;
            for (member, reply) in members.into_iter().zip(replies) {
                match reply {
                    ReleaseReply::Released => released.insert(member.0.seq),
                    ReleaseReply::Error(error @ PortError::Refused { .. }) => {
                        warn!(event_id = %member.0.event_id, %error, "claim not released");
                        if planted(Bug::RefusedReleaseCounted) {
                            released.insert(member.0.seq);
                        }
                    }
                    ReleaseReply::Error(error) => {
                        lost |= matches!(error, PortError::Unknown { .. });
                        again.push(member);
                    }
                }
            }
            losses = if lost { losses + 1 } else { 0 };
            if !queue.repeat(again, losses, budget).await {
                return released;
            }
        }
    }
}

/// An event whose claim is to be released.
#[derive(Debug)]
struct Delivered<'a>(&'a StoredEvent);

impl Member for Delivered<'_> {
    fn key(&self) -> BatchShard {
        self.0.shard
    }
}

fn error_of(reply: &ReleaseReply) -> Option<&PortError> {
    match reply {
        ReleaseReply::Error(error) => Some(error),
        ReleaseReply::Released => None,
    }
}
