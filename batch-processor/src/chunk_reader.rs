//! Reads the events of a batch whose bodies are in chunks. The batch record says which seats have events, so neither the index
//! nor the lock table is read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use protocol::batch::BatchRecord;
use protocol::ids::ChunkId;
use protocol::limits::{CHUNK_CALLS_MAX, CLAIM_OVERHEAD_BYTES};
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use shared::chunk::decode;
use shared::ports::{ChunkStore, PortError, Ports, StoredEvent};
use shared::retry::{Budget, RequestPermits, bounded};

use crate::collector::ReadLimits;
use crate::overflow_bodies::HandOverError;

/// Events that were read, in seq order.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) events: Vec<StoredEvent>,
    pub(crate) lost: Vec<LostChunk>,
}

/// A chunk that is missing or cannot be decoded, so that no retry can bring its events back.
#[derive(Debug)]
pub(crate) struct LostChunk {
    pub(crate) chunk: ChunkId,
    /// The seats whose events were wanted.
    pub(crate) seqs: SeqSet,
    pub(crate) problem: String,
}

impl fmt::Display for LostChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostChunk { seqs, problem, .. } = self;
        let first: Vec<String> = seqs
            .iter()
            .take(SEATS_NAMED_MAX)
            .map(|seq| seq.to_string())
            .collect();
        let (count, first) = (seqs.len(), first.join(", "));
        let more = if count > SEATS_NAMED_MAX as u64 {
            ", …"
        } else {
            ""
        };
        write!(
            f,
            "{problem}: lost are the {count} events in the seats {first}{more}"
        )
    }
}

impl Read {
    /// Returns the seats of all events, with the lost ones.
    pub(crate) fn seqs(&self) -> SeqSet {
        let mut seqs: SeqSet = self.events.iter().map(|event| event.seq).collect();
        self.lost
            .iter()
            .for_each(|lost| seqs.extend_from(&lost.seqs));
        seqs
    }
}

/// Seats of a lost chunk that a message names.
const SEATS_NAMED_MAX: usize = 50;

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
    /// chunks, one more than the limits say at most.
    pub(crate) async fn read(
        &self,
        record: &BatchRecord,
        seqs: &mut SeqSet,
        limits: ReadLimits,
        budget: &Budget<'_>,
    ) -> Result<Read, HandOverError> {
        let mut chunks = by_chunk(record, seqs)?.into_iter();
        let mut read = Read::default();
        let (mut bytes, mut chunks_count) = (0, 0);
        loop {
            let is_full = bytes >= limits.bytes_max && read.events.len() >= limits.items_min;
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
                return Ok(read);
            }
            chunks_count += next.len() as u64;
            let reads = next
                .iter()
                .map(|(chunk, wanted)| self.read_chunk(record, *chunk, wanted, budget))
                .collect();
            let events_before = read.events.len();
            for chunk in bounded(reads, CHUNK_CALLS_MAX).await {
                match chunk? {
                    Ok(events) => {
                        bytes += events
                            .iter()
                            .map(|event| (event.body.len() + CLAIM_OVERHEAD_BYTES) as u64)
                            .sum::<u64>();
                        read.events.extend(events);
                    }
                    Err(lost) => read.lost.push(lost),
                }
            }
            // Chunks arrive in any order.
            read.events[events_before..].sort_unstable_by_key(|event| event.seq);
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
    ) -> Result<Result<Vec<StoredEvent>, LostChunk>, HandOverError> {
        let get = || {
            let get = self.chunk_store.get(&record.bodies, chunk);
            self.permits.with(budget, get)
        };
        let lost = |problem: String| LostChunk {
            chunk,
            seqs: wanted.clone(),
            problem,
        };
        let bytes = match budget.call(RetryPolicy::ITEMS, get).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) if planted(Bug::MissingChunkSkipped) => return Ok(Ok(Vec::new())),
            Ok(None) => {
                let place = &record.bodies;
                return Ok(Err(lost(format!("chunk `{chunk}`: missing in `{place}`"))));
            }
            Err(error @ PortError::Refused { .. }) => {
                return Err(HandOverError::Permanent(error.to_string()));
            }
            Err(error) => return Err(HandOverError::Service(error)),
        };
        Ok(decode(chunk, &bytes, wanted).map_err(|error| lost(error.to_string())))
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
