//! How often the bodies of batches are read.

use std::collections::BTreeMap;

use protocol::invariants::Check;

use super::World;
use crate::checks;

impl World {
    /// Checks, in a history without faults, that bodies are read about once.
    pub fn reads_are_few(&self) -> Vec<Check> {
        let plan = &self.plan;
        if !plan.calm {
            return Vec::new();
        }
        // A part that was frozen before it had to wait is read again.
        let is_put_back = plan.hours.is_some()
            || !plan.pauses.is_empty()
            || plan.sequence
            || plan.events_per_second > 0;
        let records = self.batches.records().into_iter();
        records
            .map(|record| {
                let count = |counts: &BTreeMap<_, u64>| {
                    counts.get(&record.batch_id).copied().unwrap_or_default()
                };
                let stored = match record.bodies.in_chunks() {
                    true => count(&self.ledger.pieces),
                    false => record.members().len(),
                };
                let read_max = if is_put_back {
                    2 * stored
                } else {
                    stored + stored / 2
                };
                let read = count(&self.ledger.reads);
                checks::p13_bodies_are_read_about_once(record.batch_id, read, read_max)
            })
            .collect()
    }
}
