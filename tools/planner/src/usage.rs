//! What a burst uses that is paid for, and the units that events take.

use super::calibration as measured;
use super::settings::{Bodies, Settings};

/// Counts of everything that is paid for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Write units of the lock table, of its index, and of claims and reservations that were refused.
    pub lock_writes: f64,
    pub index_writes: f64,
    pub refused_writes: f64,
    /// Write units of batch records, their index, scope items and slots; of loads in the batch table; and of the index of the log there.
    pub record_writes: f64,
    pub load_writes: f64,
    pub run_writes: f64,
    pub reads: f64,
    pub queue_requests: f64,
    pub s3_puts: f64,
    pub s3_gets: f64,
    pub aggregator_invocations: f64,
    pub aggregator_secs: f64,
    pub processor_invocations: f64,
    pub processor_secs: f64,
    /// Seconds of provisioned pollers.
    pub poller_secs: f64,
    /// Bytes of the log in the table and in S3, which outlast the burst.
    pub log_bytes_table: f64,
    pub log_bytes_s3: f64,
}

/// What one event, or one object of the log, takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// Write units of a lock item.
    pub item_units: f64,
    bodies: Bodies,
    size_bytes: f64,
}

/// Bytes of a unit.
const UNIT: f64 = 1_024.0;

impl Sizes {
    pub fn new(settings: &Settings) -> Sizes {
        let overhead = protocol::limits::CLAIM_OVERHEAD_BYTES as f64;
        let size = settings.burst.size_bytes as f64;
        let bodies = settings.batches.bodies;
        // A body is compressed where that saves a unit.
        let item_bytes = overhead + (size * measured::COMPRESSED_SHARE).min(size);
        Sizes {
            item_units: (item_bytes / UNIT).ceil().max(1.0),
            bodies,
            size_bytes: size,
        }
    }

    /// Returns the bytes of a load with so many lines, of so many batch keys.
    pub fn load_bytes(&self, lines: u64, keys: u64) -> f64 {
        let line = measured::LINE_BYTES + self.size_bytes * measured::LINE_COMPRESSED_SHARE;
        keys as f64 * measured::FRAME_BYTES_AT_LEAST + lines as f64 * line
    }

    /// Returns whether an object of the log is in the batch table.
    pub fn is_in_table(&self, bytes: f64) -> bool {
        match self.bodies {
            Bodies::Items | Bodies::LogTable => true,
            Bodies::LogS3 => bytes <= protocol::limits::SMALL_OBJECT_BYTES_MAX as f64,
        }
    }

    /// Returns the number of pieces of an object in the table.
    pub fn pieces(bytes: f64) -> f64 {
        (bytes / protocol::limits::OBJECT_ITEM_BYTES_MAX as f64)
            .ceil()
            .max(1.0)
    }

    /// Returns the write units of an object in the table.
    pub fn write_units(bytes: f64) -> f64 {
        ((bytes + 100.0 * Sizes::pieces(bytes)) / UNIT).ceil()
    }

    /// Returns the read units of so many bytes, read with strong consistency.
    pub fn read_units(bytes: f64) -> f64 {
        (bytes / (4.0 * UNIT)).ceil().max(1.0)
    }

    /// Returns the write units of a batch record and of its scope item, from its opening to its end, without reservations.
    pub fn record_units(&self, events: u64, seats: u64) -> f64 {
        match self.bodies {
            // A batch of few events has small records: some 20 units.
            Bodies::Items => {
                let at_full = measured::BATCH_UNITS_ITEMS - 20.0;
                let of_record = 20.0 + at_full * (events as f64 / 50_000.0).min(1.0);
                of_record + measured::SCOPE_UNITS_ITEMS + measured::COUNT_UNITS_ITEMS
            }
            // Sets of seqs with gaps take 8 KB for 65,536 seats each.
            Bodies::LogTable | Bodies::LogS3 => {
                let sets_max = (seats as f64 / 65_536.0).ceil();
                let sets = (seats - events) as f64 / measured::DUPLICATES_OF_SETS;
                measured::BATCH_UNITS_LOG + measured::SETS_UNITS_LOG * sets.min(sets_max)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(bodies: Bodies, size_bytes: u64) -> Sizes {
        let mut settings = Settings::default();
        settings.batches.bodies = bodies;
        settings.burst.size_bytes = size_bytes;
        Sizes::new(&settings)
    }

    #[test]
    fn items_take_the_units_that_bursts_took() {
        let units = |size| sizes(Bodies::Items, size).item_units;
        assert_eq!([100, 300, 1_024, 10_240].map(units), [1.0, 1.0, 1.0, 4.0]);
    }

    #[test]
    fn loads_and_records_take_the_units_that_bursts_took() {
        let sizes = sizes(Bodies::LogTable, 300);
        for (lines, units) in [(10, 2.0), (100, 13.0), (1_000, 122.2)] {
            let computed = Sizes::write_units(sizes.load_bytes(lines, 1));
            assert!((computed / units - 1.0).abs() < 0.1, "{lines}: {computed}");
        }
        for (events, seats, units) in [
            (50_000, 50_000, 14.0),
            (47_500, 50_000, 104.0),
            (10_000, 20_000, 119.0),
        ] {
            let computed = sizes.record_units(events, seats);
            assert!(
                (computed / units - 1.0).abs() < 0.1,
                "{events} of {seats}: {computed}"
            );
        }
    }
}
