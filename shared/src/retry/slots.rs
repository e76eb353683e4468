//! Slots of batches: an item of the batch table each, put once.

use std::time::Duration;

use protocol::batch::BatchRecord;
use protocol::bodies::ObjectPlace;
use protocol::ids::{ObjectId, PieceId, SlotId};
use protocol::limits::{
    BATCH_GET_KEYS_MAX, CLAIMS_WAIT_MAX, HOLES_UNTIL, LOG_RETENTION, SLOT_CALLS_MAX,
};
use protocol::retry::RetryPolicy;
use protocol::slot::{Put, Slot, empty_slots, put_again};
use protocol::time::Timestamp;

use super::budget::{Budget, bounded};
use super::permits::RequestPermits;
use crate::ports::{ObjectReply, ObjectStore, Piece, PortError};

/// How often the closer of a batch looks for the values of empty slots.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Reads and puts slots.
#[derive(Clone, Copy)]
pub struct Slots<'a> {
    pub store: &'a dyn ObjectStore,
    pub permits: &'a RequestPermits,
    pub budget: &'a Budget<'a>,
}

impl Slots<'_> {
    /// Fills the slot of a reservation. Returns whether it has this value; if not, it has another one and always will.
    ///
    /// # Errors
    /// [`PortError`] if that is not known. The messages must come back then.
    pub async fn fill(&self, slot: SlotId, value: &Slot) -> Result<bool, PortError> {
        let mut attempt = 0;
        loop {
            match self.put(slot, value).await {
                Ok(ObjectReply::Stored) => return Ok(true),
                // Somebody has put a value: the closer of the batch, or an attempt of ours whose reply was lost.
                Ok(ObjectReply::Exists) | Err(PortError::Unknown { .. }) => {
                    let found = self.read(slot).await?;
                    match put_again(value, found.as_ref()) {
                        Put::Stored => return Ok(true),
                        Put::Lost => return Ok(false),
                        Put::Again => {}
                    }
                }
                Err(error) if error.retryable() => {}
                Err(error) => return Err(error),
            }
            self.budget.next_attempt(&mut attempt).await?;
        }
    }

    /// Returns the values of all slots of a batch that takes no reservations any more. Waits until no writer should fill a slot any more, and
    /// then puts a hole into each that is empty. A slot of the log that is empty [`HOLES_UNTIL`] after the batch was opened has lost its value,
    /// and gets none.
    ///
    /// # Errors
    /// [`PortError`] if some slot is not known to have a value.
    pub async fn close(&self, record: &BatchRecord) -> Result<Vec<Option<Slot>>, PortError> {
        let batch = record.batch_id;
        let slot = |number| SlotId { batch, number };
        let mut slots = self.values(record).await?;
        let now = self.budget.clock.now();
        if record.bodies.is_log() && record.created_at + HOLES_UNTIL <= now {
            return Ok(slots);
        }
        let reservations = record.reservations.as_ref();
        let busy_until = reservations.map_or(Timestamp::EPOCH, |one| one.busy_until);
        // The clock of the writer may be wrong.
        let waits_until = busy_until.min(now + CLAIMS_WAIT_MAX);
        loop {
            let empty = empty_slots(&slots);
            if empty.is_empty() {
                break;
            }
            let waits = self.wait(waits_until).await;
            let empty: Vec<SlotId> = empty.into_iter().map(slot).collect();
            let found = match waits {
                true => self.read_all(empty.clone()).await?,
                false => {
                    let holes = empty.iter().map(|slot| self.put_hole(*slot)).collect();
                    let put = in_order(bounded(holes, SLOT_CALLS_MAX).await);
                    put.into_iter().collect::<Result<_, _>>()?
                }
            };
            for (slot, value) in empty.into_iter().zip(found) {
                slots[slot.number as usize] = value;
            }
        }
        Ok(slots)
    }

    /// Returns the values that the slots of a batch have now.
    ///
    /// # Errors
    /// [`PortError`] if a slot cannot be read.
    pub async fn values(&self, record: &BatchRecord) -> Result<Vec<Option<Slot>>, PortError> {
        let batch = record.batch_id;
        let slot = |number| SlotId { batch, number };
        let count = record.reservations.as_ref().map_or(0, |one| one.slots);
        self.read_all((0..count).map(slot).collect()).await
    }

    /// Waits until the next look; returns whether there is another one.
    async fn wait(&self, until: Timestamp) -> bool {
        let clock = self.budget.clock;
        if clock.now() >= until || !self.budget.has_time() {
            return false;
        }
        clock.sleep(LOOK_EVERY).await;
        true
    }

    /// Puts a hole into an empty slot. Returns the value that the slot has then.
    async fn put_hole(&self, slot: SlotId) -> (u32, Result<Option<Slot>, PortError>) {
        let put = async {
            match self.fill(slot, &Slot::Hole).await? {
                true => Ok(Some(Slot::Hole)),
                false => self.read(slot).await,
            }
        };
        (slot.number, put.await)
    }

    async fn read_all(&self, slots: Vec<SlotId>) -> Result<Vec<Option<Slot>>, PortError> {
        let reads = slots.chunks(BATCH_GET_KEYS_MAX);
        let reads = reads.map(|slots| self.read_some(slots)).collect();
        let read: Result<Vec<_>, PortError> =
            bounded(reads, SLOT_CALLS_MAX).await.into_iter().collect();
        Ok(in_order(read?.concat()))
    }

    /// Returns the values of slots, each with its number.
    async fn read_some(&self, slots: &[SlotId]) -> Result<Vec<(u32, Option<Slot>)>, PortError> {
        let mut unread = Vec::from(slots);
        let mut values = Vec::with_capacity(slots.len());
        let mut attempt = 0;
        loop {
            let pieces: Vec<PieceId> = unread.iter().copied().map(piece_of).collect();
            let get = || {
                self.permits
                    .with(self.budget, self.store.get_from_table(&pieces))
            };
            let mut read = self.budget.call(RetryPolicy::ITEMS, get).await?;
            let mut left = Vec::new();
            for slot in unread {
                match read.remove(&piece_of(slot)) {
                    Some(piece) => values.push((slot.number, value_of(slot, piece)?)),
                    None => left.push(slot),
                }
            }
            if left.is_empty() {
                return Ok(values);
            }
            unread = left;
            self.budget.next_attempt(&mut attempt).await?;
        }
    }

    async fn put(&self, slot: SlotId, value: &Slot) -> Result<ObjectReply, PortError> {
        let bytes = serde_json::to_vec(value).expect("texts and numbers can be written as JSON");
        let piece = Piece {
            bytes,
            pieces_count: 1,
        };
        let expires_at = self.budget.clock.now() + LOG_RETENTION;
        let put = self
            .store
            .put(&ObjectPlace::Table, piece_of(slot), &piece, expires_at);
        self.permits.with(self.budget, put).await
    }

    async fn read(&self, slot: SlotId) -> Result<Option<Slot>, PortError> {
        let get = || {
            let get = self.store.get(&ObjectPlace::Table, piece_of(slot));
            self.permits.with(self.budget, get)
        };
        let piece = self.budget.call(RetryPolicy::ITEMS, get).await?;
        value_of(slot, piece)
    }
}

fn value_of(slot: SlotId, piece: Option<Piece>) -> Result<Option<Slot>, PortError> {
    let Some(piece) = piece else {
        return Ok(None);
    };
    let value = serde_json::from_slice(&piece.bytes).map(Some);
    value.map_err(|error| {
        PortError::refused("DynamoDB", format!("slot `{slot}`: not a slot: {error}"))
    })
}

fn piece_of(slot: SlotId) -> PieceId {
    PieceId {
        object: ObjectId::Slot(slot),
        index: 0,
    }
}

/// Returns values in the order of their numbers.
fn in_order<T>(mut numbered: Vec<(u32, T)>) -> Vec<T> {
    numbered.sort_unstable_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, value)| value).collect()
}
