//! Which faults a DynamoDB server has, and of which tables.

use std::time::Duration;

use super::table::Table;

/// The table whose index may lag, and whose writes may be limited: a table without a sort key, and one index of it.
///
/// The faults must know which index entry a request adds or removes. They read it from
///
/// - the item of a `PutItem`, and the parameters of a PartiQL statement, whose values must all be parameters;
/// - the values `:<index_key>` and `:<index_sort_key>` of the condition of an `UpdateItem` or a `DeleteItem`.
///
/// A `Query` of the index must have the key condition `<index_key> = :<index_key>` and neither a filter nor a projection. A
/// request that may write to the table in another way is refused with a `ValidationException`.
#[derive(Clone, Debug)]
pub struct WatchedTable {
    /// The table's name.
    pub table: String,
    /// The attribute of its partition key, a text.
    pub key: String,
    /// The index's name. It projects keys alone.
    pub index: String,
    /// The attribute of the index's partition key, a text.
    pub index_key: String,
    /// The attribute of the index's sort key, a whole number from 0 on. An entry that was removed must not come again under
    /// the same three keys.
    pub index_sort_key: String,
}

/// Which faults are on.
#[derive(Clone, Debug)]
pub struct TableFaultOptions {
    /// Where all randomness comes from.
    pub seed: u64,
    /// The table that they are about.
    pub watched: WatchedTable,
    /// Longest lag of the index; each query draws its own.
    pub index_lag: Option<Duration>,
    /// Write units a second of each item and of each key of the index.
    pub key_limit: Option<u32>,
    /// Write units a second of the whole table, and as many of the whole index.
    pub table_limit: Option<u32>,
    /// Another table, by its name. Each key of each of its indexes takes `key_limit` as well; its items have no limit.
    pub other_table: Option<(String, Table)>,
}
