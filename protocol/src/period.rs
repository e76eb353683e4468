//! Periods: with `CLOSE_AT`, each event is in exactly one, and so is each batch.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The time from one closing hour to the next: from `begins` on, before `ends`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Period {
    pub begins: Timestamp,
    pub ends: Timestamp,
}

impl Period {
    /// Returns whether something that happened at `at` is in the period.
    pub fn contains(&self, at: Timestamp) -> bool {
        self.begins <= at && at < self.ends
    }
}
