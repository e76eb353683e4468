//! Templates of header and trailer records and of paths: texts with placeholders in braces.

mod parser;
mod placeholder;

pub use parser::Template;
pub use parser::TemplateUse;
pub(crate) use placeholder::{Facts, Target, Value};
