//! The aggregator reserves seats: an update of the record of each batch that it brings events into, and a slot each.

use super::batches::BatchId;
use super::calibration::SLOT_BYTES;
use super::limit::{Limit, latest};
use super::world::{Invocation, World};

/// Write units of a reservation and its slot.
const UNITS_OF_RESERVATION: f64 = 2.0;

impl World {
    /// Returns in how many batches so many messages reserve seats, if none is full.
    pub(super) fn scopes_of(&self, count: u64) -> f64 {
        f64::from(self.settings.burst.keys).min(count as f64)
    }

    /// Takes the units of reservations in so many batches, and of their slots. Returns when all of them are there, and what decides that.
    pub(super) fn reserve_units(&mut self, environment: usize, scopes: f64) -> (f64, Limit) {
        let now = self.now;
        let units = UNITS_OF_RESERVATION * scopes;
        let in_table = self.batch_table.bucket.take(now, units);
        let open: Vec<BatchId> = self.batches.current_of(environment).collect();
        let in_records = open
            .into_iter()
            .map(|batch| self.batches.all[batch].record.take(now, 1.0));
        let in_records = in_records.fold(now, f64::max);
        let others = [
            (in_table, Limit::BatchTable),
            (in_records, Limit::BatchRecord),
        ];
        latest((now, Limit::MappingConcurrency), others)
    }

    /// Returns the seconds of the requests for so many reservations, or for their slots.
    pub(super) fn secs_of_reservations(&self, scopes: f64) -> f64 {
        let requests = &self.settings.requests;
        let rounds = (scopes / f64::from(requests.concurrency)).ceil();
        rounds * requests.control_secs
    }

    /// Counts the first seats that an invocation reserves in a batch.
    pub(super) fn reserve(&mut self, invocation: &Invocation, key: u32, batch: BatchId) {
        self.usage.record_writes += UNITS_OF_RESERVATION;
        self.usage.log_bytes_table += SLOT_BYTES;
        let load_bytes = match self.is_log() {
            true => self.load_bytes(invocation),
            false => 0.0,
        };
        let state = &mut self.batches.all[batch];
        state.slots += 1;
        state.load_bytes += load_bytes;
        let before = self.batches.remembered(invocation.environment, key);
        if before != Some(batch) {
            // The scope item. A batch that another environment has sealed refuses first.
            self.usage.reads += 1.0;
            let refuses = before.is_some_and(|before| self.batches.all[before].sealed_at.is_some());
            self.usage.refused_writes += f64::from(u8::from(refuses));
        }
    }
}
