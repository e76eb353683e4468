//! What ends an audit.

use std::io;
use std::path::PathBuf;

/// Why nothing can be said about a directory.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A directory or file cannot be read.
    #[error("read `{}`", path.display())]
    Read {
        /// What cannot be read.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
