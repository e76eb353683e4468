//! Answers in a directory.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use protocol::time::Timestamp;

use super::place::{AnswerName, AnswerPlace, BYTES_MAX, is_answer, is_complete, too_large};
use crate::sink::SinkError;

/// The files of a directory.
pub(crate) struct AnswerDirectory {
    pub(crate) directory: PathBuf,
}

impl AnswerDirectory {
    fn error(&self, name: &str, error: &io::Error) -> SinkError {
        SinkError::retryable(format!(
            "`{}`: {error}",
            self.directory.join(name).display()
        ))
    }

    fn listed(&self, now: Timestamp) -> io::Result<Vec<AnswerName>> {
        let mut answers = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let changed_at = metadata.modified()?.duration_since(UNIX_EPOCH);
            let changed_at_ms = changed_at.map_or(0, |since| since.as_millis() as u64);
            if metadata.is_file() && is_answer(&name) && is_complete(changed_at_ms, now) {
                let tag = format!("{}/{changed_at_ms}", metadata.len());
                answers.push(AnswerName { name, tag });
            }
        }
        Ok(answers)
    }
}

#[async_trait]
impl AnswerPlace for AnswerDirectory {
    async fn list(&self, now: Timestamp) -> Result<Vec<AnswerName>, SinkError> {
        match self.listed(now) {
            // The consumer makes the directory with its first answer.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(|error| self.error("", &error)),
        }
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, SinkError> {
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            let file = File::open(self.directory.join(name))?;
            file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) if bytes.len() as u64 > BYTES_MAX => Err(too_large(name, bytes.len() as u64)),
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.error(name, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_file_is_an_answer_once_it_is_unchanged_for_a_minute() {
        let directory = tempfile::tempdir().unwrap();
        let place = AnswerDirectory {
            directory: directory.path().join("in"),
        };
        let now = |seconds: u64| Timestamp::from_ms(1_700_000_000_000 + seconds * 1_000);
        assert_eq!(place.list(now(0)).await.unwrap(), []);
        fs::create_dir_all(place.directory.join("done")).unwrap();
        for name in ["a.csv", ".b.csv.partial"] {
            let file = File::create(place.directory.join(name)).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000))
                .unwrap();
        }
        assert_eq!(place.list(now(59)).await.unwrap(), []);
        let listed = place.list(now(60)).await.unwrap();
        let names = Vec::from_iter(listed.iter().map(|one| one.name.as_str()));
        assert_eq!(names, ["a.csv"]);
        assert_eq!(place.read("a.csv").await.unwrap(), Some(Vec::new()));
        assert_eq!(place.read("gone.csv").await.unwrap(), None);
    }
}
