use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use protocol::bodies::{Bodies, ChunkPlace};
use protocol::ids::{ChunkId, PieceId};
use protocol::time::Timestamp;

use super::locked::locked;
use crate::ports::{ChunkReply, ChunkStore, Piece, PortError};

/// The store of chunks, in memory.
#[derive(Debug, Default)]
pub struct MemoryChunkStore(Mutex<BTreeMap<(ChunkPlace, PieceId), Piece>>);

impl MemoryChunkStore {
    pub fn new() -> MemoryChunkStore {
        MemoryChunkStore::default()
    }

    /// Returns the names of all chunks that are whole.
    pub fn ids(&self) -> Vec<ChunkId> {
        let pieces = locked(&self.0);
        let first = pieces.keys().filter(|(_, id)| id.index == 0);
        first.map(|(_, id)| id.chunk).collect()
    }

    /// Stores a whole chunk in one piece: where it is, if it is there already, otherwise in the table.
    pub fn insert(&self, chunk: ChunkId, bytes: &[u8]) {
        let mut pieces = locked(&self.0);
        let stored = pieces.keys().find(|(_, id)| id.chunk == chunk);
        let place = stored.map_or(ChunkPlace::Table, |(place, _)| place.clone());
        pieces.retain(|(_, id), _| id.chunk != chunk);
        let piece = Piece {
            bytes: bytes.to_vec(),
            pieces_count: 1,
        };
        pieces.insert((place, PieceId { chunk, index: 0 }), piece);
    }

    /// Returns the bytes of a whole chunk.
    pub fn bytes(&self, bodies: &Bodies, chunk: ChunkId) -> Option<Vec<u8>> {
        let stored = locked(&self.0);
        bodies.places().into_iter().find_map(|place| {
            let piece = |index| stored.get(&(place.clone(), PieceId { chunk, index }));
            let pieces_count = piece(0)?.pieces_count;
            let pieces: Option<Vec<&[u8]>> = (0..pieces_count)
                .map(|index| Some(&*piece(index)?.bytes))
                .collect();
            Some(pieces?.concat())
        })
    }

    /// Removes a chunk, as a bucket's rules may.
    pub fn remove(&self, chunk: ChunkId) {
        locked(&self.0).retain(|(_, id), _| id.chunk != chunk);
    }
}

#[async_trait]
impl ChunkStore for MemoryChunkStore {
    async fn put(
        &self,
        place: &ChunkPlace,
        id: PieceId,
        piece: &Piece,
        _: Timestamp,
    ) -> Result<ChunkReply, PortError> {
        let mut pieces = locked(&self.0);
        let name = (place.clone(), id);
        if pieces.contains_key(&name) {
            return Ok(ChunkReply::Exists);
        }
        pieces.insert(name, piece.clone());
        Ok(ChunkReply::Stored)
    }

    async fn get(&self, place: &ChunkPlace, id: PieceId) -> Result<Option<Piece>, PortError> {
        Ok(locked(&self.0).get(&(place.clone(), id)).cloned())
    }
}
