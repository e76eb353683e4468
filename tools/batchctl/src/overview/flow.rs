//! How many events are reserved and delivered between two looks.
//!
//! Records say how many events a batch has, and the index says which records may have changed. A batch that completes leaves the index, so
//! its record is read once more. What opened and completed between two looks is in neither, and is not counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use aws::{BatchCatalogue, BatchSummary};
use protocol::batch::Status;
use protocol::ids::BatchId;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::ports::PortError;

/// The most records that one look reads.
const RECORDS_MAX: usize = 500;

/// Events a second, since the look before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// Seats that were reserved. Duplicates have seats too, until their batch is closed.
    pub reserved_per_second: f64,
    /// Events that the sink took.
    pub delivered_per_second: f64,
}

/// What is kept between two looks.
#[derive(Debug, Default)]
pub struct Flow {
    /// When the last look was; `None` before the first.
    last_at: Option<Timestamp>,
    /// The batches that the index showed, or that were not complete when they were read.
    known: BTreeMap<BatchId, Known>,
}

/// A batch at the last look.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Its status in the index when its record was read; if it was not, at the last look.
    status: Status,
    /// `None` if its record was not read.
    totals: Option<Totals>,
}

/// What became of the events of a batch so far.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    reserved: u64,
    delivered: u64,
    rejected: u64,
}

/// What was added between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Added {
    pub reserved: u64,
    pub delivered: u64,
    pub rejected: u64,
    /// The time between the looks.
    pub over: Duration,
}

impl Added {
    /// Returns the rates; `None` if no time passed.
    pub fn rates(self) -> Option<Rates> {
        let secs = self.over.as_secs_f64();
        (secs > 0.0).then(|| Rates {
            reserved_per_second: self.reserved as f64 / secs,
            delivered_per_second: self.delivered as f64 / secs,
        })
    }
}

impl Totals {
    fn of(batch: &BatchSummary) -> Totals {
        Totals {
            // A version before 0.3 counts claims as they come.
            reserved: batch.reserved.unwrap_or(batch.confirmed),
            delivered: batch.delivered,
            rejected: batch.rejected,
        }
    }
}

impl Flow {
    /// Reads the records that may have changed, at most [`RECORDS_MAX`], and returns what was added since the last look; `None` if this
    /// is the first.
    pub(super) async fn look(
        &mut self,
        catalogue: &dyn BatchCatalogue,
        indexed: &BTreeMap<BatchId, Status>,
        now: Timestamp,
    ) -> Result<Option<Added>, PortError> {
        let ids = self.to_read(indexed);
        let read = catalogue.summaries(&ids).await?;
        let mut added = Added::default();
        for batch in &read.summaries {
            let totals = Totals::of(batch);
            let before = self.before(batch.batch_id, totals);
            added.reserved += totals.reserved.saturating_sub(before.reserved);
            added.delivered += totals.delivered.saturating_sub(before.delivered);
            added.rejected += totals.rejected.saturating_sub(before.rejected);
        }
        self.keep(indexed, &read.summaries);
        let last_at = self.last_at.replace(now);
        Ok(last_at.map(|at| Added {
            over: at.until(now),
            ..added
        }))
    }

    /// Returns the batches to read: first those that left the index, then those that deliver, then those that get events, or whose
    /// events are not known; and of these the newest.
    fn to_read(&self, indexed: &BTreeMap<BatchId, Status>) -> Vec<BatchId> {
        let gone = self.known.keys().filter(|id| !indexed.contains_key(id));
        let gone = gone.map(|id| (0, Reverse(*id)));
        let changed = indexed.iter().filter_map(|(id, status)| {
            let order = match status {
                Status::Processing => 1,
                Status::Open => 2,
                Status::Sealed | Status::Error => {
                    let known = self.known.get(id);
                    let is_same = |known: &Known| known.totals.is_some() && known.status == *status;
                    (!known.is_some_and(is_same)).then_some(2)?
                }
            };
            Some((order, Reverse(*id)))
        });
        let mut order: Vec<_> = gone.chain(changed).collect();
        order.sort_unstable();
        let ids = order.into_iter().map(|(_, Reverse(id))| id);
        ids.take(RECORDS_MAX).collect()
    }

    /// Returns the totals of a batch at the last look. `now` are those that it has now.
    fn before(&self, batch: BatchId, now: Totals) -> Totals {
        match (self.known.get(&batch), self.last_at) {
            (
                Some(Known {
                    totals: Some(then), ..
                }),
                _,
            ) => *then,
            // It had delivered nothing, and how many seats it had is not known.
            (
                Some(Known {
                    status: Status::Open | Status::Sealed,
                    ..
                }),
                _,
            ) => Totals {
                reserved: now.reserved,
                ..Totals::default()
            },
            // Nothing is known of what it had.
            (Some(_), _) | (None, None) => now,
            // It was opened since.
            (None, Some(_)) => Totals::default(),
        }
    }

    /// Keeps what the index shows, and what was read. A batch that the index does not show is complete, or the index is about to show
    /// it again.
    fn keep(&mut self, indexed: &BTreeMap<BatchId, Status>, read: &[BatchSummary]) {
        self.known.retain(|id, _| indexed.contains_key(id));
        for (id, status) in indexed {
            let known = self.known.entry(*id).or_insert(Known {
                status: *status,
                totals: None,
            });
            if known.totals.is_none() {
                known.status = *status;
            }
        }
        for batch in read {
            let in_index = indexed.get(&batch.batch_id).copied();
            if let Some(status) = in_index.or(batch.status) {
                let totals = Some(Totals::of(batch));
                self.known.insert(batch.batch_id, Known { status, totals });
            }
        }
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
