//! The columns of `csv` and `fixed-width`: `SINK_COLUMNS`.

mod column;
mod list;

pub(crate) use column::Body;
pub use column::{Column, FixedColumn};
pub use list::{Columns, ColumnsError};
