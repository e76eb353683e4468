//! The files of a run: its record, and the report of it.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::record::Record;
use crate::report::report;
use crate::writable::{NotWritable, check_file};

/// Where the record of a run is, and the report of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportFiles {
    pub record: PathBuf,
    pub report: PathBuf,
}

/// A file or its directory cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("write `{}`: {source}", .path.display())]
pub struct ReportFilesError {
    path: PathBuf,
    source: io::Error,
}

impl ReportFiles {
    /// Returns the record `file`, with the report beside it.
    pub fn beside(file: PathBuf) -> ReportFiles {
        ReportFiles {
            report: file.with_extension("html"),
            record: file,
        }
    }

    /// Checks that both files can be written, which the option names.
    ///
    /// # Errors
    /// [`NotWritable`]
    pub fn check(&self, option: &'static str) -> Result<(), NotWritable> {
        check_file(option, &self.record)?;
        check_file(option, &self.report)
    }

    /// Writes a record and its report.
    ///
    /// # Errors
    /// A file or its directory cannot be written.
    pub fn write(&self, record: &Record) -> Result<(), ReportFilesError> {
        let error = |path: &Path, source| ReportFilesError {
            path: path.to_owned(),
            source,
        };
        if let Some(directory) = self.record.parent() {
            std::fs::create_dir_all(directory).map_err(|source| error(directory, source))?;
        }
        for (file, text) in [
            (&self.record, record.to_json()),
            (&self.report, report(record)),
        ] {
            std::fs::write(file, text).map_err(|source| error(file, source))?;
        }
        Ok(())
    }
}
