//! Reads the events of a batch whose bodies are in chunks. The batch record says which seats have events, so neither the index
//! nor the lock table is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::batch::BatchRecord;
use protocol::ids::ChunkId;
use protocol::limits::{CHUNK_CALLS_MAX, CLAIM_OVERHEAD_BYTES};
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use shared::chunk::decode;
use shared::ports::{ChunkStore, Ports, StoredEvent};
use shared::retry::{Budget, RequestPermits, bounded};

use crate::collector::ReadLimits;
use crate::overflow_bodies::HandOverError;

/// Reads chunks.
pub(crate) struct ChunkReader {
    chunk_store: Arc<dyn ChunkStore>,
    permits: Arc<RequestPermits>,
}

impl ChunkReader {
    pub(crate) fn new(ports: &Ports, permits: Arc<RequestPermits>) -> ChunkReader {
        ChunkReader {
            chunk_store: ports.chunk_store.clone(),
            permits,
        }
    }

    /// Reads the events of the first `seqs`, which are counted or witnessed seats, and removes these from `seqs`. Reads whole
    /// chunks, one more than the limits say at most. Returns the events in seq order.
    ///
    /// # Errors
    /// [`HandOverError::Permanent`] if a chunk is missing or cannot be read.
    pub(crate) async fn read(
        &self,
        record: &BatchRecord,
        seqs: &mut SeqSet,
        limits: ReadLimits,
        budget: &Budget<'_>,
    ) -> Result<Vec<StoredEvent>, HandOverError> {
        let mut chunks = by_chunk(record, seqs)?.into_iter();
        let mut events: Vec<StoredEvent> = Vec::new();
        let (mut bytes, mut chunks_count) = (0, 0);
        loop {
            let is_full = bytes >= limits.bytes_max && events.len() >= limits.items_min;
            let mean = bytes / u64::max(chunks_count, 1);
            // The first chunk shows how large they are.
            let next_count = match mean {
                _ if is_full => 0,
                0 => 1,
                mean => (limits.bytes_max.saturating_sub(bytes) / mean)
                    .clamp(1, CHUNK_CALLS_MAX as u64) as usize,
            };
            let next: Vec<_> = chunks.by_ref().take(next_count).collect();
            if next.is_empty() {
                return Ok(events);
            }
            chunks_count += next.len() as u64;
            let reads = next
                .iter()
                .map(|(chunk, wanted)| self.read_chunk(record, *chunk, wanted, budget))
                .collect();
            for read in bounded(reads, CHUNK_CALLS_MAX).await {
                let read = read?;
                bytes += read
                    .iter()
                    .map(|event| (event.body.len() + CLAIM_OVERHEAD_BYTES) as u64)
                    .sum::<u64>();
                events.extend(read);
            }
            for (_, wanted) in &next {
                seqs.remove_from(wanted);
            }
        }
    }

    async fn read_chunk(
        &self,
        record: &BatchRecord,
        chunk: ChunkId,
        wanted: &SeqSet,
        budget: &Budget<'_>,
    ) -> Result<Vec<StoredEvent>, HandOverError> {
        let get = || {
            let get = self.chunk_store.get(&record.bodies, chunk);
            self.permits.with(budget, get)
        };
        let read = budget.call(RetryPolicy::ITEMS, get).await;
        let Some(bytes) = read.map_err(HandOverError::Service)? else {
            if planted(Bug::MissingChunkSkipped) {
                return Ok(Vec::new());
            }
            return Err(HandOverError::Permanent(format!(
                "chunk `{chunk}`: missing in `{}`: its {} events cannot be delivered",
                record.bodies,
                wanted.len()
            )));
        };
        decode(chunk, &bytes, wanted).map_err(|error| HandOverError::Permanent(error.to_string()))
    }
}

/// Returns the chunks of these seats in the order of their seqs, each with its seats.
fn by_chunk(
    record: &BatchRecord,
    seqs: &SeqSet,
) -> Result<BTreeMap<ChunkId, SeqSet>, HandOverError> {
    let mut chunks: BTreeMap<ChunkId, SeqSet> = BTreeMap::new();
    for seq in seqs.iter() {
        let chunk = record.chunk_of(seq).ok_or_else(|| {
            HandOverError::Permanent(format!(
                "batch record: seat {seq}: in no chunk: expected one that begins at or before it"
            ))
        })?;
        chunks.entry(chunk).or_default().insert(seq);
    }
    Ok(chunks)
}
