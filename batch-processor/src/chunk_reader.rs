//! Reads the events of a batch whose bodies are in chunks. The batch record says which seats have events, so neither the index
//! nor the lock table is read.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::batch::BatchRecord;
use protocol::ids::ChunkId;
use protocol::limits::{CHUNK_CALLS_MAX, CHUNK_RETENTION};
use protocol::seqs::SeqSet;
use shared::chunk::decode;
use shared::ports::{ChunkStore, PortError, Ports, StoredEvent};
use shared::retry::{Budget, RequestPermits, bounded, read_chunk};

use crate::reading::{HandOverError, LostChunk, ReadEvents, ReadLimits, memory_bytes};

/// Events of a batch of chunks that must still be read.
#[derive(Debug, Default)]
pub(crate) struct UnreadChunks {
    /// The seats of events whose chunks are still to be read.
    seqs: SeqSet,
    /// Events of chunks that were read, beyond what was asked for.
    read_ahead: VecDeque<StoredEvent>,
}

impl UnreadChunks {
    /// Returns the events of these seats, which are counted or witnessed.
    pub(crate) fn of(seqs: SeqSet) -> UnreadChunks {
        UnreadChunks {
            seqs,
            read_ahead: VecDeque::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seqs.is_empty() && self.read_ahead.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.seqs.len() as usize + self.read_ahead.len()
    }
}

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

    /// Reads the next events of `unread`, as many as the limits say. Reads whole chunks, up to [`CHUNK_CALLS_MAX`] at
    /// once, and keeps the events beyond the limits in `unread`. A chunk that could not be read stays in `unread`, and the
    /// chunks after it are read all the same.
    pub(crate) async fn read(
        &self,
        record: &BatchRecord,
        unread: &mut UnreadChunks,
        limits: ReadLimits,
        budget: &Budget<'_>,
    ) -> ReadEvents {
        let mut read = ReadEvents::default();
        let mut chunks = match record.chunks_of(&unread.seqs) {
            Ok(chunks) => chunks.into_iter(),
            Err(seq) => {
                read.failed = Some(HandOverError::Permanent(format!(
                    "batch record: seat {seq}: in no chunk: expected one that begins at or before it"
                )));
                return read;
            }
        };
        let (mut bytes, mut chunk_bytes, mut chunks_count) = (0, 0, 0);
        loop {
            let is_full =
                |bytes, events: &[_]| bytes >= limits.bytes_max && events.len() >= limits.items_min;
            while !is_full(bytes, &read.events)
                && let Some(event) = unread.read_ahead.pop_front()
            {
                bytes += memory_bytes(&event);
                read.events.push(event);
            }
            if is_full(bytes, &read.events) {
                return read;
            }
            let bytes_left = limits.bytes_max.saturating_sub(bytes);
            let next_count = chunks_in(bytes_left, chunk_bytes / u64::max(chunks_count, 1));
            let next: Vec<_> = chunks.by_ref().take(next_count).collect();
            if next.is_empty() {
                return read;
            }
            let reads = next
                .iter()
                .map(|(chunk, wanted)| self.read_chunk(record, *chunk, wanted, budget))
                .collect();
            for (wanted, result) in bounded(reads, CHUNK_CALLS_MAX).await {
                match result {
                    Ok((events, lost)) => {
                        chunks_count += 1;
                        chunk_bytes += events.iter().map(memory_bytes).sum::<u64>();
                        unread.seqs.remove_from(wanted);
                        unread.read_ahead.extend(events);
                        read.lost.extend(lost);
                    }
                    Err(error) => read.failed = Some(error),
                }
            }
            // Chunks arrive in any order.
            let read_ahead = unread.read_ahead.make_contiguous();
            read_ahead.sort_unstable_by_key(|event| event.seq);
        }
    }

    /// Returns what could be read of a chunk and what is lost, with `wanted`; the error, if another attempt may succeed.
    async fn read_chunk<'a>(
        &self,
        record: &BatchRecord,
        chunk: ChunkId,
        wanted: &'a SeqSet,
        budget: &Budget<'_>,
    ) -> (
        &'a SeqSet,
        Result<(Vec<StoredEvent>, Option<LostChunk>), HandOverError>,
    ) {
        let lost = |seqs: SeqSet, problem: String| LostChunk {
            chunk,
            seqs,
            problem,
        };
        let nothing = |problem| Ok((Vec::new(), Some(lost(wanted.clone(), problem))));
        let store = &*self.chunk_store;
        let bytes = read_chunk(store, &record.bodies, chunk, &self.permits, budget);
        let read = match bytes.await {
            Ok(Some(bytes)) => {
                let decoded = decode(chunk, &bytes, wanted);
                let mut missing = wanted.clone();
                let found = decoded.events.iter().map(|event| event.seq).collect();
                missing.remove_from(&found);
                let problem = decoded.problem.map(|problem| problem.to_string());
                let problem = problem.map(|problem| lost(missing, problem));
                Ok((decoded.events, problem))
            }
            Ok(None) => nothing(format!("chunk `{chunk}`: missing in `{}`", record.bodies)),
            // The service may have removed it by now, and only says that it must not be read.
            Err(error @ PortError::Refused { .. })
                if record.created_at + CHUNK_RETENTION <= budget.clock.now() =>
            {
                nothing(format!("chunk `{chunk}`: {error}"))
            }
            Err(error @ PortError::Refused { .. }) => {
                Err(HandOverError::Permanent(error.to_string()))
            }
            Err(error) => Err(HandOverError::Service(error)),
        };
        (wanted, read)
    }
}

/// Returns how many chunks to read at once, to get `bytes` of events. The first chunk shows how large they are.
fn chunks_in(bytes: u64, chunk_bytes_mean: u64) -> usize {
    match chunk_bytes_mean {
        0 => 1,
        mean => (bytes / mean).clamp(1, CHUNK_CALLS_MAX as u64) as usize,
    }
}
