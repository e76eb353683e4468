//! What a burst uses that is paid for, and the units that events take.

use super::calibration as measured;
use super::settings::{Bodies, Settings};

/// Counts of everything that is paid for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Write units of the lock table, of its index, and of writes that were refused because the event is known.
    pub lock_writes: f64,
    pub index_writes: f64,
    pub refused_writes: f64,
    /// Write units of batch records and their index, and of chunks in the batch table.
    pub record_writes: f64,
    pub chunk_writes: f64,
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
    /// Bytes of chunks in the table and in S3, and of claims that outlast the burst.
    pub chunk_bytes_table: f64,
    pub chunk_bytes_s3: f64,
    pub claim_bytes: f64,
}

/// What one event, or one chunk, takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// Write units of a lock item.
    pub item_units: f64,
    /// Whether a claim has an index entry, and is released.
    pub indexed: bool,
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
        let item_bytes = match bodies {
            // A body is compressed where that saves a unit.
            Bodies::Items => overhead + (size * measured::COMPRESSED_SHARE).min(size),
            Bodies::Table | Bodies::S3 => overhead,
        };
        Sizes {
            item_units: (item_bytes / UNIT).ceil().max(1.0),
            indexed: bodies == Bodies::Items,
            bodies,
            size_bytes: size,
        }
    }

    /// Returns the compressed bytes of a chunk with so many lines.
    pub fn chunk_bytes(&self, lines: f64) -> f64 {
        let line = self.size_bytes + measured::CHUNK_LINE_BYTES;
        measured::CHUNK_BYTES_AT_LEAST + lines * line * measured::CHUNK_COMPRESSED_SHARE
    }

    /// Returns whether a chunk of so many compressed bytes is an item of the batch table.
    pub fn chunk_is_in_table(&self, bytes: f64) -> bool {
        match self.bodies {
            Bodies::Items | Bodies::Table => true,
            Bodies::S3 => bytes <= protocol::limits::SMALL_CHUNK_BYTES_MAX as f64,
        }
    }

    /// Returns the write units of a chunk in the table.
    pub fn chunk_units(bytes: f64) -> f64 {
        ((bytes + 100.0) / UNIT).ceil()
    }

    /// Returns the read units of so many bytes, read with strong consistency.
    pub fn read_units(bytes: f64) -> f64 {
        (bytes / (4.0 * UNIT)).ceil().max(1.0)
    }

    /// Returns the write units of the counts of a batch.
    pub fn count_units(&self, events: u64) -> f64 {
        match self.bodies {
            Bodies::Items => measured::COUNT_UNITS_ITEMS,
            Bodies::Table | Bodies::S3 => {
                let at_full = 2.0 * (measured::COUNT_UNITS_CHUNKS - 1.0);
                1.0 + (events as f64 / 50_000.0 * at_full).ceil()
            }
        }
    }

    /// Returns the write units of a batch record from its opening to its end, without counts.
    pub fn record_units(&self, events: u64) -> f64 {
        let at_full = match self.bodies {
            Bodies::Items => measured::BATCH_UNITS_ITEMS,
            Bodies::Table | Bodies::S3 => measured::BATCH_UNITS_CHUNKS,
        };
        // A batch of few events has small records: some 20 units.
        20.0 + (at_full - 20.0) * (events as f64 / 50_000.0).min(1.0)
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
        assert_eq!(sizes(Bodies::S3, 10_240).item_units, 1.0);
    }

    #[test]
    fn chunks_take_the_units_of_the_price_page_within_a_tenth() {
        let sizes = sizes(Bodies::Table, 300);
        for (lines, units) in [(100.0, 17.0), (1_000.0, 167.0), (5_000.0, 825.0)] {
            let computed: f64 = Sizes::chunk_units(sizes.chunk_bytes(lines));
            assert!((computed / units - 1.0).abs() < 0.1, "{lines}: {computed}");
        }
    }
}
