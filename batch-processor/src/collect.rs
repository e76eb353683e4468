//! A look at a batch: what the index proposes, as far as the table confirms it.

use shared::calls::{Budget, bounded};
use shared::ids::{BatchShard, EventId};
use shared::limits::BATCH_GET_KEYS_MAX;
use shared::ports::{LockStore, PortError, StoredEvent};
use shared::protocol::batch::{BatchRecord, Role, role};
use shared::protocol::retry::RetryPolicy;
use shared::seqs::SeqSet;

use crate::handler::{Handler, Ports};

/// The live claims of a batch that could be seen, by what they are to it; each list in seq order.
#[derive(Debug, Default)]
pub struct Look {
    /// In no part yet.
    pub new: Vec<StoredEvent>,
    /// In the part that is frozen and not yet delivered.
    pub frozen: Vec<StoredEvent>,
    /// In a delivered part: their release is still due.
    pub leftovers: Vec<StoredEvent>,
}

/// The seqs of events.
pub fn seqs(events: &[StoredEvent]) -> SeqSet {
    events.iter().map(|event| event.seq).collect()
}

impl<P: Ports> Handler<P> {
    /// Looks at a batch. What this run has seen released is not asked for again.
    ///
    /// # Errors
    /// [`PortError`] when the index or the table could not be read in time.
    pub async fn look(
        &self,
        record: &BatchRecord,
        released: &SeqSet,
        budget: &Budget<'_, P::Clock, P::Entropy>,
    ) -> Result<Look, PortError> {
        let concurrency = self.config().common.write_concurrency;
        let shards = (0..record.shards).map(|shard| BatchShard { batch: record.batch_id, shard });
        let proposals = shards.map(|shard| self.proposals(shard, released, budget)).collect();
        let proposed: Result<Vec<Vec<EventId>>, PortError> = bounded(proposals, concurrency).await.into_iter().collect();
        let mut ids: Vec<EventId> = proposed?.into_iter().flatten().collect();
        // The index may show one event twice, under a seat it has left and one it has taken.
        ids.sort_unstable();
        ids.dedup();
        let reads = ids.chunks(BATCH_GET_KEYS_MAX).map(|chunk| self.read_events(chunk.to_vec(), budget)).collect();
        let read: Result<Vec<Vec<StoredEvent>>, PortError> = bounded(reads, concurrency).await.into_iter().collect();
        let mut events: Vec<StoredEvent> = read?.into_iter().flatten().collect();
        events.retain(|event| event.shard.batch == record.batch_id);
        events.sort_unstable_by_key(|event| event.seq);
        let mut look = Look::default();
        for event in events {
            match role(record, event.seq) {
                Role::New => look.new.push(event),
                Role::Frozen => look.frozen.push(event),
                Role::Leftover => look.leftovers.push(event),
            }
        }
        Ok(look)
    }

    /// All entries of one index shard, but those released in this run.
    async fn proposals(
        &self,
        shard: BatchShard,
        released: &SeqSet,
        budget: &Budget<'_, P::Clock, P::Entropy>,
    ) -> Result<Vec<EventId>, PortError> {
        let mut proposals = Vec::new();
        let mut after = None;
        loop {
            let page = budget
                .call(RetryPolicy::ITEMS, || self.limited(self.ports().locks().index(shard, after.as_ref())))
                .await?;
            let entries = page.entries.into_iter().filter(|entry| !released.contains(entry.seq));
            proposals.extend(entries.map(|entry| entry.event_id));
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(proposals),
            }
        }
    }

    async fn read_events(
        &self,
        mut ids: Vec<EventId>,
        budget: &Budget<'_, P::Clock, P::Entropy>,
    ) -> Result<Vec<StoredEvent>, PortError> {
        let mut events = Vec::with_capacity(ids.len());
        let mut attempt = 0;
        loop {
            let (read, rest) = budget
                .call(RetryPolicy::ITEMS, || self.limited(self.ports().locks().read_events(&ids)))
                .await?;
            events.extend(read);
            if rest.is_empty() {
                return Ok(events);
            }
            // A reply is cut at 16 MB, which is progress; one that brings nothing was throttled.
            if rest.len() == ids.len() {
                attempt += 1;
                if !budget.pause(RetryPolicy::ITEMS, attempt).await {
                    let message = format!("`{}` keys left unprocessed", rest.len());
                    return Err(PortError::Throttled { service: "DynamoDB", message });
                }
            }
            ids = rest;
        }
    }
}
