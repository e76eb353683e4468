//! The trait of a place with answers, and which of its files are answers.

use async_trait::async_trait;
use protocol::time::Timestamp;

use crate::sink::SinkError;

/// The longest answer that is read: a line for each event of the largest batch has 20 MB.
pub(crate) const BYTES_MAX: u64 = 64 << 20;
/// How long a file must be unchanged before it is read. A server that does not rename files when they are complete shows them half written.
pub(crate) const UNCHANGED_FOR_MS: u64 = 60_000;

/// An answer that can be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AnswerName {
    /// The path below the place.
    pub name: String,
    /// Changes when the content does, as far as the place says.
    pub tag: String,
}

/// A place where a consumer puts answers. Nothing there is changed or removed.
#[async_trait]
pub trait AnswerPlace: Send + Sync {
    /// Returns the answers that are there and complete.
    ///
    /// # Errors
    /// The place cannot be listed.
    async fn list(&self, now: Timestamp) -> Result<Vec<AnswerName>, SinkError>;

    /// Returns the content of an answer; `None` if it is no longer there.
    ///
    /// # Errors
    /// Permanent if it is too large, and retryable if it cannot be read now.
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, SinkError>;
}

/// Returns whether a file with this name is an answer: names that begin with a dot are of files that are not complete.
pub(crate) fn is_answer(name: &str) -> bool {
    !name.starts_with('.')
}

/// Returns whether a file that was changed at `changed_at_ms` may be taken for complete.
pub(crate) fn is_complete(changed_at_ms: u64, now: Timestamp) -> bool {
    changed_at_ms + UNCHANGED_FOR_MS <= now.as_ms()
}

/// Returns the error of an answer that is longer than any is.
pub(crate) fn too_large(name: &str, bytes: u64) -> SinkError {
    SinkError::permanent(format!(
        "answer `{name}`: too large: got {bytes} bytes, expected at most {BYTES_MAX}"
    ))
}
