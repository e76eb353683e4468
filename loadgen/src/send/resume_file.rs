//! The file that a burst leaves which ended early, and that a later run continues from.

use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::state::SendState;
use crate::shape::Shape;
use crate::workload::WorkloadConfig;

/// The version of the format. A reader refuses other versions.
const VERSION: u32 = 1;

/// A burst that ended early, and how far it got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeFile {
    version: u32,
    /// When the burst began, in milliseconds of Unix time, if it is one whose delivery is watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_at_ms: Option<u64>,
    /// The URL of the queue.
    pub queue_url: String,
    /// Where requests went, if that was configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_url: Option<String>,
    /// What determines the burst.
    pub workload: WorkloadConfig,
    /// The shape of the burst.
    pub shape: Shape,
    /// How far the burst got.
    pub state: SendState,
}

/// Why a file cannot be continued from, or not be written.
#[derive(Debug, thiserror::Error)]
pub enum ResumeFileError {
    /// The file cannot be read.
    #[error("the resume file: read `{path}`")]
    Read { path: String, source: io::Error },
    /// The file cannot be written.
    #[error("the resume file: write `{path}`")]
    Write { path: String, source: io::Error },
    /// The file is none that a burst has left.
    #[error("the resume file: `{path}` is none")]
    Malformed {
        path: String,
        source: serde_json::Error,
    },
    /// Another version has written the file.
    #[error("the resume file: wrong version of `{path}`: got `{version}`, expected {VERSION}")]
    Version { path: String, version: u64 },
}

impl ResumeFile {
    /// Returns what to write about a burst.
    pub fn new(
        queue_url: String,
        endpoint_url: Option<String>,
        workload: WorkloadConfig,
        shape: Shape,
        state: SendState,
    ) -> Self {
        Self {
            version: VERSION,
            began_at_ms: None,
            queue_url,
            endpoint_url,
            workload,
            shape,
            state,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not one of this version.
    pub fn read(path: &Path) -> Result<Self, ResumeFileError> {
        let name = || path.display().to_string();
        let text = fs::read(path).map_err(|source| ResumeFileError::Read {
            path: name(),
            source,
        })?;
        let malformed = |source| ResumeFileError::Malformed {
            path: name(),
            source,
        };
        let json: serde_json::Value = serde_json::from_slice(&text).map_err(malformed)?;
        // Looked at first: a file of another version fails in its fields too, and that error would mislead.
        match json.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version != u64::from(VERSION) => Err(ResumeFileError::Version {
                path: name(),
                version,
            }),
            Some(_) | None => serde_json::from_value(json).map_err(malformed),
        }
    }

    /// Writes the file, in place of one that is there already. A reader sees the old or the new file, never a part of one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ResumeFileError> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".tmp");
        let json = serde_json::to_string_pretty(self).map_err(io::Error::other);
        let written = json
            .and_then(|json| fs::write(&unfinished, json))
            .and_then(|()| fs::rename(&unfinished, path));
        written.map_err(|source| ResumeFileError::Write {
            path: path.display().to_string(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_as_it_was_written_and_other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("burst.json");
        let workload = WorkloadConfig {
            duplicates: "immediate=2,changed=1".parse().unwrap(),
            sizes: "300:9,4000:1".parse().unwrap(),
            ..WorkloadConfig::default()
        };
        let state = SendState {
            next: 30,
            unsent: vec![4],
            ..SendState::default()
        };
        let shape = "constant:5".parse().unwrap();
        let file = ResumeFile::new("http://queue".to_owned(), None, workload, shape, state);
        file.write(&path).unwrap();
        assert_eq!(ResumeFile::read(&path).unwrap(), file);

        let refusal = |text: &str| {
            fs::write(&path, text).unwrap();
            let error = ResumeFile::read(&path).unwrap_err().to_string();
            error.replace(&path.display().to_string(), "FILE")
        };
        assert_eq!(refusal("{}"), "the resume file: `FILE` is none");
        let later = r#"{"version":2,"more":0}"#;
        assert_eq!(
            refusal(later),
            "the resume file: wrong version of `FILE`: got `2`, expected 1"
        );
        let nowhere = Path::new("/nonexistent/burst.json");
        assert_eq!(
            ResumeFile::read(nowhere).unwrap_err().to_string(),
            "the resume file: read `/nonexistent/burst.json`"
        );
        assert_eq!(
            file.write(nowhere).unwrap_err().to_string(),
            "the resume file: write `/nonexistent/burst.json`"
        );
    }
}
