//! Parquet files in a build without the cargo feature `full`: none.

use std::io::{self, Write};
use std::sync::Arc;

use crate::columns::Column;
use crate::compression::Compression;
use crate::part::Part;
use crate::reject::Reject;

/// The columns of a Parquet file. This build has no Parquet, so there is no such value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParquetFormat {}

impl ParquetFormat {
    /// Returns no format.
    ///
    /// # Errors
    /// Always: the executable was built without the cargo feature `full`.
    pub fn new(_: Arc<[Column]>, _: Compression) -> Result<ParquetFormat, String> {
        Err(shared::config::WITHOUT_FULL.to_owned())
    }

    /// Returns the columns of a file.
    pub fn columns(&self) -> &[Column] {
        match *self {}
    }

    pub(crate) fn write(&self, _: &Part, _: &mut impl Write) -> io::Result<Vec<Reject>> {
        match *self {}
    }
}
