//! The columns of `csv`, `fixed-width` and `parquet`: `SINK_COLUMNS`.

mod column;
mod list;

pub use column::Body;
#[cfg(feature = "full")]
pub use column::ColumnKind;
pub use column::{Column, FixedColumn};
pub use list::{Columns, ColumnsError};
