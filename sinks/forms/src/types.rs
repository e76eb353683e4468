//! Types of columns: which values a column takes, and how it writes them.

mod decimal;
mod kind;
mod mainframe;
mod value;

pub use decimal::Digits;
pub use kind::ColumnType;
pub(crate) use kind::{TypeWords, has_long_number};
pub(crate) use mainframe::Stored;
pub use value::Value;
