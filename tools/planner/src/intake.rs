//! The aggregator with the log: an invocation stores its messages as a load, reserves seats for all of them, and puts a slot for each
//! reservation. Nothing is written for an event.

use super::calibration::S3_BYTES_PER_SEC;
use super::limit::{Limit, latest};
use super::queue::totals;
use super::usage::Sizes;
use super::world::{Invocation, World};

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
        let scopes = self.scopes_of(count);
        let computed = self.now + count as f64 * invocation.secs_per_message;
        let stored = self.store_object(self.load_bytes(invocation), computed);
        self.usage.load_writes += stored.units;
        let stored_by = match stored.waited {
            true => Limit::BatchTable,
            false => Limit::MappingConcurrency,
        };
        let reserved = self.reserve_units(invocation.environment, scopes);
        let (at, limit) = latest((stored.at, stored_by), [reserved]);
        invocation.waits_for = limit;
        if limit != Limit::MappingConcurrency {
            self.observer.throttled(limit, 1.0);
        }
        // First the reservations, then the slots.
        let done = at + 2.0 * self.secs_of_reservations(scopes);
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

    pub(super) fn load_bytes(&self, invocation: &Invocation) -> f64 {
        let keys = u64::from(self.settings.burst.keys).min(invocation.count);
        self.sizes.load_bytes(invocation.count, keys)
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
