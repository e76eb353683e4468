//! Files of parts, below a directory. What a consumer may rely on is told in [`manifest`](crate::manifest).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tracing::info;
use uuid::Uuid;

use crate::compression::Compression;
use crate::directory::directory_of;
use crate::format::write_rejects;
use crate::manifest;
use crate::part::Part;
use crate::rendering::Content;
use crate::rendering::Rendering;
use crate::sink::{Receipt, Sink, SinkError};

/// A file for each part: `<directory>/<batchId>/<part>.<ext>`, there whole or not at all. Before it comes the list of
/// what could not be written, if there is any: `<part>.rejects`; and last, when all of it is on disk, `<part>.manifest.json`.
/// None of them is ever replaced. An attempt that finds the manifest writes nothing.
#[derive(Debug)]
pub struct FileSink {
    files: Files,
    rendering: Rendering,
}

impl FileSink {
    /// Files below `directory`, which is created when it is needed.
    pub fn new(directory: PathBuf, rendering: Rendering) -> FileSink {
        FileSink {
            files: Files { directory },
            rendering,
        }
    }

    fn write(&self, part: &Part) -> Result<Receipt, FileError> {
        let directory = self.files.of(part);
        let (content, repeated) = match Found::at(directory.join(manifest::name(part)))? {
            Some(found) => {
                let content = manifest::content(part, &self.rendering)?;
                found.compare(part, &content)?;
                // Whoever wrote it may have died before this.
                sync(&directory)?;
                (content, true)
            }
            None => self.write_all(part, &directory)?,
        };
        let (items, rejected) = (part.items.len(), content.rejects.len());
        info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %content.hash, repeated, "part written");
        Ok(manifest::receipt(&content))
    }

    /// Writes all files of a part; answers its content, and whether it was there already.
    fn write_all(&self, part: &Part, directory: &Path) -> Result<(Content, bool), FileError> {
        self.files.make(directory, sync)?;
        let name = self.rendering.name(part.number);
        let temporary = Temporary::beside(directory, &name);
        let (file, content) = self.rendering.write(part, File::create(&temporary.0)?)?;
        file.sync_all()?;
        let rejects = directory.join(rejects_name(part));
        match content.rejects.is_empty() {
            false => {
                let mut list = Vec::new();
                write_rejects(part, &content.rejects, &mut list)?;
                put(&rejects, &list)?;
            }
            // Left by an attempt that rendered otherwise; this one would deliver what that one rejected.
            true if rejects.exists() => {
                return Err(FileError::OtherContent {
                    path: rejects,
                    words: "nothing is rejected now".to_owned(),
                });
            }
            true => {}
        }
        let path = directory.join(&name);
        let repeated = place(&temporary, &path, content.hash, self.rendering.compression)?;
        // What the manifest tells of must be on disk before it is.
        sync(directory)?;
        let key = format!(
            "{}/{name}",
            directory_of(part.batch_id, part.batch_key.as_ref())
        );
        let bytes = manifest::render(part, &key, &self.rendering, &content)?;
        let path = directory.join(manifest::name(part));
        if !link(&written(&path, &bytes)?, &path)? {
            // Another attempt was first.
            match Found::at(path)? {
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
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        self.write(part).map_err(|error| self.files.error(error))
    }
}

/// The name of a part's reject list.
pub(crate) fn rejects_name(part: &Part) -> String {
    format!("{}.rejects", part.number)
}

/// A manifest that is there.
struct Found {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Found {
    fn at(path: PathBuf) -> io::Result<Option<Found>> {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        // One that is longer is cut, and then is no manifest.
        file.take(manifest::BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Some(Found { path, bytes }))
    }

    fn compare(self, part: &Part, content: &Content) -> Result<(), FileError> {
        manifest::compare(&self.bytes, part, content).map_err(|words| FileError::Manifest {
            path: self.path,
            words,
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
    #[error("`{}` exists with other content: {words}", path.display())]
    OtherContent { path: PathBuf, words: String },
    #[error("`{}`: {words}", path.display())]
    Manifest { path: PathBuf, words: String },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Files {
    /// The directory of a part's batch.
    fn of(&self, part: &Part) -> PathBuf {
        self.directory
            .join(directory_of(part.batch_id, part.batch_key.as_ref()))
    }

    /// Makes the directory of a batch, and puts on disk what names it: without that a machine that stops may forget the
    /// directory, and with it all that is on disk in it.
    fn make(
        &self,
        directory: &Path,
        mut sync: impl FnMut(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let naming = self.naming(directory, Path::exists);
        fs::create_dir_all(directory)?;
        naming.iter().try_for_each(|each| sync(each))
    }

    /// The directories that name a batch's directory and those above it, from the top to the bottom. Below the sink's own
    /// they are all here, whether or not anything is new: whoever made it may have died before it was on disk. Above, where
    /// this process may not be allowed to look, are those alone in which something is missing.
    fn naming(&self, directory: &Path, exists: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        let is_ours = |each: &Path| each != self.directory && each.starts_with(&self.directory);
        let mut naming: Vec<PathBuf> = directory
            .ancestors()
            .take_while(|each| is_ours(each) || !exists(each))
            .filter_map(Path::parent)
            .map(|parent| match parent.as_os_str().is_empty() {
                // Of a relative path.
                true => PathBuf::from("."),
                false => parent.to_owned(),
            })
            .collect();
        naming.reverse();
        naming
    }

    /// Keeps the reject list of a part that is delivered elsewhere.
    #[cfg_attr(
        not(feature = "http"),
        expect(dead_code, reason = "files have their own way")
    )]
    pub(crate) fn put_rejects(&self, part: &Part, list: &[u8]) -> Result<(), SinkError> {
        let directory = self.of(part);
        let put = || -> Result<(), FileError> {
            self.make(&directory, sync)?;
            put(&directory.join(rejects_name(part)), list)?;
            Ok(sync(&directory)?)
        };
        put().map_err(|error| self.error(error))
    }

    fn error(&self, error: FileError) -> SinkError {
        match error {
            FileError::OtherContent { .. } | FileError::Manifest { .. } => SinkError::Permanent {
                reason: error.to_string(),
            },
            FileError::Io(error) => SinkError::Retryable {
                reason: format!("`{}`: {error}", self.directory.display()),
            },
        }
    }
}

/// Puts on disk what a directory holds, as names.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Writes a small file of a batch, under the rules of parts.
fn put(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let hash = blake3::hash(bytes);
    place(&written(path, bytes)?, path, hash, Compression::None)?;
    Ok(())
}

/// Writes a file that is on disk, whole, before it has its name.
fn written(path: &Path, bytes: &[u8]) -> io::Result<Temporary> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = Temporary::beside(path.parent().unwrap_or(Path::new(".")), &name);
    let mut file = File::create(&temporary.0)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(temporary)
}

/// Gives a file that is whole its name; answers whether the name was free.
fn link(temporary: &Temporary, path: &Path) -> io::Result<bool> {
    // A link, unlike a rename, never replaces: of two processes that deliver the part at once, one is first.
    match fs::hard_link(&temporary.0, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives a file that is whole its name; answers whether one with the same content had it already.
fn place(
    temporary: &Temporary,
    path: &Path,
    hash: blake3::Hash,
    compression: Compression,
) -> Result<bool, FileError> {
    if link(temporary, path)? {
        return Ok(false);
    }
    let file = File::open(path)?;
    let words = match hash_of(compression, file) {
        Ok(before) if before == hash => return Ok(true),
        Ok(before) => format!("hash {before}, ours is {hash}"),
        Err(error) if compression == Compression::None => return Err(error.into()),
        // What cannot be read back is not what was written: here a file is whole or not there.
        Err(error) => format!("no {}: {error}", compression.name()),
    };
    Err(FileError::OtherContent {
        path: path.to_owned(),
        words,
    })
}

fn hash_of(compression: Compression, file: File) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut reader = compression.reader(file)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            count => hasher.update(&buffer[..count]),
        };
    }
}

/// Removed when dropped; a crash leaves it behind, hidden, under a name of its own.
struct Temporary(PathBuf);

impl Temporary {
    fn beside(directory: &Path, name: &str) -> Temporary {
        Temporary(directory.join(format!(".{name}.{}.tmp", Uuid::now_v7())))
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
