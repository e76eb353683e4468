//! How often the bodies of batches are read.

use protocol::invariants::Check;

use super::World;
use crate::checks;

impl World {
    /// Checks, in a history without faults, that bodies are read about once.
    pub fn reads_are_few(&self) -> Vec<Check> {
        if !self.plan.calm {
            return Vec::new();
        }
        let records = self.batches.records().into_iter();
        records
            .map(|record| {
                let count = |counts: &std::collections::BTreeMap<_, u64>| {
                    counts.get(&record.batch_id).copied().unwrap_or_default()
                };
                let stored = match record.bodies.in_chunks() {
                    true => count(&self.ledger.pieces),
                    false => record.members().len(),
                };
                let read = count(&self.ledger.reads);
                checks::p13_bodies_are_read_about_once(record.batch_id, read, 2 * stored)
            })
            .collect()
    }
}
