//! The files of one part on the server: those in the directory of its batch, and its records, which may have a path of their
//! own (`SINK_PATH`).

use std::time::Duration;

use async_trait::async_trait;
use russh_sftp::client::SftpSession;
use russh_sftp::client::error::Error;
use russh_sftp::protocol::{OpenFlags, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::debug;
use uuid::Uuid;

use super::errors::{content_error, sftp_error, status};
use super::partials::{is_abandoned, is_partial, new_name};
use crate::address::Address;
use crate::sink::SinkError;
use crate::store::{NewFile, Store, deleted, other_content, path_below};
use forms::Part;
use forms::{directory_of, shown};

/// How much longer compressed content may be than the content itself, in bytes: for the headers of its blocks.
const COMPRESSION_OVERHEAD_BYTES: u64 = 1_024;

/// The files of one part.
///
/// A name that begins with `/` is a path below the sink's own directory; any other is in the directory of the part's batch.
pub(super) struct PartFiles<'a> {
    sftp: &'a SftpSession,
    address: &'a Address,
    part: &'a Part,
    /// The names that were there when the first of them was looked for. Empty if the batch's directory was made then, because
    /// no other attempt has come that far; nor has it what is in directories that may not be listed.
    found: Vec<String>,
}

impl PartFiles<'_> {
    /// Makes the directory of the batch with those above it, or lists what is in it, and beside the records if they have a
    /// path of their own. `records` is the name of the file with the records.
    pub(super) async fn open<'a>(
        sftp: &'a SftpSession,
        address: &'a Address,
        part: &'a Part,
        records: &str,
    ) -> Result<PartFiles<'a>, SinkError> {
        let mut files = PartFiles {
            sftp,
            address,
            part,
            found: Vec::new(),
        };
        let directory = directory_of(part.batch_id, part.batch_key.as_ref());
        let path = format!("{}/{directory}", address.path);
        let Err(refused) = make(sftp, &path).await else {
            return Ok(files);
        };
        // Servers return a failure without a cause if a directory exists.
        match sftp.read_dir(path.as_str()).await {
            Ok(entries) => files.found = entries.map(|entry| entry.file_name()).collect(),
            Err(error) if status(&error) == Some(StatusCode::PermissionDenied) => {}
            Err(_) => {
                let uri = format!("{}{}", address.server(), shown(part, &path));
                return Err(sftp_error(&uri, "make the directory", &refused));
            }
        }
        files.look_beside(records).await;
        Ok(files)
    }

    /// Adds what is beside the records. Other parts may be there as well, so only what is of this part is kept. A directory
    /// that cannot be listed, such as one that is not there yet, has nothing that would be known.
    async fn look_beside(&mut self, records: &str) {
        let Some(parent) = parent_of(records) else {
            return;
        };
        let Ok(entries) = self.sftp.read_dir(self.directory_path(parent)).await else {
            return;
        };
        let names = entries.map(|entry| format!("{parent}/{}", entry.file_name()));
        let is_ours = |name: &String| name == records || is_partial(self.part, name);
        self.found.extend(names.filter(is_ours));
    }

    /// Makes the directory of the records with those above it, if they have a path of their own. Other attempts, at this part
    /// or another, may make the same directories.
    async fn make_parent(&self, name: &str) -> Result<(), SinkError> {
        let Some(parent) = parent_of(name) else {
            return Ok(());
        };
        let path = self.directory_path(parent);
        // It is there most of the time: a day's files have one directory.
        if self.is_there(&path).await {
            return Ok(());
        }
        match make(self.sftp, &path).await {
            Ok(()) => Ok(()),
            // Servers return a failure without a cause if somebody else has just made it.
            Err(Error::Status(_)) if self.is_there(&path).await => Ok(()),
            Err(error) => {
                let uri = format!("{}{}", self.address.server(), shown(self.part, &path));
                Err(sftp_error(&uri, "make the directory", &error))
            }
        }
    }

    /// Returns whether something has this path. Not every server says what: in a file, no file can be made.
    async fn is_there(&self, path: &str) -> bool {
        self.sftp.metadata(path).await.is_ok()
    }

    /// Returns the path on the server of a directory below the sink's own, or of the sink's own if `parent` is empty.
    fn directory_path(&self, parent: &str) -> String {
        match format!("{}{parent}", self.address.path) {
            root if root.is_empty() => "/".to_owned(),
            path => path,
        }
    }

    fn absolute_path(&self, name: &str) -> String {
        format!("{}/{}", self.address.path, self.path(name))
    }

    /// Removes what attempts uploaded that died longer than `timeout` ago.
    pub(super) async fn remove_partials_older_than(&self, timeout: Duration) {
        let now = Uuid::now_v7();
        self.remove_partials_if(|name| is_abandoned(name, timeout, now))
            .await;
    }

    /// Removes what other attempts at this part uploaded, because the part is complete. An attempt that still runs finds
    /// its upload gone and the file complete.
    pub(super) async fn remove_partials(&self) {
        self.remove_partials_if(|_| true).await;
    }

    async fn remove_partials_if(&self, wanted: impl Fn(&str) -> bool) {
        let partials = self
            .found
            .iter()
            .filter(|name| is_partial(self.part, name) && wanted(name));
        for name in partials {
            self.remove(name).await;
        }
    }

    /// Removes a file. A file that stays is no error: no consumer takes it for a part.
    async fn remove(&self, name: &str) {
        if let Err(error) = self.sftp.remove_file(self.absolute_path(name)).await {
            debug!(error = %format!("«{error}»"), "partial file not removed");
        }
    }

    async fn exists(&self, name: &str) -> Result<bool, SinkError> {
        match self.sftp.symlink_metadata(self.absolute_path(name)).await {
            Ok(_) => Ok(true),
            Err(error) if status(&error) == Some(StatusCode::NoSuchFile) => Ok(false),
            Err(error) => Err(sftp_error(&self.uri(name), "look for the file", &error)),
        }
    }

    /// Uploads a file under the name `partial`, which must be free, and syncs it if the server can do that.
    async fn upload(&self, partial: &str, bytes: &[u8]) -> Result<(), SinkError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUDE;
        let path = self.absolute_path(partial);
        let opened = self.sftp.open_with_flags(path, flags).await;
        let mut file =
            opened.map_err(|error| sftp_error(&self.uri(partial), "make the file", &error))?;
        let written = async {
            file.write_all(bytes).await?;
            // Waits for the writes, and syncs. Closing returns what the server could not write.
            file.flush().await?;
            file.shutdown().await
        };
        let written = written.await;
        written.map_err(|error| content_error(&self.uri(partial), "write", &error))
    }

    /// Gives a complete file its name if the name is free; returns whether it was.
    ///
    /// OpenSSH refuses to rename to a name that is taken, even if it was taken since `exists`. Other servers may replace the file:
    /// the protocol lets them.
    async fn publish(&self, partial: &str, name: &str) -> Result<bool, SinkError> {
        if self.exists(name).await? {
            return Ok(false);
        }
        let [from, to] = [partial, name].map(|name| self.absolute_path(name));
        match self.sftp.rename(from, to).await {
            Ok(()) => Ok(true),
            // The status does not say whether the name is taken.
            Err(Error::Status(_)) if self.exists(name).await? => Ok(false),
            Err(error) => Err(sftp_error(
                &self.uri(name),
                "rename a complete file",
                &error,
            )),
        }
    }
}

#[async_trait]
impl Store for PartFiles<'_> {
    type Upload = Vec<u8>;

    fn path(&self, name: &str) -> String {
        path_below(self.part, name)
    }

    fn uri(&self, name: &str) -> String {
        let path = shown(self.part, &self.absolute_path(name));
        format!("{}{path}", self.address.server())
    }

    fn begin(&self, _: &str, bytes: Vec<u8>) -> Result<Vec<u8>, SinkError> {
        Ok(bytes)
    }

    /// A longer file is cut, and then does not parse as a manifest.
    async fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, SinkError> {
        let mut file = match self.sftp.open(self.absolute_path(name)).await {
            Ok(file) => file,
            Err(error) if status(&error) == Some(StatusCode::NoSuchFile) => return Ok(None),
            Err(error) => return Err(sftp_error(&self.uri(name), "open the file", &error)),
        };
        let mut bytes = Vec::new();
        let read = async {
            (&mut file).take(bytes_max).read_to_end(&mut bytes).await?;
            file.shutdown().await
        };
        let read = read.await;
        read.map_err(|error| content_error(&self.uri(name), "read", &error))?;
        Ok(Some(bytes))
    }

    async fn put_new(&self, file: &NewFile<'_>, bytes: Vec<u8>) -> Result<bool, SinkError> {
        // An earlier attempt may have written the file, and died before the manifest.
        if self.found.iter().any(|name| name == file.name) {
            return Ok(false);
        }
        self.make_parent(file.name).await?;
        let partial = new_name(self.part, file.name);
        let published = match self.upload(&partial, &bytes).await {
            Ok(()) => self.publish(&partial, file.name).await,
            Err(error) => Err(error),
        };
        if !matches!(published, Ok(true)) {
            // On a full disk, what stays here would keep the next attempt from succeeding.
            self.remove(&partial).await;
        }
        published
    }

    async fn compare(&self, file: &NewFile<'_>) -> Result<(), SinkError> {
        let uri = self.uri(file.name);
        // One byte more than the content can have, so that a longer file is noticed.
        let bytes_max = file.length + file.length / 64 + COMPRESSION_OVERHEAD_BYTES + 1;
        let found = self.read(file.name, bytes_max).await?;
        let found = found.ok_or_else(|| deleted(&uri))?;
        if found.len() as u64 == bytes_max {
            let expected = file.hash;
            let problem = format!("got at least {bytes_max} bytes, expected hash `{expected}`");
            return Err(other_content(&uri, &problem));
        }
        file.compare(&uri, &found)
    }
}

/// Returns the directory of a path below the sink's own directory, without a slash at its end; `None` for a name in the directory
/// of the batch.
fn parent_of(name: &str) -> Option<&str> {
    name.rsplit_once('/').map(|(parent, _)| parent)
}

/// Makes a directory. If one above it is missing, makes all of them, from the root down.
///
/// # Errors
/// The one of the directory itself, whatever was returned for those above it: they may exist, or be hidden from the user.
async fn make(sftp: &SftpSession, path: &str) -> Result<(), Error> {
    match sftp.create_dir(path).await {
        Err(error) if status(&error) == Some(StatusCode::NoSuchFile) => {}
        result => return result,
    }
    for (end, _) in path.match_indices('/').skip(1) {
        match sftp.create_dir(&path[..end]).await {
            Ok(()) | Err(Error::Status(_)) => {}
            Err(error) => return Err(error),
        }
    }
    sftp.create_dir(path).await
}

#[cfg(test)]
#[path = "part_files_tests.rs"]
mod tests;
