//! Pauses of deliveries: those of a plan, and those of a running history.

use std::collections::BTreeMap;

use fastrand::Rng;
use protocol::ids::{BatchId, BatchKey, LeaseOwner, SourceArn};
use protocol::pause::{Pause, Pauses};
use protocol::time::Timestamp;

use crate::sources::source;

/// A pause of a plan. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedPause {
    pub at_ms: u64,
    pub length_ms: u64,
    /// The number of the source; `None` for all.
    pub source: Option<usize>,
    /// The batch key; `None` for any or none.
    pub key: Option<BatchKey>,
    /// Time after which it is resumed, if somebody does that.
    pub resumed_after_ms: Option<u64>,
    /// Whether the operator's commands live long enough to send tickets.
    pub sends_tickets: bool,
}

impl PlannedPause {
    /// Draws a pause that begins before `until_ms`.
    pub fn draw(rng: &mut Rng, until_ms: u64, sources: usize, keys: usize) -> PlannedPause {
        let at_ms = rng.u64(0..until_ms);
        let length_ms = [5_000, 60_000, 900_000][rng.usize(..3)];
        let source = rng.bool().then(|| rng.usize(..sources));
        let key = (keys > 0 && rng.bool()).then(|| {
            let key = format!("k{}", rng.usize(..keys));
            key.parse().expect("a short text is a key")
        });
        PlannedPause {
            at_ms,
            length_ms,
            source,
            key,
            resumed_after_ms: rng.bool().then(|| rng.u64(..length_ms)),
            sends_tickets: rng.bool(),
        }
    }

    /// Returns the source and the key that the pause is about.
    pub fn scope(&self) -> (Option<SourceArn>, Option<BatchKey>) {
        (self.source.map(source), self.key.clone())
    }
}

/// What a history knows about its pauses.
#[derive(Debug, Default)]
pub struct PauseTable {
    /// What the functions read.
    pub stored: Pauses,
    /// Every pause that was made.
    pub made: Vec<Pause>,
    /// The last owner of a batch's lease in an environment, and when it first had the lease.
    pub leased: BTreeMap<(u64, BatchId), (LeaseOwner, Timestamp)>,
}

impl PauseTable {
    /// Returns whether a pause ended at this time before it was resumed or replaced, and none that took its place lasts as long.
    pub fn ended_early(&self, until: Timestamp) -> bool {
        self.made
            .iter()
            .filter(|made| made.until == until)
            .any(|made| {
                let scope = (&made.source, &made.batch_key);
                let mut stored = self.stored.pauses.iter();
                stored
                    .all(|pause| (&pause.source, &pause.batch_key) != scope || pause.until < until)
            })
    }
}
