//! A look at a batch: what the index proposes, as far as the table confirms it.

use std::slice::Chunks;
use std::sync::{Mutex, PoisonError};

use shared::calls::{Budget, bounded};
use shared::ids::{BatchShard, EventId, Seq};
use shared::limits::BATCH_GET_KEYS_MAX;
use shared::planted::{Bug, planted};
use shared::ports::{LockStore, PortError, StoredEvent};
use shared::protocol::batch::{BatchRecord, Role, lag, role};
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

/// What a look came to.
#[derive(Debug)]
pub enum Sight {
    /// Everything that is known to exist was seen.
    Whole(Look),
    /// The index does not show everything yet; what is missing, in words.
    Short(String),
}

/// Reads of bodies in flight: each brings up to 16 MB, and an environment has 625 Mbit/s.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html> (2026-10).
const BODY_READS_MAX: usize = 8;

/// The seqs of events.
pub fn seqs(events: &[StoredEvent]) -> SeqSet {
    events.iter().map(|event| event.seq).collect()
}

/// What is known to exist and is not among `seen`; in words, `None` when nothing is missing.
fn missing(record: &BatchRecord, seen: &SeqSet) -> Option<String> {
    if let Some((index, part)) = record.frozen_part() {
        let missing_count = part.members.difference_len(seen);
        return (missing_count > 0).then(|| format!("{missing_count} of part {index}"));
    }
    lag(record, seen).map(|lag| {
        let confirmed = lag.confirmed.saturating_sub(lag.found);
        format!("{confirmed} confirmed, {} witnessed", lag.witnessed_missing)
    })
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
    ) -> Result<Sight, PortError> {
        let concurrency = self.config().common.write_concurrency;
        let shards = (0..record.shards).map(|shard| BatchShard {
            batch: record.batch_id,
            shard,
        });
        let proposals = shards
            .map(|shard| self.proposals(shard, released, budget))
            .collect();
        let proposed: Result<Vec<Vec<(Seq, EventId)>>, PortError> =
            bounded(proposals, concurrency).await.into_iter().collect();
        let (proposed, mut ids): (SeqSet, Vec<EventId>) = proposed?.into_iter().flatten().unzip();
        // The table confirms less than the index proposes: what is missing here need not be looked for there.
        if let Some(missing) = missing(record, &proposed) {
            return Ok(Sight::Short(missing));
        }
        // The index may show one event twice, under a seat it has left and one it has taken.
        ids.sort_unstable();
        ids.dedup();
        // Readers that take one piece after another, not a read for each piece: a read that waits for its turn has the
        // size of one that runs, and there may be thousands.
        let pieces = Mutex::new(ids.chunks(BATCH_GET_KEYS_MAX));
        let readers = (0..BODY_READS_MAX.min(concurrency))
            .map(|_| self.read_pieces(&pieces, budget))
            .collect();
        let read: Result<Vec<Vec<StoredEvent>>, PortError> =
            bounded(readers, concurrency).await.into_iter().collect();
        let mut events: Vec<StoredEvent> = read?.into_iter().flatten().collect();
        events.retain(|event| event.shard.batch == record.batch_id || planted(Bug::IndexBelieved));
        events.sort_unstable_by_key(|event| event.seq);
        let mut look = Look::default();
        for event in events {
            match role(record, event.seq) {
                Role::New => look.new.push(event),
                Role::Frozen => look.frozen.push(event),
                Role::Leftover => look.leftovers.push(event),
            }
        }
        let seen = if record.frozen_part().is_some() {
            seqs(&look.frozen)
        } else {
            seqs(&look.new)
        };
        Ok(match missing(record, &seen) {
            Some(missing) => Sight::Short(missing),
            None => Sight::Whole(look),
        })
    }

    /// All entries of one index shard, but those released in this run.
    async fn proposals(
        &self,
        shard: BatchShard,
        released: &SeqSet,
        budget: &Budget<'_, P::Clock, P::Entropy>,
    ) -> Result<Vec<(Seq, EventId)>, PortError> {
        let mut proposals = Vec::new();
        let mut after = None;
        loop {
            let page = budget
                .call(RetryPolicy::ITEMS, || {
                    self.limited(self.ports().locks().index(shard, after.as_ref()))
                })
                .await?;
            let entries = page
                .entries
                .into_iter()
                .filter(|entry| !released.contains(entry.seq));
            proposals.extend(entries.map(|entry| (entry.seq, entry.event_id)));
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(proposals),
            }
        }
    }

    /// Reads the live claims among the pieces it can get.
    async fn read_pieces(
        &self,
        pieces: &Mutex<Chunks<'_, EventId>>,
        budget: &Budget<'_, P::Clock, P::Entropy>,
    ) -> Result<Vec<StoredEvent>, PortError> {
        let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
        let mut events = Vec::new();
        while let Some(ids) = next() {
            events.extend(self.read_events(ids, budget).await?);
        }
        Ok(events)
    }

    /// Reads the live claims among `ids`. A read that has no answer in time is repeated in halves: large bodies may
    /// not come through a hundred at once.
    async fn read_events(
        &self,
        ids: &[EventId],
        budget: &Budget<'_, P::Clock, P::Entropy>,
    ) -> Result<Vec<StoredEvent>, PortError> {
        let mut events = Vec::with_capacity(ids.len());
        let mut open = ids.to_vec();
        let mut size = open.len();
        let mut attempt = 0;
        while !open.is_empty() {
            let later = open.split_off(size.min(open.len()));
            match self.limited(self.ports().locks().read_events(&open)).await {
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
}
