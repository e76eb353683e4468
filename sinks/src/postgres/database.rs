//! What is said of a database besides its URL.

use super::names::TableName;
use crate::columns::Columns;
use crate::secret::Secret;

/// What else is said of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Where rows go.
    pub table: TableName,
    /// What is in them; the envelope, if nothing is said.
    pub columns: Option<Columns>,
    /// The user's password.
    pub password: Option<Secret>,
    /// How many records of one part may be rejected: with more, nothing of the part is kept.
    pub rejects_max: u64,
}
