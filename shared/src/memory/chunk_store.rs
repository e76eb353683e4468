use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use protocol::bodies::Bodies;
use protocol::ids::ChunkId;
use protocol::time::Timestamp;

use super::locked::locked;
use crate::ports::{ChunkReply, ChunkStore, PortError};

/// The place and the name of a chunk.
type Name = (String, ChunkId);

/// The store of chunks, in memory.
#[derive(Debug, Default)]
pub struct MemoryChunkStore(Mutex<BTreeMap<Name, Arc<[u8]>>>);

impl MemoryChunkStore {
    pub fn new() -> MemoryChunkStore {
        MemoryChunkStore::default()
    }

    /// Returns the names of all stored chunks.
    pub fn ids(&self) -> Vec<ChunkId> {
        locked(&self.0).keys().map(|(_, chunk)| *chunk).collect()
    }

    /// Removes a chunk, as a bucket's rules may.
    pub fn remove(&self, chunk: ChunkId) {
        locked(&self.0).retain(|(_, stored), _| *stored != chunk);
    }
}

#[async_trait]
impl ChunkStore for MemoryChunkStore {
    async fn put(
        &self,
        bodies: &Bodies,
        chunk: ChunkId,
        bytes: &Arc<[u8]>,
        _: Timestamp,
    ) -> Result<ChunkReply, PortError> {
        let mut chunks = locked(&self.0);
        let name = (bodies.to_string(), chunk);
        if chunks.contains_key(&name) {
            return Ok(ChunkReply::Exists);
        }
        chunks.insert(name, bytes.clone());
        Ok(ChunkReply::Stored)
    }

    async fn get(&self, bodies: &Bodies, chunk: ChunkId) -> Result<Option<Arc<[u8]>>, PortError> {
        Ok(locked(&self.0).get(&(bodies.to_string(), chunk)).cloned())
    }
}
