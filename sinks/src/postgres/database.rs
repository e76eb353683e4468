//! The configuration of a database besides its URL.

use super::names::TableName;
use crate::columns::Columns;
use crate::secret::Secret;

/// The configuration of the sink `postgres:` besides the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// The table that events are written to: `SINK_TABLE`.
    pub table: TableName,
    /// The columns that rows have; `None` for those of the envelope.
    pub columns: Option<Columns>,
    /// The user's password: `SINK_PASSWORD`.
    pub password: Option<Secret>,
    /// How many records of one part may be rejected. If there are more, nothing of the part is written.
    pub rejects_max: u64,
}
