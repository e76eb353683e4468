//! Where [answers](forms::AnswerForm) come from: a directory, a prefix in S3, or a directory on the server of the sink.

mod config;
mod directory;
#[cfg(feature = "full")]
mod objects;
mod place;

pub use config::{AnswersConfig, AnswersFrom};
pub(crate) use directory::AnswerDirectory;
#[cfg(feature = "full")]
pub(crate) use objects::AnswerObjects;
pub use place::{AnswerName, AnswerPlace};
#[cfg(feature = "full")]
pub(crate) use place::{BYTES_MAX, is_answer, is_complete, too_large};
