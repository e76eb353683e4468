//! The batch record: what it says, what may be written to it and when, and what follows from it.
//!
//! docs/protocol.md ("The life of a batch", "When a batch is complete") tells the same in words.
//!
//! Every change of a record is one [`BatchWrite`]; [`apply`] is its meaning. The DynamoDB adapter expresses the same
//! in update expressions, and the contract tests hold the two against each other.
//!
//! A record is one item of the batch table, and an item has a limit. So everything in it that grows is bounded: seqs are
//! below `SEATS_MAX`, sets of them are bitmaps, and a part that has ended keeps its own set only while that is small; a
//! large one goes into `delivered` or `set_aside`, which all parts share. [`BatchRecord::bytes`] is what a record comes to.
//!
//! The proof that a batch is whole rests on seqs, not on counts alone: `confirmed` counts the claims among the
//! `settled` seqs, so a claim nobody accounted for can never stand in for one that somebody acknowledged. Claims met
//! again by a redelivery are `witnessed` one by one before that message is acknowledged.

mod closing;
mod lease;
mod proof;
mod record;
mod write;

pub use closing::{Closing, NoWindow};
pub use lease::{LeaseVerdict, OperatorWord, may_lease};
pub use proof::{EmptyIndex, Lag, Role, empty_index, lag, proven, role};
pub use record::{BatchRecord, Lease, PartRecord, PartState, Status};
pub use write::{BatchCounts, BatchWrite, NO_ERROR, already_applied, apply};

#[cfg(test)]
mod tests;

#[cfg(test)]
mod props;
