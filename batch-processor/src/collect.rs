//! A look at a batch: what the index proposes, and, as far as it fits a part, what the table confirms of it.
//!
//! A batch may be larger than memory: of what the index proposes only ids and seqs are held, and bodies are read for
//! one part after the other.

use std::sync::{Arc, Mutex, PoisonError};

use protocol::batch::{BatchRecord, Role, lag, role};
use protocol::ids::{BatchId, BatchShard, BodyHash, EventId, Seq};
use protocol::limits::{BATCH_GET_KEYS_MAX, CLAIM_OVERHEAD_BYTES, OVERFLOW_CALLS_MAX};
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use shared::calls::{Budget, bounded, joined};
use shared::ports::{IndexEntry, PortError, StoredEvent};

use crate::handler::Handler;

/// What the index proposes of a batch, by what it is to it.
#[derive(Debug, Default)]
pub struct Look {
    /// In no part yet.
    pub new: Entries,
    /// In the part that is frozen and not yet delivered.
    pub frozen: Entries,
    /// In a delivered part: their release may still be due.
    pub leftovers: Entries,
}

/// What a look came to.
#[derive(Debug)]
pub enum Sight {
    /// The index shows everything that is known to exist.
    Whole(Look),
    /// It does not yet; what is missing, in words.
    Short(String),
}

/// Why the body of an event that does not fit its item cannot be delivered.
#[derive(Debug, thiserror::Error)]
pub enum BodyProblem {
    /// Somebody removed it, or the bucket did.
    #[error(
        "body of event `{event_id}`: nothing at `{place}`; restore the object, or set the batch aside"
    )]
    Missing {
        /// The event.
        event_id: EventId,
        /// Where it should be.
        place: String,
    },
    /// The store refuses to hand it out, or what is there is no text: asking again would bring the same.
    #[error(
        "body of event `{event_id}`: {source}; make the object readable, or remove it and set the batch aside"
    )]
    Refused {
        /// The event.
        event_id: EventId,
        #[source]
        /// What the store said.
        source: PortError,
    },
    /// Somebody replaced it.
    #[error(
        "body of event `{event_id}`: `{place}` is not what was claimed; restore the object, or set the batch aside"
    )]
    Another {
        /// The event.
        event_id: EventId,
        /// Where it should be.
        place: String,
    },
    /// Not now.
    #[error(transparent)]
    Unread(PortError),
}

/// Index entries that are yet to be read, in seq order.
#[derive(Debug, Default)]
pub struct Entries {
    list: Vec<Entry>,
    /// The ids of everything that the index proposed, of other lists too.
    ids: Arc<String>,
    /// How many were handed out.
    taken: usize,
}

/// What the index proposes, in the order in which its pages come. The ids are one text: there may be half a million.
#[derive(Debug, Default)]
struct Proposals {
    list: Vec<Entry>,
    ids: String,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    seq: Seq,
    /// Where its id starts in the text of all.
    start: u32,
    len: u16,
}

/// Reads of bodies in flight: each brings up to [`PIECE_BYTES`], and an environment has 625 Mbit/s.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html> (2026-10).
const BODY_READS_MAX: usize = 8;
/// What one read should bring, once it is known how large the events are.
const PIECE_BYTES: u64 = 4 << 20;
/// Events of a read while that is not known; the largest are 400 KB.
const FIRST_PIECE: usize = 10;

impl Proposals {
    fn push(&mut self, seq: Seq, id: &str) {
        self.list.push(Entry {
            seq,
            start: u32::try_from(self.ids.len()).expect("a batch has less than 4 GiB of ids"),
            len: u16::try_from(id.len()).expect("an id is at most 2,048 bytes"),
        });
        self.ids.push_str(id);
    }
}

impl Entries {
    fn id(&self, entry: Entry) -> &str {
        let start = entry.start as usize;
        &self.ids[start..start + usize::from(entry.len)]
    }

    /// What they take in memory.
    fn bytes(&self) -> u64 {
        (self.list.len() * size_of::<Entry>() + self.ids.len()) as u64
    }

    /// Whether all were handed out.
    pub fn is_empty(&self) -> bool {
        self.taken == self.list.len()
    }

    /// How many are yet to be handed out.
    pub fn len(&self) -> usize {
        self.list.len() - self.taken
    }

    /// The next few.
    fn take(&mut self, count: usize) -> Piece {
        let end = self.list.len().min(self.taken + count);
        let entries = &self.list[self.taken..end];
        let ids = entries.iter().map(|entry| {
            EventId::try_from(self.id(*entry)).expect("it was an event id when it was pushed")
        });
        let mut ids: Vec<EventId> = ids.collect();
        // The index may show one event twice, under a seat it has left and one it has taken.
        ids.sort_unstable();
        ids.dedup();
        let piece = Piece {
            ids,
            seqs: entries.iter().map(|entry| entry.seq).collect(),
        };
        self.taken = end;
        piece
    }
}

/// What one read asks for.
#[derive(Debug)]
struct Piece {
    ids: Vec<EventId>,
    /// Where the index has them.
    seqs: SeqSet,
}

/// How far the reading of a part has come.
struct Progress<'a> {
    entries: &'a mut Entries,
    /// Asked for and not answered yet.
    awaited: u64,
    answered: u64,
    /// Of the events that were there.
    bytes: u64,
    bytes_max: u64,
    /// Not full before so many are asked for, whatever they take.
    items_min: u64,
}

impl Progress<'_> {
    /// The next piece, unless what is there and what is awaited fill the part.
    fn next(&mut self) -> Option<Piece> {
        let size = match self.mean() {
            None => FIRST_PIECE,
            Some(mean) => {
                let is_full = self.bytes + self.awaited * mean >= self.bytes_max;
                if is_full && self.answered + self.awaited >= self.items_min {
                    return None;
                }
                (PIECE_BYTES / mean).clamp(1, BATCH_GET_KEYS_MAX as u64) as usize
            }
        };
        if self.entries.is_empty() {
            return None;
        }
        let piece = self.entries.take(size);
        self.awaited += piece.ids.len() as u64;
        Some(piece)
    }

    /// What asking for one entry brings.
    fn mean(&self) -> Option<u64> {
        (self.answered > 0).then(|| (self.bytes / self.answered).max(1))
    }

    fn read(&mut self, asked: u64, events: &[StoredEvent]) {
        self.awaited -= asked;
        self.answered += asked;
        self.bytes += events.iter().map(bytes_of).sum::<u64>();
    }
}

/// What an event takes in memory, roughly.
fn bytes_of(event: &StoredEvent) -> u64 {
    let elsewhere = event.overflow.as_ref().map_or(0, |place| place.bytes);
    (event.body.len() + CLAIM_OVERHEAD_BYTES) as u64 + elsewhere
}

/// The seqs of events.
pub fn seqs(events: &[StoredEvent]) -> SeqSet {
    events.iter().map(|event| event.seq).collect()
}

/// What is known to exist and is not among `seen`; in words, `None` when nothing is missing.
pub fn missing(record: &BatchRecord, seen: &SeqSet) -> Option<String> {
    if let Some((index, part)) = record.frozen_part() {
        let missing_count = part.members.difference_len(seen);
        return (missing_count > 0).then(|| format!("{missing_count} of part {index}"));
    }
    lag(record, seen).map(|lag| {
        let confirmed = lag.confirmed.saturating_sub(lag.found);
        format!("{confirmed} confirmed, {} witnessed", lag.witnessed_missing)
    })
}

impl Handler {
    /// Looks at a batch. What this run has seen released is not asked for again.
    ///
    /// # Errors
    /// [`PortError`] when the index could not be read in time.
    pub async fn look(
        &self,
        record: &BatchRecord,
        released: &SeqSet,
        budget: &Budget<'_>,
    ) -> Result<Sight, PortError> {
        let concurrency = self.config().common.write_concurrency;
        let proposals = Mutex::new(Proposals::default());
        let shards = (0..record.shards).map(|shard| BatchShard {
            batch: record.batch_id,
            shard,
        });
        let reads = shards
            .map(|shard| self.read_proposals(shard, released, &proposals, budget))
            .collect();
        bounded(reads, concurrency)
            .await
            .into_iter()
            .collect::<Result<(), PortError>>()?;
        let Proposals { mut list, ids } = proposals
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        list.sort_unstable_by_key(|entry| (entry.seq, entry.start));
        // The table confirms less than the index proposes: what is missing here need not be looked for there.
        let proposed = list.iter().map(|entry| entry.seq).collect();
        if let Some(missing) = missing(record, &proposed) {
            return Ok(Sight::Short(missing));
        }
        let ids = Arc::new(ids);
        // As a rule all of them are new, and stay where they are.
        let mut of = |wanted: Role| -> Vec<Entry> {
            let is_wanted = |entry: &mut Entry| role(record, entry.seq) == wanted;
            list.extract_if(.., is_wanted).collect()
        };
        let leftovers = of(Role::Leftover);
        let frozen = match planted(Bug::PartRefrozen) {
            true => Vec::new(),
            false => of(Role::Frozen),
        };
        let entries = |list| Entries {
            list,
            ids: Arc::clone(&ids),
            taken: 0,
        };
        let look = Look {
            new: entries(list),
            frozen: entries(frozen),
            leftovers: entries(leftovers),
        };
        Ok(Sight::Whole(look))
    }

    /// Adds all entries of one index shard, but those released in this run.
    async fn read_proposals(
        &self,
        shard: BatchShard,
        released: &SeqSet,
        proposals: &Mutex<Proposals>,
        budget: &Budget<'_>,
    ) -> Result<(), PortError> {
        let mut after: Option<IndexEntry> = None;
        loop {
            let page = budget
                .call(RetryPolicy::ITEMS, || {
                    self.limited(budget, self.ports().lock_store.index(shard, after.as_ref()))
                })
                .await?;
            let mut proposals = proposals.lock().unwrap_or_else(PoisonError::into_inner);
            for entry in page.entries {
                if !released.contains(entry.seq) {
                    proposals.push(entry.seq, entry.event_id.as_str());
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Reads the next entries that are live claims of `batch`: about `bytes_max` of them, but not fewer than `items_min`
    /// entries if there are as many; in seq order. What the table has under another seat than the index is left for the index to show.
    ///
    /// # Errors
    /// [`PortError`] when the table could not be read in time.
    pub async fn read(
        &self,
        batch: BatchId,
        entries: &mut Entries,
        bytes_max: u64,
        items_min: usize,
        budget: &Budget<'_>,
    ) -> Result<Vec<StoredEvent>, PortError> {
        let concurrency = self.config().common.write_concurrency;
        // What is known of a large batch takes memory as well, so its parts are smaller; by a quarter at most, because
        // the largest batches there are have two thirds of the parts that a batch may have.
        let bytes_max = bytes_max
            .saturating_sub(entries.bytes())
            .max(bytes_max / 4 * 3);
        let progress = Mutex::new(Progress {
            entries,
            awaited: 0,
            answered: 0,
            bytes: 0,
            bytes_max,
            items_min: items_min as u64,
        });
        // Readers that take one piece after another, not a read for each piece: a read that waits for its turn has the
        // size of one that runs, and there may be thousands.
        let readers = (0..BODY_READS_MAX.min(concurrency))
            .map(|_| self.read_pieces(batch, &progress, budget))
            .collect();
        let read: Result<Vec<Vec<StoredEvent>>, PortError> =
            bounded(readers, concurrency).await.into_iter().collect();
        let mut events = joined(read?);
        events.sort_unstable_by_key(|event| event.seq);
        Ok(events)
    }

    /// Fetches the bodies that do not fit their items.
    ///
    /// # Errors
    /// [`BodyProblem`] when one is not there, is not the one that was claimed, or could not be read in time.
    pub async fn fetch_bodies(
        &self,
        events: &mut [StoredEvent],
        budget: &Budget<'_>,
    ) -> Result<(), BodyProblem> {
        let elsewhere = events.iter_mut().filter(|event| event.overflow.is_some());
        let fetches = elsewhere
            .map(|event| self.fetch_body(event, budget))
            .collect();
        bounded(fetches, OVERFLOW_CALLS_MAX)
            .await
            .into_iter()
            .collect()
    }

    /// Fetches the body of one event, if it does not fit its item.
    ///
    /// # Errors
    /// As [`fetch_bodies`](Self::fetch_bodies).
    pub async fn fetch_body(
        &self,
        event: &mut StoredEvent,
        budget: &Budget<'_>,
    ) -> Result<(), BodyProblem> {
        let Some(place) = &event.overflow else {
            return Ok(());
        };
        let overflow = &*self.ports().overflow_store;
        let get = || self.limited(budget, overflow.get(place));
        let read = budget.call(RetryPolicy::ITEMS, get).await;
        let (event_id, place) = (event.event_id.clone(), place.to_string());
        let read = read.map_err(|source| match source {
            PortError::Refused { .. } => BodyProblem::Refused {
                event_id: event_id.clone(),
                source,
            },
            source => BodyProblem::Unread(source),
        })?;
        match read {
            Some(body) if BodyHash::of(body.as_bytes()) == event.body_hash => {
                event.body = body;
                Ok(())
            }
            Some(_) => Err(BodyProblem::Another { event_id, place }),
            None => Err(BodyProblem::Missing { event_id, place }),
        }
    }

    /// Reads the live claims of `batch` among the pieces it can get.
    async fn read_pieces(
        &self,
        batch: BatchId,
        progress: &Mutex<Progress<'_>>,
        budget: &Budget<'_>,
    ) -> Result<Vec<StoredEvent>, PortError> {
        let locked = || progress.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = Vec::new();
        loop {
            let Some(piece) = locked().next() else {
                return Ok(events);
            };
            let mut read = self.read_events(&piece.ids, budget).await?;
            read.retain(|event| {
                event.shard.batch == batch && piece.seqs.contains(event.seq)
                    || planted(Bug::IndexBelieved)
            });
            locked().read(piece.ids.len() as u64, &read);
            events.append(&mut read);
        }
    }

    /// Reads the live claims among `ids`. A read that has no answer in time is repeated in halves: large bodies may
    /// not come through a hundred at once.
    async fn read_events(
        &self,
        ids: &[EventId],
        budget: &Budget<'_>,
    ) -> Result<Vec<StoredEvent>, PortError> {
        let mut events = Vec::with_capacity(ids.len());
        let mut open = ids.to_vec();
        let mut size = open.len();
        let mut attempt = 0;
        while !open.is_empty() {
            let later = open.split_off(size.min(open.len()));
            match self
                .limited(budget, self.ports().lock_store.read_events(&open))
                .await
            {
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
