//! The columns of `csv`, `fixed-width` and `parquet`: `SINK_COLUMNS`.

mod column;
mod list;

pub(crate) use column::Body;
#[cfg(feature = "full")]
pub(crate) use column::ColumnKind;
pub use column::{Column, FixedColumn};
pub use list::{Columns, ColumnsError};
