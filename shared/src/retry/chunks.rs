//! Reads of chunks, piece by piece.

use protocol::bodies::{Bodies, ChunkPlace};
use protocol::ids::{ChunkId, PieceId};
use protocol::retry::RetryPolicy;

use super::budget::Budget;
use super::permits::RequestPermits;
use crate::ports::{ChunkStore, Piece, PortError};

/// Returns the bytes of a chunk of a batch with these `bodies`; `None` when the chunk, or a piece of it, is missing.
///
/// # Errors
/// As [`Budget::call`].
pub async fn read_chunk(
    store: &dyn ChunkStore,
    bodies: &Bodies,
    chunk: ChunkId,
    permits: &RequestPermits,
    budget: &Budget<'_>,
) -> Result<Option<Vec<u8>>, PortError> {
    let piece = |place, index| read_piece(store, place, PieceId { chunk, index }, permits, budget);
    for place in &bodies.places() {
        let Some(first) = piece(place, 0).await? else {
            continue;
        };
        let mut bytes = first.bytes;
        for index in 1..first.pieces_count {
            match piece(place, index).await? {
                Some(piece) => bytes.extend(piece.bytes),
                None => return Ok(None),
            }
        }
        return Ok(Some(bytes));
    }
    Ok(None)
}

async fn read_piece(
    store: &dyn ChunkStore,
    place: &ChunkPlace,
    id: PieceId,
    permits: &RequestPermits,
    budget: &Budget<'_>,
) -> Result<Option<Piece>, PortError> {
    let get = || permits.with(budget, store.get(place, id));
    budget.call(RetryPolicy::ITEMS, get).await
}
