//! How often each fault of the tables struck.

use serde::Serialize;

/// What lag did to queries of the index.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct IndexLagReport {
    /// Queries answered.
    pub queries: u64,
    /// Those that were not shown the index as it was.
    pub stale: u64,
    /// Entries that were there and not shown, all queries together.
    pub hidden: u64,
    /// Entries that were gone and shown, all queries together.
    pub gone: u64,
}

/// Writes over a key's limit.
#[derive(Clone, Copy, Debug)]
pub struct KeyLimitReport {
    /// Over the limit of the item.
    pub by_item: u64,
    /// Over the limit of the index key that the write would have touched.
    pub by_index_key: u64,
    /// Over the limit of an index key of the other table.
    pub by_other_index_key: u64,
}

/// How much of the table's limit was used while index entries were added, from the first throttle to the last entry that
/// was added, and what the limit refused. Nothing is said of that time where the limit was never reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableLimitUsage {
    /// The limit: of the table's items, and as much of its index.
    pub units_per_second: u32,
    /// All writes: requests for one item, and members of PartiQL batches.
    pub writes: u64,
    /// Of those, refused because the items had no units left.
    pub throttled_by_items: u64,
    /// Of those, refused because the index had none left.
    pub throttled_by_index: u64,
    /// How long entries were added under throttles.
    pub adding_secs: Option<f64>,
    /// In that time: units used of the limit, by the items or the index, whichever used more.
    pub used_percent: Option<f64>,
    /// In that time: units used by the items.
    pub items_used_percent: Option<f64>,
    /// In that time: units used by the index.
    pub index_used_percent: Option<f64>,
    /// In that time: writes refused.
    pub refused_percent: Option<f64>,
}
