//! The store of objects.

use std::collections::BTreeMap;
use std::ops::Range;

use async_trait::async_trait;
use protocol::bodies::{ObjectPlace, S3Prefix};
use protocol::ids::{ObjectId, PieceId};
use protocol::time::Timestamp;

use super::error::PortError;

/// The result of storing a piece of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectReply {
    Stored,
    /// A piece of this name exists. If an earlier request of the caller had no reply, it is that request's piece; otherwise
    /// it is another's.
    Exists,
}

/// A stored piece of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub bytes: Vec<u8>,
    /// How many pieces the object has; only its first piece says so.
    pub pieces_count: u32,
}

/// The pieces that a request has read, and `None` for those that do not exist.
pub type PiecesRead = BTreeMap<PieceId, Option<Piece>>;

/// The store of objects, which are stored once and never change: loads, slots, runs and lists of runs, in one piece or in several.
///
/// The first piece must be stored last. Where it exists, the object is whole.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Stores a piece in `place`, if there is none of this name. DynamoDB or S3 may remove it after `expires_at`.
    async fn put(
        &self,
        place: &ObjectPlace,
        id: PieceId,
        piece: &Piece,
        expires_at: Timestamp,
    ) -> Result<ObjectReply, PortError>;

    /// Reads a piece with strong consistency; returns `None` when there is none. An error may mean that the caller has no
    /// permission: only `None` is certain.
    async fn get(&self, place: &ObjectPlace, id: PieceId) -> Result<Option<Piece>, PortError>;

    /// Reads pieces in the table by one request, at most [`BATCH_GET_KEYS_MAX`](protocol::limits::BATCH_GET_KEYS_MAX), with strong
    /// consistency. Returns `None` for a piece that there is none of, and nothing for one that was not read; at least one was.
    async fn get_from_table(&self, ids: &[PieceId]) -> Result<PiecesRead, PortError>;

    /// Reads bytes of an object in S3, which is in one piece: those of `range` that it has. The rest is as for [`ObjectStore::get`].
    ///
    /// By default it reads the whole object.
    async fn get_range(
        &self,
        place: &S3Prefix,
        object: ObjectId,
        range: &Range<u64>,
    ) -> Result<Option<Vec<u8>>, PortError> {
        let (place, id) = (ObjectPlace::S3(place.clone()), PieceId { object, index: 0 });
        let piece = self.get(&place, id).await?;
        Ok(piece.map(|piece| in_range(&piece.bytes, range)))
    }
}

/// Returns those of `bytes` that are in `range`.
pub fn in_range(bytes: &[u8], range: &Range<u64>) -> Vec<u8> {
    let [start, end] = [range.start, range.end].map(|at| (at as usize).min(bytes.len()));
    bytes[start.min(end)..end].to_vec()
}
