//! Which faults are on, and for which tables.

use std::time::Duration;

use super::table::Table;

/// A table whose index may lag and whose writes may be throttled. The table has no sort key; one of its indexes is watched.
///
/// The faults must know which index entry a request adds or removes. They read the entry from
///
/// - the item of a `PutItem`, and the parameters of a PartiQL statement, whose values must all be parameters;
/// - the values `:<index_key>` and `:<index_sort_key>` of the condition of an `UpdateItem` or a `DeleteItem`.
///
/// A `Query` of the index must have the key condition `<index_key> = :<index_key>` and neither a filter nor a projection. A
/// request that may write to the table in another way gets a `ValidationException`.
#[derive(Clone, Debug)]
pub struct WatchedTable {
    /// Name of the table.
    pub table: String,
    /// Attribute of the partition key of the table, of type `S`.
    pub key: String,
    /// Name of the index, whose projection is `KEYS_ONLY`.
    pub index: String,
    /// Attribute of the partition key of the index, of type `S`.
    pub index_key: String,
    /// Attribute of the sort key of the index, of type `N`: a whole number from 0. An entry that was removed must not be
    /// added again with the same three keys.
    pub index_sort_key: String,
}

#[cfg(test)]
impl WatchedTable {
    /// Makes a table for tests.
    pub(super) fn locks() -> WatchedTable {
        WatchedTable {
            table: "lock-table".to_owned(),
            key: "messageId".to_owned(),
            index: "batchId-index".to_owned(),
            index_key: "batchId".to_owned(),
            index_sort_key: "seq".to_owned(),
        }
    }
}

/// Which faults are on. A fault that is `None` is off.
#[derive(Clone, Debug)]
pub struct TableFaultOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// The table that the faults watch.
    pub watched: WatchedTable,
    /// Longest lag of the index. Each query draws its own lag, from zero to this.
    pub index_lag: Option<Duration>,
    /// Write units per second of each item, and of each partition key of the index.
    pub key_limit: Option<u32>,
    /// Write units per second of each whole table, and as many of its whole index.
    pub table_limit: Option<u32>,
    /// Name and definition of another table. `key_limit` holds for each partition key of its indexes, but not for its items.
    pub other_table: Option<(String, Table)>,
}
