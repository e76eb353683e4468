use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use async_trait::async_trait;
use protocol::bodies::{Bodies, ObjectPlace};
use protocol::ids::{ObjectId, PieceId};
use protocol::time::Timestamp;

use crate::locked::locked;
use crate::ports::{ObjectReply, ObjectStore, Piece, PiecesRead, PortError};

/// The store of objects, in memory.
#[derive(Debug, Default)]
pub struct MemoryObjectStore {
    pieces: Mutex<BTreeMap<(ObjectPlace, PieceId), Piece>>,
    /// Objects that may not be read.
    denied: Mutex<BTreeSet<ObjectId>>,
    /// Objects whose reads are throttled.
    throttled: Mutex<BTreeSet<ObjectId>>,
}

impl MemoryObjectStore {
    pub fn new() -> MemoryObjectStore {
        MemoryObjectStore::default()
    }

    /// Returns the bytes of a whole object.
    pub fn bytes(&self, bodies: &Bodies, object: impl Into<ObjectId>) -> Option<Vec<u8>> {
        let object = object.into();
        let stored = locked(&self.pieces);
        bodies.places().into_iter().find_map(|place| {
            let piece = |index| stored.get(&(place.clone(), PieceId { object, index }));
            let pieces_count = piece(0)?.pieces_count;
            let bytes = |index| Some(piece(index)?.bytes.as_slice());
            let pieces: Option<Vec<&[u8]>> = (0..pieces_count).map(bytes).collect();
            Some(pieces?.concat())
        })
    }

    /// Refuses or permits reads of an object, as a bucket's policy may.
    pub fn deny(&self, object: impl Into<ObjectId>, is_denied: bool) {
        change(&self.denied, object.into(), is_denied);
    }

    /// Throttles reads of an object, or answers them again.
    pub fn throttle(&self, object: impl Into<ObjectId>, is_throttled: bool) {
        change(&self.throttled, object.into(), is_throttled);
    }

    /// Removes an object, as a bucket's rules may.
    pub fn remove(&self, object: impl Into<ObjectId>) {
        let object = object.into();
        locked(&self.pieces).retain(|(_, id), _| id.object != object);
    }
}

fn change(objects: &Mutex<BTreeSet<ObjectId>>, object: ObjectId, is_in: bool) {
    let mut objects = locked(objects);
    match is_in {
        true => objects.insert(object),
        false => objects.remove(&object),
    };
}

#[async_trait]
impl ObjectStore for MemoryObjectStore {
    async fn put(
        &self,
        place: &ObjectPlace,
        id: PieceId,
        piece: &Piece,
        _: Timestamp,
    ) -> Result<ObjectReply, PortError> {
        let mut pieces = locked(&self.pieces);
        let name = (place.clone(), id);
        if pieces.contains_key(&name) {
            return Ok(ObjectReply::Exists);
        }
        pieces.insert(name, piece.clone());
        Ok(ObjectReply::Stored)
    }

    async fn get(&self, place: &ObjectPlace, id: PieceId) -> Result<Option<Piece>, PortError> {
        if locked(&self.denied).contains(&id.object) {
            let message = format!("`{}`: access denied", id.object);
            return Err(PortError::refused("memory", message));
        }
        if locked(&self.throttled).contains(&id.object) {
            let message = format!("`{}`: slow down", id.object);
            return Err(PortError::throttled("memory", message));
        }
        Ok(locked(&self.pieces).get(&(place.clone(), id)).cloned())
    }

    async fn get_from_table(&self, ids: &[PieceId]) -> Result<PiecesRead, PortError> {
        let mut read = PiecesRead::new();
        for id in ids {
            read.insert(*id, self.get(&ObjectPlace::Table, *id).await?);
        }
        Ok(read)
    }
}
