//! Pauses of deliveries: those of a plan, and those of a running history.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use protocol::ids::{BatchId, BatchKey, LeaseOwner, SourceArn};
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

/// A pause as it really was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPause {
    /// The number of the source, `None` for all, and the batch key, `None` for any or none.
    pub scope: (Option<usize>, Option<BatchKey>),
    pub from: Timestamp,
    /// When it ended or will end.
    pub until: Timestamp,
    /// When it was to end, when it was made.
    pub planned_until: Timestamp,
}

/// What a pause may be about: the number of a source, and a batch key, as messages have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub source: usize,
    pub key: Option<BatchKey>,
}

impl KnownPause {
    /// Returns whether it keeps this from the sink.
    pub fn is_about(&self, subject: &Subject) -> bool {
        let (source, key) = &self.scope;
        let of_source = source.is_none_or(|number| number == subject.source);
        of_source && (key.is_none() || *key == subject.key)
    }
}

/// What a history knows about its pauses.
#[derive(Debug, Default)]
pub struct PauseTable {
    /// All pauses of the history, ended ones too.
    pub known: Vec<KnownPause>,
    /// The batches that wait for the end of a pause.
    pub waiting: BTreeSet<BatchId>,
    /// The last owner of a batch's lease in an environment, and when it first had the lease.
    pub leased: BTreeMap<(u64, BatchId), (LeaseOwner, Timestamp)>,
}

impl PauseTable {
    /// Returns whether a pause that was to end at this time was resumed or replaced before, and none that took its place lasts as long.
    pub fn ended_early(&self, until: Timestamp) -> bool {
        let lasts = |one: &&KnownPause| one.until == one.planned_until && until <= one.until;
        let early = |pause: &&KnownPause| pause.planned_until == until && pause.until < until;
        let mut early = self.known.iter().filter(early);
        early.any(|pause| {
            let mut others = self.known.iter().filter(lasts);
            others.all(|other| other.scope != pause.scope)
        })
    }
}
