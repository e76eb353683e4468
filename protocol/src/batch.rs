//! The batch record: its fields, the writes that change it and their conditions, and what the record proves.
//!
//! docs/protocol.md describes it ("The life of a batch", "When a batch is complete").
//!
//! Every change of a record is one [`BatchWrite`], and [`apply`] defines its effect. The DynamoDB adapter makes the
//! same change by an update expression, and the contract tests compare the two.
//!
//! A record is one item of the batch table, and the size of an item is limited. So every field that grows is bounded:
//! seqs are below `SEATS_MAX`, sets of seqs are bitmaps, and a delivered part keeps its own set only if that is small;
//! a large set goes into `delivered`, which all parts share, as `set_aside` is. [`BatchRecord::bytes`] returns the
//! size.
//!
//! The proof that a batch is complete compares seqs, not only counts: `confirmed` counts the claims among the `settled`
//! seqs, so an uncounted claim never stands in for a counted one. A claim that another delivery relies on is recorded
//! in `witnessed` before that delivery is acknowledged.

mod apply;
mod closing;
mod lease;
mod note;
mod notice;
mod noticed;
mod part;
mod proof;
mod record;
mod rejects;
mod reservation_writes;
mod reservations;
mod write;

pub use apply::{already_applied, apply};
pub use closing::Closing;
pub use lease::{LeaseDecision, OperatorDecision, may_lease};
pub use note::{OperatorNote, with_note};
pub use notice::{Notice, NoticeCounts, NoticeKind};
pub use part::{PartRecord, PartState, WAITS_FOR_APPROVAL, approved, unapproved};
pub use proof::{EmptyIndex, Lag, Role, empty_index, lag, nothing_to_deliver, proven, role};
pub use record::{BatchRecord, Failure, Lease, Listing, Status};
pub use rejects::Rejects;
pub use reservations::{BatchLimits, Reservation, Reservations, Reserved, Resolution};
pub use write::{BatchWrite, Due, NO_ERROR};

#[cfg(test)]
mod tests;

#[cfg(test)]
mod props;
