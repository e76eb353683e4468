//! Writes parts as files below a directory. [`manifest`](crate::manifest) says what a consumer may rely on.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tracing::info;
use uuid::Uuid;

use crate::compression::Compression;
use crate::config::layout::SINK_PATH;
use crate::directory::{directory_of, shown};
use crate::format::write_rejects;
use crate::kind::{Kind, Make, RejectLists};
use crate::layout::LayoutFailed;
use crate::manifest;
use crate::part::Part;
use crate::place::directory;
use crate::rendering::Content;
use crate::rendering::Rendering;
use crate::sink::{Receipt, Sink, SinkError};

pub(crate) const KIND: Kind = Kind {
    name: "file:",
    is_named: |uri| uri.starts_with("file:"),
    check: |uri| directory(uri).map(|_| uri.to_owned()),
    reads: &[&SINK_PATH],
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

/// Writes a file for each part, `<directory>/<batchId>/<part>.<ext>` or what `SINK_PATH` says, which appears under its name only when it is complete.
/// Before it, the sink writes the reject list `<part>.rejects` if any record was rejected; last, when both are on disk,
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

    fn write(&self, part: &Part) -> Result<Receipt, FileError> {
        let directory = self.files.batch_directory(part);
        let (content, repeated) = match FoundManifest::open(directory.join(manifest::name(part)))? {
            Some(found) => {
                let content = manifest::content(part, &self.rendering)?;
                found.compare(part, &content)?;
                // The attempt that wrote the manifest may have died before it synced the directory.
                sync(&directory)?;
                (content, true)
            }
            None => self.write_all(part, &directory)?,
        };
        let (items, rejected) = (part.items.len(), content.rejects.len());
        info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %content.hash, repeated, "part written");
        Ok(manifest::receipt(&content))
    }

    /// Writes all files of a part; returns facts about its content, and whether the part's file existed already.
    fn write_all(&self, part: &Part, directory: &Path) -> Result<(Content, bool), FileError> {
        self.files.make(directory, sync)?;
        let key = match self.rendering.layout.path(part)? {
            Some(path) => path,
            None => {
                let name = self.rendering.name(part.part_index);
                let batch = directory_of(part.batch_id, part.batch_key.as_ref());
                format!("{batch}/{name}")
            }
        };
        let path = self.files.directory.join(&key);
        let parent = path.parent().unwrap_or(directory);
        if parent != directory {
            self.files.make(parent, sync)?;
        }
        let temporary = Temporary::beside_file(&path);
        let (file, content) = self
            .rendering
            .write_for_manifest(part, File::create(&temporary.0)?)?;
        file.sync_all()?;
        let rejects = directory.join(rejects_name(part.part_index));
        match content.rejects.is_empty() {
            false => {
                let mut list = Vec::new();
                write_rejects(part, &content.rejects, &mut list)?;
                put_small_file(&rejects, &list)?;
            }
            // An earlier attempt, with another rendering, rejected records that this attempt would deliver.
            true if rejects.exists() => {
                return Err(FileError::OtherContent {
                    path: rejects,
                    problem: "expected no reject list, because no record is rejected".to_owned(),
                });
            }
            true => {}
        }
        let repeated = publish(&temporary, &path, content.hash, self.rendering.compression)?;
        // The part and its reject list must be on disk before the manifest is.
        sync(directory)?;
        if parent != directory {
            sync(parent)?;
        }
        let bytes = manifest::render(part, &key, &self.rendering, &content)?;
        let path = directory.join(manifest::name(part));
        if !link_if_free(&write_temporary(&path, &bytes)?, &path)? {
            // Another attempt wrote the manifest first.
            match FoundManifest::open(path)? {
                Some(found) => found.compare(part, &content)?,
                None => return Err(io::Error::from(io::ErrorKind::NotFound).into()),
            }
        }
        sync(directory)?;
        Ok((content, repeated))
    }
}

#[async_trait]
impl Sink for FileSink {
    async fn dry_run(&self) -> Result<(), SinkError> {
        self.files.dry_run()
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let written = self.write(part);
        written.map_err(|error| self.files.error_of(part, error))
    }
}

/// Returns the name of the reject list of a part, by the number of the part in its batch.
pub(crate) fn rejects_name(part: usize) -> String {
    format!("{part}.rejects")
}

/// A manifest that exists on disk.
struct FoundManifest {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl FoundManifest {
    fn open(path: PathBuf) -> io::Result<Option<FoundManifest>> {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        // A longer file is cut, and then does not parse as a manifest.
        file.take(manifest::BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Some(FoundManifest { path, bytes }))
    }

    fn compare(self, part: &Part, content: &Content) -> Result<(), FileError> {
        manifest::compare(&self.bytes, part, content).map_err(|problem| FileError::Manifest {
            path: self.path,
            problem,
        })
    }
}

/// Files of batches below a directory.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) directory: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("exists with other content: {problem}")]
    OtherContent { path: PathBuf, problem: String },
    #[error("{problem}")]
    Manifest { path: PathBuf, problem: String },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Files {
    /// Returns the directory of a part's batch.
    fn batch_directory(&self, part: &Part) -> PathBuf {
        self.directory
            .join(directory_of(part.batch_id, part.batch_key.as_ref()))
    }

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
            write_temporary(&self.directory.join("dry-run"), &[])
        };
        write().map(drop).map_err(|error| self.error(&error))
    }

    /// Writes the reject list of a part that another sink delivers.
    pub(crate) fn put_rejects(&self, part: &Part, list: &[u8]) -> Result<(), SinkError> {
        let directory = self.batch_directory(part);
        let write = || -> Result<(), FileError> {
            self.make(&directory, sync)?;
            put_small_file(&directory.join(rejects_name(part.part_index)), list)?;
            Ok(sync(&directory)?)
        };
        write().map_err(|error| self.error_of(part, error))
    }

    /// Reads a file of a batch; returns `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, SinkError> {
        match fs::read(self.directory.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.error(&error)),
        }
    }

    fn error_of(&self, part: &Part, error: FileError) -> SinkError {
        match &error {
            FileError::OtherContent { path, .. } | FileError::Manifest { path, .. } => {
                let path = shown(part, &path.display().to_string());
                SinkError::Permanent {
                    reason: format!("`{path}`: {error}"),
                }
            }
            FileError::Io(io) if LayoutFailed::is_cause_of(io) => SinkError::Permanent {
                reason: io.to_string(),
            },
            FileError::Io(io) => self.error(io),
        }
    }

    fn error(&self, error: &io::Error) -> SinkError {
        SinkError::Retryable {
            reason: format!("`{}`: {error}", self.directory.display()),
        }
    }
}

/// Syncs a directory, so that the names in it are on disk.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Writes a small file whole or not at all, as parts are written.
fn put_small_file(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let hash = blake3::hash(bytes);
    publish(
        &write_temporary(path, bytes)?,
        path,
        hash,
        Compression::None,
    )?;
    Ok(())
}

/// Writes a temporary file beside `path` and syncs it, so that it is on disk before it gets its name.
fn write_temporary(path: &Path, bytes: &[u8]) -> io::Result<Temporary> {
    let temporary = Temporary::beside_file(path);
    let mut file = File::create(&temporary.0)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(temporary)
}

/// Gives a complete file its name, if the name is free; returns whether it was free.
fn link_if_free(temporary: &Temporary, path: &Path) -> io::Result<bool> {
    // Unlike a rename, a hard link never replaces a file: if two processes deliver the part at once, one of them wins.
    match fs::hard_link(&temporary.0, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives a complete file its name; returns whether a file with the same content existed already.
///
/// # Errors
/// [`FileError::OtherContent`] if a file of other content has the name.
fn publish(
    temporary: &Temporary,
    path: &Path,
    hash: blake3::Hash,
    compression: Compression,
) -> Result<bool, FileError> {
    if link_if_free(temporary, path)? {
        return Ok(false);
    }
    // Whole, so that an error is one of the file system, or one of what the file contains.
    let bytes = fs::read(path)?;
    let problem = match compression.hash(&*bytes) {
        Ok(found) if found == hash => return Ok(true),
        Ok(found) => format!("got hash `{found}`, expected `{hash}`"),
        // Files of this sink are always complete, so a file that cannot be decompressed is another file.
        Err(error) => format!("not valid `{}`: {error}", compression.name()),
    };
    Err(FileError::OtherContent {
        path: path.to_owned(),
        problem,
    })
}

/// A temporary file, removed when dropped. After a crash it stays, as a hidden file with a unique name.
struct Temporary(PathBuf);

impl Temporary {
    fn beside_file(path: &Path) -> Temporary {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // With the id, a name of `SINK_PATH` may be too long for a file system. It has no other characters than ASCII.
        let start: String = name.chars().take(TEMPORARY_CHARACTERS_MAX).collect();
        Temporary(path.with_file_name(format!(".{start}.{}.tmp", Uuid::now_v7())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
