//! Fields that only the record of a batch of the log has: its reservations, and the decisions about its lines.

use crate::ids::Seq;
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// The reservations and decisions of a batch of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogState {
    /// Number of seqs that were reserved, which is the next seq.
    pub reserved: u64,
    /// Bytes of the bodies that were reserved for.
    pub reserved_bytes: u64,
    /// Number of slots: one for each reservation.
    pub slots: u32,
    /// When the last reservation was made.
    pub last_at: Timestamp,
    /// Present once the lines are decided and committed. The winners are in the record's `claimed`.
    pub resolution: Option<LogResolution>,
}

/// The losing lines of a batch, by reason. All other losing lines were redelivered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogResolution {
    pub duplicates: SeqSet,
    pub conflicts: SeqSet,
    /// Whether the reports of duplicates and conflicts were sent.
    pub is_reported: bool,
}

/// How much one batch of the log may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    pub lines_max: u64,
    /// Bytes of all bodies. A batch without lines takes one of any size.
    pub bytes_max: u64,
}

/// A request for seats and a slot in a batch of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub lines: u64,
    pub bytes: u64,
    pub at: Timestamp,
    pub limits: LogLimits,
}

/// The slot and the seats of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The number of the slot.
    pub slot: u32,
    pub first_seq: Seq,
}

impl LogState {
    /// Returns whether a reservation fits.
    pub fn has_room(&self, wanted: &Reservation) -> bool {
        let LogLimits {
            lines_max,
            bytes_max,
        } = wanted.limits;
        let fits_bytes = self.reserved == 0 || self.reserved_bytes + wanted.bytes <= bytes_max;
        self.reserved + wanted.lines <= lines_max && fits_bytes
    }

    /// Returns how many of the first lines, of these sizes in bytes, fit.
    pub fn room(&self, sizes: impl IntoIterator<Item = u64>, limits: LogLimits) -> usize {
        let mut wanted = Reservation {
            lines: 0,
            bytes: 0,
            at: Timestamp::EPOCH,
            limits,
        };
        let fit = sizes.into_iter().take_while(|bytes| {
            wanted.lines += 1;
            wanted.bytes += bytes;
            // Of several lines, only the first may exceed the limit by itself.
            let is_first = wanted.lines == 1;
            let fits_together = is_first || wanted.bytes <= limits.bytes_max;
            self.has_room(&wanted) && fits_together
        });
        fit.count()
    }
}
