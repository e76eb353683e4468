//! Answers in a directory on the server of the sink.

use async_trait::async_trait;
use protocol::time::Timestamp;
use russh_sftp::protocol::StatusCode;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::connection::{Connection, Connections};
use super::errors::{content_error, sftp_error, status};
use crate::answers::{AnswerName, AnswerPlace, BYTES_MAX, is_answer, is_complete, too_large};
use crate::sink::SinkError;

/// The files of a directory on a server.
pub(super) struct SftpAnswers {
    pub(super) connections: Connections,
    pub(super) path: String,
    pub(super) timeout: std::time::Duration,
}

impl SftpAnswers {
    fn uri(&self, name: &str) -> String {
        format!(
            "{}{}/{name}",
            self.connections.address().server(),
            self.path
        )
    }

    /// Does something with a connection, which is kept if that succeeds.
    async fn with<T>(
        &self,
        act: impl AsyncFnOnce(&Connection) -> Result<T, SinkError>,
    ) -> Result<T, SinkError> {
        let attempt = async {
            let connection = self.connections.take().await?;
            let done = act(&connection).await?;
            self.connections.keep_idle(connection);
            Ok(done)
        };
        match timeout(self.timeout, attempt).await {
            Ok(done) => done,
            Err(_) => {
                let secs = self.timeout.as_secs();
                Err(SinkError::retryable(format!(
                    "`{}`: no reply within `{secs}` s",
                    self.uri("")
                )))
            }
        }
    }
}

#[async_trait]
impl AnswerPlace for SftpAnswers {
    async fn list(&self, now: Timestamp) -> Result<Vec<AnswerName>, SinkError> {
        self.with(async |connection| {
            let entries = match connection.sftp.read_dir(self.path.as_str()).await {
                Ok(entries) => entries,
                // The consumer makes the directory with its first answer.
                Err(error) if status(&error) == Some(StatusCode::NoSuchFile) => {
                    return Ok(Vec::new());
                }
                Err(error) => return Err(sftp_error(&self.uri(""), "list the directory", &error)),
            };
            let answer = |entry: russh_sftp::client::fs::DirEntry| {
                let (name, metadata) = (entry.file_name(), entry.metadata());
                let changed_at = u64::from(metadata.mtime.unwrap_or_default());
                let is_answer = metadata.is_regular()
                    && is_answer(&name)
                    && is_complete(changed_at * 1_000, now);
                let tag = format!("{}/{changed_at}", metadata.size.unwrap_or_default());
                is_answer.then_some(AnswerName { name, tag })
            };
            Ok(entries.filter_map(answer).collect())
        })
        .await
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, SinkError> {
        let (uri, path) = (self.uri(name), format!("{}/{name}", self.path));
        self.with(async |connection| {
            let file = match connection.sftp.open(path.as_str()).await {
                Ok(file) => file,
                Err(error) if status(&error) == Some(StatusCode::NoSuchFile) => return Ok(None),
                Err(error) => return Err(sftp_error(&uri, "open it", &error)),
            };
            let mut bytes = Vec::new();
            let read = file.take(BYTES_MAX + 1).read_to_end(&mut bytes).await;
            read.map_err(|error| content_error(&uri, "read", &error))?;
            match bytes.len() as u64 {
                length if length > BYTES_MAX => Err(too_large(name, length)),
                _ => Ok(Some(bytes)),
            }
        })
        .await
    }
}
