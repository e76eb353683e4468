//! Reads events whose bodies are in chunks.

use protocol::batch::BatchRecord;
use protocol::seqs::SeqSet;
use shared::chunk::decode;
use shared::ports::StoredEvent;
use shared::retry::read_object;

use crate::failure::Failure;
use crate::service::Service;

/// Reads the events in these seats of a batch of chunks, in seq order.
///
/// # Errors
/// [`Failure::Refused`] if a chunk is missing or damaged.
pub async fn events_of(
    service: &Service,
    record: &BatchRecord,
    seqs: &SeqSet,
) -> Result<Vec<StoredEvent>, Failure> {
    let chunks = record.chunks_of(seqs).map_err(|seq| {
        let id = record.batch_id;
        Failure::Refused(format!("batch `{id}`: seat {seq} is in no chunk"))
    })?;
    let mut events = Vec::with_capacity(seqs.len() as usize);
    for (chunk, wanted) in chunks {
        let budget = service.budget();
        let store = &*service.chunk_store;
        let bytes = read_object(store, &record.bodies, chunk, &service.permits, &budget).await?;
        let bytes = bytes.ok_or_else(|| {
            let place = &record.bodies;
            Failure::Refused(format!(
                "chunk `{chunk}`: missing in `{place}`; chunks are kept for 30 days"
            ))
        })?;
        let decoded = decode(chunk, &bytes, &wanted);
        if let Some(problem) = decoded.problem {
            return Err(Failure::Refused(problem.to_string()));
        }
        events.extend(decoded.events);
    }
    events.sort_unstable_by_key(|event| event.seq);
    Ok(events)
}
