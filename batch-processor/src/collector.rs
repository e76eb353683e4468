//! Collects the claims of a batch: the index lists possible claims, and strongly consistent reads of the table confirm
//! them. Bodies are read for one part after the other.

use std::sync::{Arc, Mutex, PoisonError};

use protocol::batch::BatchRecord;
use protocol::ids::{BatchId, BatchShard};
use protocol::limits::BATCH_GET_KEYS_MAX;
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use shared::ports::{IndexEntry, LockStore, PortError, Ports, StoredEvent};
use shared::retry::{Budget, RequestPermits, bounded, joined, read_events};

use crate::index_snapshot::{IndexEntries, Piece, Snapshot, UnsortedEntries};
use crate::reading::{ReadLimits, memory_bytes};

/// Requests for bodies in flight. Each returns up to [`PIECE_BYTES`], and an environment has 625 Mbit/s.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html> (2026-10).
const BODY_READS_MAX: usize = 8;
/// Bytes that one request should return, once the mean size of the events is known.
const PIECE_BYTES: u64 = 4 << 20;
/// Events of a request while the mean size is not known. The largest event has 400 KB.
const FIRST_PIECE: usize = 10;

/// Reads the index and the lock table.
pub(crate) struct Collector {
    lock_store: Arc<dyn LockStore>,
    permits: Arc<RequestPermits>,
    concurrency: usize,
}

impl Collector {
    pub(crate) fn new(
        ports: &Ports,
        permits: Arc<RequestPermits>,
        concurrency: usize,
    ) -> Collector {
        Collector {
            lock_store: ports.lock_store.clone(),
            permits,
            concurrency,
        }
    }

    /// Reads the index of a batch; leaves out the seqs in `released`, which the index may still show.
    pub(crate) async fn read_index(
        &self,
        record: &BatchRecord,
        released: &SeqSet,
        budget: &Budget<'_>,
    ) -> Result<Result<Snapshot<IndexEntries>, String>, PortError> {
        let entries = Mutex::new(UnsortedEntries::default());
        let shards = (0..record.shards).map(|shard| BatchShard {
            batch: record.batch_id,
            shard,
        });
        let reads = shards
            .map(|shard| self.read_shard(shard, released, &entries, budget))
            .collect();
        let read = bounded(reads, self.concurrency).await.into_iter();
        read.collect::<Result<(), PortError>>()?;
        let entries = entries.into_inner();
        let entries = entries.unwrap_or_else(PoisonError::into_inner);
        Ok(entries.sorted(record))
    }

    async fn read_shard(
        &self,
        shard: BatchShard,
        released: &SeqSet,
        entries: &Mutex<UnsortedEntries>,
        budget: &Budget<'_>,
    ) -> Result<(), PortError> {
        let mut after: Option<IndexEntry> = None;
        loop {
            let read = || {
                let read = self.lock_store.index(shard, after.as_ref());
                self.permits.with(budget, read)
            };
            let page = budget.call(RetryPolicy::ITEMS, read).await?;
            let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
            for entry in page.entries {
                if !released.contains(entry.seq) {
                    entries.push(entry.seq, entry.event_id.as_str());
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Reads the next `entries` from the table; returns the live claims of `batch`, in seq order. Leaves out
    /// a claim that has another seat in the table than in the index; the index will show the other seat.
    pub(crate) async fn read(
        &self,
        batch: BatchId,
        entries: &mut IndexEntries,
        limits: ReadLimits,
        budget: &Budget<'_>,
    ) -> Result<Vec<StoredEvent>, PortError> {
        let bytes_max = limits.bytes_max;
        let progress = Mutex::new(Progress {
            // The entries of a large batch take memory too, so its parts are smaller, by a quarter at most:
            // with parts three quarters full, the largest batch still fits its parts.
            bytes_max: bytes_max
                .saturating_sub(entries.bytes())
                .max(bytes_max / 4 * 3),
            items_min: limits.items_min as u64,
            entries,
            in_flight: 0,
            read: 0,
            bytes: 0,
        });
        // A few readers take one piece after another. A future for each piece would take more memory, because a future
        // that waits has the size of one that runs, and there may be thousands of pieces.
        let readers = (0..BODY_READS_MAX.min(self.concurrency))
            .map(|_| self.read_pieces(batch, &progress, budget))
            .collect();
        let read = bounded(readers, self.concurrency).await.into_iter();
        let read: Result<Vec<Vec<StoredEvent>>, PortError> = read.collect();
        let mut events = joined(read?);
        events.sort_unstable_by_key(|event| event.seq);
        Ok(events)
    }

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
            let mut read =
                read_events(&*self.lock_store, &piece.ids, &self.permits, budget).await?;
            read.retain(|event| event.shard.batch == batch && piece.seqs.contains(event.seq));
            locked().arrived(piece.ids.len() as u64, &read);
            events.append(&mut read);
        }
    }
}

/// The progress of reading one part.
struct Progress<'a> {
    entries: &'a mut IndexEntries,
    /// Entries that were requested and have not arrived.
    in_flight: u64,
    /// Entries that have arrived.
    read: u64,
    /// The bytes of the events that have arrived.
    bytes: u64,
    bytes_max: u64,
    items_min: u64,
}

impl Progress<'_> {
    /// Returns the next piece, unless the entries that arrived or are in flight fill the part.
    fn next(&mut self) -> Option<Piece> {
        let size = match self.mean_bytes() {
            None => FIRST_PIECE,
            Some(mean) => {
                let is_full = self.bytes + self.in_flight * mean >= self.bytes_max;
                if is_full && self.read + self.in_flight >= self.items_min {
                    return None;
                }
                (PIECE_BYTES / mean).clamp(1, BATCH_GET_KEYS_MAX as u64) as usize
            }
        };
        if self.entries.is_empty() {
            return None;
        }
        let piece = self.entries.take(size);
        self.in_flight += piece.ids.len() as u64;
        Some(piece)
    }

    /// Returns the mean size of the entries that arrived.
    fn mean_bytes(&self) -> Option<u64> {
        (self.read > 0).then(|| (self.bytes / self.read).max(1))
    }

    fn arrived(&mut self, requested: u64, events: &[StoredEvent]) {
        self.in_flight -= requested;
        self.read += requested;
        self.bytes += events.iter().map(memory_bytes).sum::<u64>();
    }
}
