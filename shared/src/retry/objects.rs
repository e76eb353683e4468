//! Reads and writes of objects, piece by piece.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use protocol::bodies::{Bodies, ObjectPlace, ObjectSizes};
use protocol::ids::{ObjectId, PieceId};
use protocol::limits::SMALL_OBJECT_BYTES_MAX;
use protocol::retry::RetryPolicy;

use super::budget::Budget;
use super::permits::RequestPermits;
use crate::ports::{ObjectReply, ObjectStore, Piece, PortError, in_range};

/// Why an object is not known to be stored.
#[derive(Debug, thiserror::Error)]
pub enum NotStored {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("piece `{0}`: exists, and is not of this invocation")]
    Exists(PieceId),
}

/// Where objects go, and for how long.
#[derive(Clone, Debug)]
pub struct ObjectRules {
    pub bodies: Bodies,
    pub sizes: ObjectSizes,
    /// How long an object is kept.
    pub retention: Duration,
}

/// Stores the pieces of an object whose name is new, the first one last. A retry sends the same bytes.
///
/// # Errors
/// As [`Budget::call`], and [`NotStored::Exists`] if another has stored an object of this name.
pub async fn store_object(
    store: &dyn ObjectStore,
    rules: &ObjectRules,
    object: impl Into<ObjectId>,
    bytes: &[u8],
    permits: &RequestPermits,
    budget: &Budget<'_>,
) -> Result<(), NotStored> {
    let object = object.into();
    let place = rules.bodies.place_of_object(bytes.len(), rules.sizes);
    let expires_at = budget.clock.now() + rules.retention;
    let pieces = place.pieces(bytes, rules.sizes);
    let pieces_count = pieces.len() as u32;
    for (index, piece) in (0..pieces_count).zip(pieces).rev() {
        let id = PieceId { object, index };
        let piece = Piece {
            bytes: piece.to_vec(),
            pieces_count,
        };
        let unanswered = AtomicBool::new(false);
        let put = || async {
            let put = store.put(&place, id, &piece, expires_at);
            let reply = permits.with(budget, put).await;
            if let Err(PortError::Unknown { .. }) = &reply {
                unanswered.store(true, Ordering::Relaxed);
            }
            reply
        };
        match budget.call(RetryPolicy::ITEMS, put).await? {
            ObjectReply::Stored => {}
            // An earlier attempt of ours, whose reply was lost.
            ObjectReply::Exists if unanswered.into_inner() => {}
            ObjectReply::Exists => return Err(NotStored::Exists(id)),
        }
    }
    Ok(())
}

/// Returns the bytes of an object that belongs to `bodies`; `None` when the object, or a piece of it, is missing.
///
/// # Errors
/// As [`Budget::call`].
pub async fn read_object(
    store: &dyn ObjectStore,
    bodies: &Bodies,
    object: impl Into<ObjectId>,
    permits: &RequestPermits,
    budget: &Budget<'_>,
) -> Result<Option<Vec<u8>>, PortError> {
    let object = object.into();
    for place in &bodies.places() {
        let read = read_in(store, place, object, permits, budget).await?;
        if read.is_some() {
            return Ok(read);
        }
    }
    Ok(None)
}

/// Returns those bytes of an object that are in `range`. Only they are read of an object in S3, and all of another.
///
/// # Errors
/// As [`Budget::call`].
pub async fn read_range(
    store: &dyn ObjectStore,
    bodies: &Bodies,
    object: ObjectId,
    range: &Range<u64>,
    permits: &RequestPermits,
    budget: &Budget<'_>,
) -> Result<Option<Vec<u8>>, PortError> {
    let mut places = bodies.places();
    // So large an object is not in the table, unless another version put it there.
    if range.end > SMALL_OBJECT_BYTES_MAX as u64 {
        places.reverse();
    }
    for place in places {
        let read = match place {
            ObjectPlace::Table => {
                let read = read_in(store, &place, object, permits, budget).await?;
                read.map(|bytes| in_range(&bytes, range))
            }
            ObjectPlace::S3(place) => {
                let get = || permits.with(budget, store.get_range(&place, object, range));
                budget.call(RetryPolicy::ITEMS, get).await?
            }
        };
        if read.is_some() {
            return Ok(read);
        }
    }
    Ok(None)
}

/// Returns the bytes of an object in one place; `None` when it, or a piece of it, is missing.
async fn read_in(
    store: &dyn ObjectStore,
    place: &ObjectPlace,
    object: ObjectId,
    permits: &RequestPermits,
    budget: &Budget<'_>,
) -> Result<Option<Vec<u8>>, PortError> {
    let piece = |index| async move {
        let get = || permits.with(budget, store.get(place, PieceId { object, index }));
        budget.call(RetryPolicy::ITEMS, get).await
    };
    let Some(first) = piece(0).await? else {
        return Ok(None);
    };
    let mut bytes = first.bytes;
    for index in 1..first.pieces_count {
        match piece(index).await? {
            Some(piece) => bytes.extend(piece.bytes),
            None => return Ok(None),
        }
    }
    Ok(Some(bytes))
}
