//! How often each fault of the tables occurred.

use serde::Serialize;

/// Counts of queries of an index that lags, and of the entries they showed or missed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct IndexLagReport {
    /// Queries of the index.
    pub queries: u64,
    /// Queries whose result differed from the index without lag.
    pub stale: u64,
    /// Entries that existed and were missing from a result, summed over all queries.
    pub hidden: u64,
    /// Entries that no longer existed and were in a result, summed over all queries.
    pub gone: u64,
}

/// Number of writes throttled because a single key had no write units left.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyLimitReport {
    /// Throttled by the limit of the item.
    pub by_item: u64,
    /// Throttled by the limit of an index key that the write would have touched.
    pub by_index_key: u64,
    /// Throttled by the limit of an index key of the other table.
    pub by_other_index_key: u64,
}

/// How many writes the limit of a table throttled, and how much of the limit was used.
///
/// The shares cover the time from the first throttled write to the last write that put an item. They are `None` if the limit
/// was never reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableLimitUsage {
    /// The limit: write units per second of the table's items, and as many of its index.
    pub units_per_second: u32,
    /// All writes: requests for one item, and statements of PartiQL batches.
    pub writes: u64,
    /// Writes throttled because the items had no units left.
    pub throttled_by_items: u64,
    /// Writes throttled because the index had no units left.
    pub throttled_by_index: u64,
    /// Writes to the other table that were throttled because its items or its index had no units left.
    pub throttled_of_other_table: u64,
    /// Length of that time, in seconds.
    pub adding_secs: Option<f64>,
    /// In that time: units used by the items or by the index, whichever used more, in percent of the limit.
    pub used_percent: Option<f64>,
    /// In that time: units used by the items, in percent of the limit.
    pub items_used_percent: Option<f64>,
    /// In that time: units used by the index, in percent of the limit.
    pub index_used_percent: Option<f64>,
    /// In that time: writes throttled, in percent of all writes.
    pub refused_percent: Option<f64>,
}
