//! Writes parts as files below a directory. [`manifest`](crate::manifest) says what a consumer may rely on.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use uuid::Uuid;

use crate::config::layout::SINK_PATH;
use crate::config::proof::PROOF;
use crate::kind::{Kind, Make, RejectLists};
use crate::place::directory;
use crate::sink::{Receipt, Sink, SinkError, render_failed};
use crate::store::{self, NewFile, Store, other_content, path_below};
use forms::LayoutFailed;
use forms::Part;
use forms::Rendering;
use forms::shown;

pub(crate) const KIND: Kind = Kind {
    name: "file:",
    is_named: |uri| uri.starts_with("file:"),
    check: |uri| directory(uri).map(|_| uri.to_owned()),
    reads: &[&SINK_PATH, &PROOF],
    call_bytes_max: None,
    writes_rows: false,
    reject_lists: RejectLists::BesideParts,
    read: |_, uri| {
        let directory = directory(uri?).ok()?;
        Some(Make::new(move |config, _| {
            Ok(FileSink::new(directory.clone(), config.rendering.clone()))
        }))
    },
};

/// How much of a file's name its temporary file has, in characters.
const TEMPORARY_CHARACTERS_MAX: usize = 200;

/// Writes a file for each part, `<directory>/<batchId>/<part>.<ext>` or what `SINK_PATH` says, which appears under its name only when it
/// is complete. After it, the sink writes the reject list `<part>.rejects` if any record was rejected; last, when both are on disk,
/// `<part>.manifest.json`. Files are never replaced. An attempt that finds the manifest writes nothing.
#[derive(Debug)]
pub struct FileSink {
    files: Files,
    rendering: Rendering,
}

impl FileSink {
    /// Returns a sink that writes below `directory`, which is created when the first part is written.
    pub fn new(directory: PathBuf, rendering: Rendering) -> FileSink {
        FileSink {
            files: Files { directory },
            rendering,
        }
    }
}

#[async_trait]
impl Sink for FileSink {
    async fn dry_run(&self) -> Result<(), SinkError> {
        self.files.dry_run()
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let files = PartFiles {
            files: &self.files,
            part,
        };
        store::deliver(&files, part, &self.rendering).await
    }
}

/// Files of batches below a directory.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) directory: PathBuf,
}

impl Files {
    /// Makes the directory of a batch, and syncs the directories above it: if the machine stops before they are synced, the
    /// new directory and the files in it may be lost.
    fn make(
        &self,
        directory: &Path,
        mut sync: impl FnMut(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let parents = self.unsynced_parents(directory, Path::exists);
        fs::create_dir_all(directory)?;
        parents.iter().try_for_each(|each| sync(each))
    }

    /// Returns the directories to sync after a batch's directory is made, from the top down. The sink's own directory and those
    /// below it are always included, because a process that made one of them may have died before the sync. Directories
    /// above the sink's own, which this process may not be allowed to open, are included only if a child of theirs is missing.
    fn unsynced_parents(&self, directory: &Path, exists: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        let is_ours = |each: &Path| each != self.directory && each.starts_with(&self.directory);
        let mut parents: Vec<PathBuf> = directory
            .ancestors()
            .take_while(|each| is_ours(each) || !exists(each))
            .filter_map(Path::parent)
            .map(|parent| match parent.as_os_str().is_empty() {
                // The parent of the first step of a relative path.
                true => PathBuf::from("."),
                false => parent.to_owned(),
            })
            .collect();
        parents.reverse();
        parents
    }

    /// Makes the directory and a temporary file in it.
    pub(crate) fn dry_run(&self) -> Result<(), SinkError> {
        let write = || {
            self.make(&self.directory, sync)?;
            Temporary::beside_file(&self.directory.join("dry-run"))?.sync()
        };
        write().map_err(|error| self.error(&error))
    }

    /// Returns the paths of all files in `below`, a directory below this one, and in those below that.
    pub(crate) fn list(&self, below: &str) -> Result<Vec<String>, SinkError> {
        let mut paths = Vec::new();
        let mut directories = vec![self.directory.join(below)];
        let mut list = || -> io::Result<()> {
            while let Some(directory) = directories.pop() {
                for entry in fs::read_dir(directory)? {
                    let entry = entry?;
                    if entry.file_type()?.is_dir() {
                        directories.push(entry.path());
                    } else if let Ok(path) = entry.path().strip_prefix(&self.directory) {
                        paths.push(path.to_string_lossy().into_owned());
                    }
                }
            }
            Ok(())
        };
        match list() {
            Ok(()) => Ok(paths),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(paths),
            Err(error) => Err(self.error(&error)),
        }
    }

    /// Reads at most `bytes_max` bytes of a file below the directory; returns `None` if there is none.
    pub(crate) fn read(&self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, SinkError> {
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            let file = File::open(self.directory.join(path))?;
            file.take(bytes_max).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.error(&error)),
        }
    }

    fn error(&self, error: &io::Error) -> SinkError {
        SinkError::retryable(format!("`{}`: {error}", self.directory.display()))
    }
}

/// The files of one part.
pub(crate) struct PartFiles<'f> {
    pub(crate) files: &'f Files,
    pub(crate) part: &'f Part,
}

impl PartFiles<'_> {
    fn absolute_path(&self, name: &str) -> PathBuf {
        self.files.directory.join(self.path(name))
    }
}

#[async_trait]
impl Store for PartFiles<'_> {
    type Upload = Temporary;

    fn path(&self, name: &str) -> String {
        path_below(self.part, name)
    }

    fn uri(&self, name: &str) -> String {
        shown(self.part, &self.absolute_path(name).display().to_string())
    }

    fn begin(&self, name: &str, bytes: Vec<u8>) -> Result<Temporary, SinkError> {
        let path = self.absolute_path(name);
        let begin = || -> io::Result<Temporary> {
            self.files.make(parent_of(&path), sync)?;
            let mut upload = Temporary::beside_file(&path)?;
            upload.write_all(&bytes)?;
            Ok(upload)
        };
        begin().map_err(|error| self.files.error(&error))
    }

    fn write_failed(&self, error: io::Error) -> SinkError {
        match LayoutFailed::is_cause_of(&error) {
            true => render_failed(error),
            false => self.files.error(&error),
        }
    }

    /// A longer file is cut, and then does not parse as a manifest.
    async fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, SinkError> {
        let found = self.files.read(&self.path(name), bytes_max)?;
        if found.is_some() {
            // The attempt that wrote the file may have died before it synced the directory.
            let synced = sync(parent_of(&self.absolute_path(name)));
            synced.map_err(|error| self.files.error(&error))?;
        }
        Ok(found)
    }

    async fn put_new(&self, file: &NewFile<'_>, upload: Temporary) -> Result<bool, SinkError> {
        let path = self.absolute_path(file.name);
        let put = || -> io::Result<bool> {
            // The file must be on disk before it gets its name.
            upload.sync()?;
            // Unlike a rename, a hard link never replaces a file: if two processes deliver the part at once, one of them wins.
            let is_new = match fs::hard_link(&upload.path, &path) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                Err(error) => return Err(error),
            };
            sync(parent_of(&path))?;
            Ok(is_new)
        };
        put().map_err(|error| self.files.error(&error))
    }

    async fn compare(&self, file: &NewFile<'_>) -> Result<(), SinkError> {
        // Whole, so that an error is one of the file system, or one of what the file contains.
        let bytes = fs::read(self.absolute_path(file.name));
        let bytes = bytes.map_err(|error| self.files.error(&error))?;
        file.compare(&self.uri(file.name), &bytes)
    }

    /// An earlier attempt, with another rendering, may have rejected records that this attempt would deliver.
    fn refuse_rejects(&self, name: &str) -> Result<(), SinkError> {
        let problem = "expected no reject list, because no record is rejected";
        match self.absolute_path(name).exists() {
            true => Err(other_content(&self.uri(name), problem)),
            false => Ok(()),
        }
    }
}

/// Returns the directory of a file.
fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Syncs a directory, so that the names in it are on disk.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// A temporary file, removed when dropped. After a crash it stays, as a hidden file with a unique name.
pub(crate) struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn beside_file(path: &Path) -> io::Result<Temporary> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // With the id, a name of `SINK_PATH` may be too long for a file system. It has no other characters than ASCII.
        let start: String = name.chars().take(TEMPORARY_CHARACTERS_MAX).collect();
        let path = path.with_file_name(format!(".{start}.{}.tmp", Uuid::now_v7()));
        let file = File::create(&path)?;
        Ok(Temporary { path, file })
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Write for Temporary {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
