//! The aggregator with the log: an invocation stores its messages as a load, reserves seats in the batches that all environments fill,
//! and puts a slot for each reservation. Duplicates take seats, and nothing is written for an event.

use super::batches::BatchId;
use super::calibration::{S3_BYTES_PER_SEC, SLOT_BYTES};
use super::limit::{Limit, latest};
use super::queue::totals;
use super::usage::Sizes;
use super::world::{Invocation, World};

/// Write units of a reservation and its slot.
const UNITS_OF_RESERVATION: f64 = 2.0;

/// An object of the log that was stored.
pub(super) struct Stored {
    pub at: f64,
    /// Its write units in the batch table.
    pub units: f64,
    /// Whether it waited for these units.
    pub waited: bool,
}

impl World {
    /// Stores what an invocation brings; returns when its slots are filled. Gives the messages back if that is too late.
    pub(super) fn bring(&mut self, invocation: &mut Invocation) -> f64 {
        let count = totals(&invocation.left).0;
        let keys = f64::from(self.settings.burst.keys).min(count as f64);
        let computed = self.now + count as f64 * invocation.secs_per_message;
        let stored = self.store_object(self.load_bytes(invocation), computed);
        self.usage.load_writes += stored.units;
        let units = UNITS_OF_RESERVATION * keys;
        let stored_by = match stored.waited {
            true => Limit::BatchTable,
            false => Limit::MappingConcurrency,
        };
        let reserved = self.batch_table.bucket.take(self.now, units);
        let record = self.reserved_at(invocation.environment);
        let others = [(reserved, Limit::BatchTable), (record, Limit::BatchRecord)];
        let (at, limit) = latest((stored.at, stored_by), others);
        invocation.waits_for = limit;
        if limit != Limit::MappingConcurrency {
            self.observer.throttled(limit, 1.0);
        }
        let requests = &self.settings.requests;
        let rounds = (keys / f64::from(requests.concurrency)).ceil();
        let done = at + 2.0 * rounds * requests.control_secs;
        // The load has half of the time, so that there is time for the slots.
        let half = self.now.midpoint(invocation.stop_at);
        if stored.at > half || done > invocation.stop_at {
            let left = std::mem::take(&mut invocation.left);
            self.fail(left, invocation.received_at);
            invocation.in_step = 0;
            return self.now.max(half);
        }
        invocation.in_step = count;
        done
    }

    fn load_bytes(&self, invocation: &Invocation) -> f64 {
        let keys = u64::from(self.settings.burst.keys).min(invocation.count);
        self.sizes.load_bytes(invocation.count, keys)
    }

    /// Takes a unit of the record of each open batch, and returns when all of them are there.
    fn reserved_at(&mut self, environment: usize) -> f64 {
        let open: Vec<BatchId> = self.batches.current_of(environment).collect();
        let now = self.now;
        let taken = open
            .into_iter()
            .map(|batch| self.batches.all[batch].keys.take(now, 1.0));
        taken.fold(now, f64::max)
    }

    /// Counts the first seats that an invocation reserves in a batch.
    pub(super) fn reserve(&mut self, invocation: &Invocation, key: u32, batch: BatchId) {
        self.usage.record_writes += UNITS_OF_RESERVATION;
        self.usage.log_bytes_table += SLOT_BYTES;
        let load_bytes = self.load_bytes(invocation);
        let state = &mut self.batches.all[batch];
        state.loads += 1;
        state.load_bytes += load_bytes;
        let scope = (invocation.environment, key);
        let before = self.batches.remembered.insert(scope, batch);
        if before != Some(batch) {
            // The scope item. A batch that another environment has sealed refuses first.
            self.usage.reads += 1.0;
            let refuses = before.is_some_and(|before| self.batches.all[before].sealed_at.is_some());
            self.usage.refused_writes += f64::from(u8::from(refuses));
        }
    }

    /// Stores an object of the log, from `from` on.
    pub(super) fn store_object(&mut self, bytes: f64, from: f64) -> Stored {
        let secs = self.secs_of_object(bytes);
        let in_table = self.sizes.is_in_table(bytes);
        let units = match in_table {
            true => Sizes::write_units(bytes),
            false => 0.0,
        };
        let stored = match in_table {
            true => &mut self.usage.log_bytes_table,
            false => &mut self.usage.log_bytes_s3,
        };
        *stored += bytes;
        self.usage.s3_puts += f64::from(u8::from(!in_table));
        let there = self.batch_table.bucket.take(self.now, units);
        Stored {
            at: there.max(from) + secs,
            units,
            waited: there > from,
        }
    }

    /// Counts a read of an object of the log; returns its seconds.
    pub(super) fn read_object(&mut self, bytes: f64) -> f64 {
        if self.sizes.is_in_table(bytes) {
            return self.read_range(bytes, bytes);
        }
        // A reader looks in the table first.
        self.usage.reads += 1.0;
        self.settings.requests.control_secs + self.read_range(bytes, bytes)
    }

    /// Counts a read of `bytes` of an object of `object_bytes`; returns its seconds. An object in the table is read as a whole.
    pub(super) fn read_range(&mut self, bytes: f64, object_bytes: f64) -> f64 {
        if self.sizes.is_in_table(object_bytes) {
            self.usage.reads += Sizes::read_units(object_bytes);
            return self.secs_of_object(object_bytes);
        }
        self.usage.s3_gets += 1.0;
        self.settings.requests.s3_secs + bytes / S3_BYTES_PER_SEC
    }

    /// Returns the seconds of the requests for an object. Those for its pieces come one after the other.
    fn secs_of_object(&self, bytes: f64) -> f64 {
        let requests = &self.settings.requests;
        match self.sizes.is_in_table(bytes) {
            true => Sizes::pieces(bytes) * requests.control_secs,
            false => requests.s3_secs + bytes / S3_BYTES_PER_SEC,
        }
    }
}
