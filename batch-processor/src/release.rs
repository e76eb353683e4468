//! Releases the claims of delivered events: turns them into tombstones, or deletes them if there is no dedup window.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use protocol::ids::{BatchShard, EventId, SeatKey, Seq};
use protocol::limits::SET_ASIDE_RETENTION;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::ports::{LockStore, PortError, Ports, Release, ReleaseReply, StoredEvent};
use shared::retry::{Budget, BulkWriter, Keyed, Writer};
use tracing::warn;

use crate::overflow_bodies::OverflowBodies;

/// Releases claims, and removes their bodies from the overflow store.
pub(crate) struct Releaser {
    lock_store: Arc<dyn LockStore>,
    bulk: BulkWriter,
    bodies: Arc<OverflowBodies>,
    dedup_window: Duration,
}

impl Releaser {
    pub(crate) fn new(
        ports: &Ports,
        bulk: BulkWriter,
        bodies: Arc<OverflowBodies>,
        dedup_window: Duration,
    ) -> Releaser {
        Releaser {
            lock_store: ports.lock_store.clone(),
            bulk,
            bodies,
            dedup_window,
        }
    }

    /// Releases the claims of `events`; returns the seqs whose release was acknowledged. The index shows the other
    /// claims again.
    ///
    /// The seqs in `set_aside` were not delivered. Their tombstones are marked, so that another message may claim the
    /// event, and are kept for as long as that message may be in the quarantine.
    pub(crate) async fn release(
        &self,
        events: &[StoredEvent],
        set_aside: &SeqSet,
        budget: &Budget<'_>,
    ) -> SeqSet {
        let now = budget.clock.now();
        let (aside, delivered): (Vec<_>, Vec<_>) = events
            .iter()
            .partition(|event| set_aside.contains(event.seq));
        let remembered = Release::of_delivered(now, self.dedup_window);
        let set_aside_as = Release::SetAside(now + self.dedup_window.max(SET_ASIDE_RETENTION));
        let mut released = self.release_as(delivered, remembered, budget).await;
        released.extend_from(&self.release_as(aside, set_aside_as, budget).await);
        self.bodies.remove(events, &released, budget).await;
        released
    }

    async fn release_as(
        &self,
        events: Vec<&StoredEvent>,
        release: Release,
        budget: &Budget<'_>,
    ) -> SeqSet {
        let mut seqs = SeqSet::new();
        if events.is_empty() {
            return seqs;
        }
        let delivered = events.into_iter().map(Delivered).collect();
        let writer = ReleaseWriter {
            lock_store: &*self.lock_store,
            release,
        };
        let (released, _) = self.bulk.write_all(&writer, delivered, budget).await;
        seqs.extend(released.into_iter().flatten());
        seqs
    }
}

/// Sends one request of releases.
struct ReleaseWriter<'a> {
    lock_store: &'a dyn LockStore,
    release: Release,
}

#[async_trait]
impl<'a> Writer for ReleaseWriter<'a> {
    type Item = Delivered<'a>;
    type Reply = ReleaseReply;
    type Done = Option<Seq>;

    fn items_per_request(&self) -> usize {
        self.lock_store.items_per_request()
    }

    async fn send(&self, events: &[Delivered<'a>]) -> Vec<ReleaseReply> {
        let key = |Delivered(event): &Delivered<'a>| (event.event_id.clone(), event.seat_key());
        let items: Vec<(EventId, SeatKey)> = events.iter().map(key).collect();
        self.lock_store.release(&items, self.release).await
    }

    fn error(reply: &ReleaseReply) -> Option<&PortError> {
        match reply {
            ReleaseReply::Error(error) => Some(error),
            ReleaseReply::Released => None,
        }
    }

    /// A refused release is not retried here. The batch is not complete while the index shows the claim.
    fn finish(
        &self,
        event: Delivered<'a>,
        reply: ReleaseReply,
        _now: Timestamp,
    ) -> Result<Option<Seq>, Delivered<'a>> {
        match reply {
            ReleaseReply::Released => Ok(Some(event.0.seq)),
            ReleaseReply::Error(error @ PortError::Refused { .. }) => {
                warn!(seq = event.0.seq, event_id = %event.0.event_id, %error, "claim not released");
                Ok(None)
            }
            ReleaseReply::Error(_) => Err(event),
        }
    }
}

/// An event whose claim must be released.
#[derive(Debug)]
struct Delivered<'a>(&'a StoredEvent);

impl Keyed for Delivered<'_> {
    fn key(&self) -> BatchShard {
        self.0.shard
    }
}
