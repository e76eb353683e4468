//! The forms of parts: which items a part has, and how these are written as records, columns, files and names.
//!
//! A form is a function of a part and its settings. Nothing here sends anything: that is for the crate `sinks`.

#![warn(missing_docs)]

mod answer;
mod cell;
pub mod chain;
mod columns;
mod compression;
mod csv;
mod dates;
mod directory;
mod encoding;
mod format;
mod layout;
pub mod merkle;
#[cfg_attr(not(feature = "full"), path = "no_parquet.rs")]
mod parquet;
mod part;
mod paths;
mod reject;
mod rendering;
mod sums;
mod template;
#[cfg(any(test, feature = "test-support"))]
pub mod tests_support;
mod totals;
mod types;

pub use answer::{Answer, AnswerForm, AnswerLine, Named, PartName};
#[cfg(feature = "full")]
pub use columns::ColumnKind;
pub use columns::{Body, Column, Columns, ColumnsError, FixedColumn};
pub use compression::{Compressing, Compression};
pub use dates::Zone;
pub use directory::{directory_of, events_name, key_name, percent_encoded, rejects_name, shown};
pub use encoding::{Encoding, LineEnd};
pub use format::{Format, reject_line, write_rejects};
pub use layout::{Layout, LayoutFailed};
pub use parquet::ParquetFormat;
pub use part::{Part, content_hash};
pub use paths::PathTemplate;
pub use reject::{Reject, RejectReason};
pub use rendering::{Content, Rendering};
pub use template::{Template, TemplateUse};
pub use types::{ColumnType, Digits, Value};
