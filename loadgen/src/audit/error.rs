//! The error that ends an audit without a report.

use std::io;
use std::path::{Path, PathBuf};

/// Why a directory could not be audited.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A directory or file cannot be read.
    #[error("read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
}

impl AuditError {
    pub(super) fn read(path: &Path, source: io::Error) -> AuditError {
        AuditError::Read {
            path: path.to_owned(),
            source,
        }
    }
}
