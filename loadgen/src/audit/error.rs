//! The error that ends an audit without a report.

use std::io;
use std::path::PathBuf;

/// Why a directory could not be audited.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A directory or file cannot be read.
    #[error("read `{}`", path.display())]
    Read {
        /// The directory or file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}
