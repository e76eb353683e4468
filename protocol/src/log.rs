//! The log: batches that all environments share, and duplicates that are decided once, when a batch is closed.
//!
//! docs/protocol.md describes it ("The log"). An aggregator stores what an invocation brings as a *load*, reserves seats in the open
//! batch of each scope, and fills the *slot* of its reservation with a reference to the load. Nothing is written for an event. The
//! batch-processor closes a batch: it reads every slot, and puts a *hole* into each that is empty. Then it resolves the lines of the
//! batch against the *index*, which has an [`Entry`] for each event that won, and commits. The index also has a [`Tally`] of the places
//! that winners took in the account of a quota.
//!
//! Two rules carry the promises:
//!
//! * **A slot has one value for ever.** Its writer acknowledges messages only if the value is its own, and the closer reads or fills
//!   every slot. So the closer sees every acknowledged message, whatever the clocks show.
//! * **The order of the versions of the manifest is the one order of all decisions.** A commit replaces the list that the decisions
//!   were made by, and is refused if another commit came first.

mod entry;
mod list;
mod matching;
mod merge;
mod resolve;
mod tally;

pub use entry::{ENTRY_BYTES, Entry, IdHash, IndexSecret, NO_BODY, Owner};
pub use list::{
    Begin, CommitTurn, IndexEpoch, Manifest, RunHeader, RunList, RunRef, begin, crowded, mergeable,
};
pub use matching::{Match, Matches, NoOwner};
pub use merge::{Input, Merged, merge, run_of, runs_of};
pub use resolve::{Decided, Line, LineDecision, Unresolved, resolve};
pub use tally::{LineQuota, Tallies, Tally};

use crate::ids::BodyHash;

/// Returns the hash of a frame or a run, by which its reader knows that it has the bytes that were stored.
pub fn object_hash(bytes: &[u8]) -> [u8; 16] {
    *BodyHash::of(bytes).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_hash_has_sixteen_bytes_of_the_hash() {
        let expected = blake3::hash(b"run");
        assert_eq!(object_hash(b"run"), expected.as_bytes()[..16]);
    }
}
