//! Releasing delivered claims: as tombstones for the dedup window, or by deleting them.

use shared::calls::{Budget, bounded};
use shared::ids::{EventId, Place};
use shared::ports::{Clock, LockStore, PortError, ReleaseReply, StoredEvent};
use shared::protocol::retry::RetryPolicy;
use shared::seqs::SeqSet;
use shared::time::Timestamp;
use tracing::warn;

use crate::handler::{Handler, Ports};

impl<P: Ports> Handler<P> {
    /// Releases `events`; answers the seqs whose release was acknowledged. What was not is found again later.
    pub async fn release(
        &self,
        events: &[StoredEvent],
        budget: &Budget<'_, P::Clock, P::Entropy>,
    ) -> SeqSet {
        let window = self.config().common.dedup_window;
        let expires_at = (!window.is_zero()).then(|| budget.clock.now() + window);
        let size = self.ports().locks().items_per_request().max(1);
        let chunks = events
            .chunks(size)
            .map(|chunk| self.release_chunk(chunk, expires_at, budget))
            .collect();
        let mut all = SeqSet::new();
        for chunk in bounded(chunks, self.config().common.write_concurrency).await {
            all.extend_from(&chunk);
        }
        all
    }

    async fn release_chunk(
        &self,
        events: &[StoredEvent],
        expires_at: Option<Timestamp>,
        budget: &Budget<'_, P::Clock, P::Entropy>,
    ) -> SeqSet {
        let mut released = SeqSet::new();
        let mut open: Vec<&StoredEvent> = events.iter().collect();
        let mut attempt = 0;
        while !open.is_empty() && budget.open() {
            let items: Vec<(EventId, Place)> = open
                .iter()
                .map(|event| (event.event_id.clone(), event.place()))
                .collect();
            let replies = self
                .limited(self.ports().locks().release(&items, expires_at))
                .await;
            let mut repeat = Vec::new();
            for (event, reply) in open.into_iter().zip(replies) {
                match reply {
                    ReleaseReply::Released => released.insert(event.seq),
                    ReleaseReply::Error(error @ PortError::Refused { .. }) => {
                        warn!(event_id = %event.event_id, %error, "claim not released");
                    }
                    ReleaseReply::Error(_) => repeat.push(event),
                }
            }
            open = repeat;
            attempt += 1;
            if !open.is_empty() && !budget.pause(RetryPolicy::ITEMS, attempt).await {
                break;
            }
        }
        released
    }
}
