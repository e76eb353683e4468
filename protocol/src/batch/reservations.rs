//! The reservations in a batch: the seats and slots that were given out, and whether it is known what became of them.

use crate::ids::Seq;
use crate::limits::SLOTS_MAX;
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// The reservations in a batch. A batch that a version before 0.3 opened has none: one environment gave out its seats.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reservations {
    /// Number of seqs that were reserved, which is the next seq.
    pub reserved: u64,
    /// Bytes of the bodies that were reserved for.
    pub reserved_bytes: u64,
    /// Number of slots: one for each reservation.
    pub slots: u32,
    /// When the last reservation was made.
    pub last_at: Timestamp,
    /// Until when the writer of the last reservation may fill its slot. Before that, an empty slot gets no hole. Nothing but the size of parts
    /// depends on it.
    pub busy_until: Timestamp,
    /// Present once all slots are read: the counts of the claims are final, or the lines of the log are decided and committed.
    pub resolution: Option<Resolution>,
}

/// The losing lines of a batch of the log, by reason. All other losing lines were redelivered. The winners are in the record's `claimed`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolution {
    pub duplicates: SeqSet,
    pub conflicts: SeqSet,
    pub beyond_quota: SeqSet,
    /// Whether these lines were reported; always, if the batch has claims.
    pub is_reported: bool,
}

impl Resolution {
    /// Returns the losing lines that go to the quarantine.
    pub fn quarantined(&self) -> SeqSet {
        self.conflicts.union(&self.beyond_quota)
    }
}

/// How much one batch may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Seats: one for each claim attempt or line.
    pub items_max: u64,
    /// Bytes of all bodies. A body that exceeds it by itself fits any batch with a free seat, and fills it.
    pub bytes_max: u64,
}

/// A request for seats and a slot in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub seats: u64,
    pub bytes: u64,
    pub at: Timestamp,
    /// Until when the writer may fill the slot.
    pub until: Timestamp,
    pub limits: BatchLimits,
}

/// The slot and the seats of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The number of the slot.
    pub slot: u32,
    pub first_seq: Seq,
}

impl Reservation {
    /// Returns whether it is for one body that is larger than a whole batch.
    pub fn is_oversized(&self) -> bool {
        self.seats == 1 && self.bytes > self.limits.bytes_max
    }
}

impl Reservations {
    /// Returns whether a reservation fits.
    pub fn has_room(&self, wanted: &Reservation) -> bool {
        let BatchLimits {
            items_max,
            bytes_max,
        } = wanted.limits;
        let fits_bytes = wanted.is_oversized() || self.reserved_bytes + wanted.bytes <= bytes_max;
        self.slots < SLOTS_MAX && self.reserved + wanted.seats <= items_max && fits_bytes
    }

    /// Returns how many of the first bodies, of these sizes in bytes, fit.
    pub fn room(&self, sizes: impl IntoIterator<Item = u64>, limits: BatchLimits) -> usize {
        let mut wanted = Reservation {
            seats: 0,
            bytes: 0,
            at: Timestamp::EPOCH,
            until: Timestamp::EPOCH,
            limits,
        };
        let fit = sizes.into_iter().take_while(|bytes| {
            wanted.seats += 1;
            wanted.bytes += bytes;
            self.has_room(&wanted)
        });
        fit.count()
    }
}
