//! Pauses of deliveries: an operator keeps batches of a source or a batch key from the sink for a while.
//!
//! A pause only delays. A batch that is paused keeps its claims and its place; the processor gives up its lease until the end of
//! the pause. Every pause has an end, so that nothing waits for ever because nobody remembers it.

use crate::ids::{BatchKey, SourceArn};
use crate::time::Timestamp;

/// A pause of deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Batches of this source; of all sources, if it is absent.
    pub source: Option<SourceArn>,
    /// Batches with this key; with any key or none, if it is absent.
    pub batch_key: Option<BatchKey>,
    /// When deliveries go on.
    pub until: Timestamp,
    /// When the pause was made, by whom, and why. No decision depends on these.
    pub at: Timestamp,
    pub by: String,
    pub why: String,
}

impl Pause {
    /// Returns whether this and `other` are about the same batches.
    pub fn has_scope_of(&self, other: &Pause) -> bool {
        (&self.source, &self.batch_key) == (&other.source, &other.batch_key)
    }

    /// Returns whether the pause is about batches of this source and key.
    pub fn covers(&self, source: &SourceArn, batch_key: Option<&BatchKey>) -> bool {
        let of_source = self.source.as_ref().is_none_or(|wanted| wanted == source);
        let of_key = |wanted: &BatchKey| batch_key == Some(wanted);
        of_source && self.batch_key.as_ref().is_none_or(of_key)
    }
}
