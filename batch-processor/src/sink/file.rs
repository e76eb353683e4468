use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tracing::info;
use uuid::Uuid;

use super::format::write_rejects;
use super::{Compression, Part, Receipt, Rendering, Sink, SinkError, directory_of};

/// A file for each part: `<directory>/<batchId>/<part>.<ext>`, there whole or not at all. Before it comes the list of
/// what could not be written, if there is any: `<part>.rejects`.
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
        let directory = self.files.batch(part)?;
        let name = self.rendering.name(part.number);
        let temporary = Temporary::beside(&directory, &name);
        let (file, content) = self.rendering.write(part, File::create(&temporary.0)?)?;
        file.sync_all()?;
        match content.rejects.is_empty() {
            false => {
                let mut list = Vec::new();
                write_rejects(part, &content.rejects, &mut list)?;
                self.files.put(part, &rejects_name(part), &list)?;
            }
            // Left by an attempt that rendered otherwise; this one would deliver what that one rejected.
            true if directory.join(rejects_name(part)).exists() => {
                return Err(FileError::OtherContent {
                    path: directory.join(rejects_name(part)),
                    words: "nothing is rejected now".to_owned(),
                });
            }
            true => {}
        }
        let path = directory.join(name);
        let repeated = place(&temporary, &path, content.hash, self.rendering.compression)?;
        File::open(&directory)?.sync_all()?;
        let (items, rejected) = (part.items.len(), content.rejects.len());
        info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %content.hash, repeated, "part written");
        Ok(Receipt {
            text: format!("blake3:{}", content.hash),
            rejected: rejected as u64,
        })
    }
}

impl Sink for FileSink {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        self.write(part).map_err(|error| self.files.error(error))
    }
}

/// The name of a part's reject list.
pub(super) fn rejects_name(part: &Part) -> String {
    format!("{}.rejects", part.number)
}

/// Files of batches below a directory.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) directory: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("`{}` exists with other content: {words}", path.display())]
    OtherContent { path: PathBuf, words: String },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Files {
    fn batch(&self, part: &Part) -> io::Result<PathBuf> {
        let directory = self
            .directory
            .join(directory_of(part.batch_id, part.batch_key.as_ref()));
        fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    /// Writes a small file of a batch, under the rules of parts.
    fn put(&self, part: &Part, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let directory = self.batch(part)?;
        let temporary = Temporary::beside(&directory, name);
        let mut file = File::create(&temporary.0)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        let (path, hash) = (directory.join(name), blake3::hash(bytes));
        place(&temporary, &path, hash, Compression::None)?;
        File::open(&directory)?.sync_all()?;
        Ok(())
    }

    /// Keeps the reject list of a part that is delivered elsewhere.
    #[cfg_attr(
        not(feature = "http"),
        expect(dead_code, reason = "files have their own way")
    )]
    pub(super) fn put_rejects(&self, part: &Part, list: &[u8]) -> Result<(), SinkError> {
        self.put(part, &rejects_name(part), list)
            .map_err(|error| self.error(error))
    }

    fn error(&self, error: FileError) -> SinkError {
        match error {
            FileError::OtherContent { .. } => SinkError::Permanent {
                reason: error.to_string(),
            },
            FileError::Io(error) => SinkError::Retryable {
                reason: format!("`{}`: {error}", self.directory.display()),
            },
        }
    }
}

/// Gives a file that is whole its name; answers whether one with the same content had it already.
fn place(
    temporary: &Temporary,
    path: &Path,
    hash: blake3::Hash,
    compression: Compression,
) -> Result<bool, FileError> {
    // A link, unlike a rename, never replaces: of two processes that deliver the part at once, one is first.
    match fs::hard_link(&temporary.0, path) {
        Ok(()) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.into()),
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
mod tests {
    use super::super::Format;
    use super::super::tests_support::part;
    use super::*;

    fn sink(directory: &tempfile::TempDir, format: Format, compression: Compression) -> FileSink {
        let rendering = Rendering {
            format,
            compression,
        };
        FileSink::new(directory.path().to_owned(), rendering)
    }

    fn plain(directory: &tempfile::TempDir, format: Format) -> FileSink {
        sink(directory, format, Compression::None)
    }

    fn batch(directory: &tempfile::TempDir) -> PathBuf {
        directory.path().join(part(0, &[]).batch_id.to_string())
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_part_delivered_again_is_the_same_file_and_the_same_receipt() {
        let directory = tempfile::tempdir().unwrap();
        for (compression, name) in [
            (Compression::None, "0.jsonl"),
            (Compression::Gzip, "0.jsonl.gz"),
            (Compression::Zstd, "0.jsonl.zst"),
        ] {
            let sink = sink(&directory, Format::Envelope, compression);
            let first = sink.deliver(&part(0, &["a", "b"])).await.unwrap();
            let again = sink.deliver(&part(0, &["a", "b"])).await.unwrap();
            assert_eq!(first, again);
            let file = batch(&directory).join(name);
            let mut text = String::new();
            let mut reader = compression.reader(File::open(file).unwrap()).unwrap();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text.lines().count(), 2);
        }
        assert_eq!(
            names(&batch(&directory)),
            ["0.jsonl", "0.jsonl.gz", "0.jsonl.zst"],
            "no temporary file is left"
        );
    }

    #[tokio::test]
    async fn other_content_under_the_same_key_is_refused_and_nothing_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let sink = plain(&directory, Format::Body);
        sink.deliver(&part(0, &["a"])).await.unwrap();
        let error = sink.deliver(&part(0, &["b"])).await.unwrap_err();
        assert!(matches!(error, SinkError::Permanent { .. }), "{error}");
        let file = batch(&directory).join("0.txt");
        assert_eq!(fs::read_to_string(file).unwrap(), "a\n");
    }

    #[tokio::test]
    async fn a_compressed_file_that_cannot_be_read_back_is_other_content() {
        let directory = tempfile::tempdir().unwrap();
        for (compression, name) in [
            (Compression::Gzip, "0.txt.gz"),
            (Compression::Zstd, "0.txt.zst"),
        ] {
            fs::create_dir_all(batch(&directory)).unwrap();
            fs::write(batch(&directory).join(name), "a\n").unwrap();
            let sink = sink(&directory, Format::Body, compression);
            let error = sink.deliver(&part(0, &["a"])).await.unwrap_err();
            assert!(matches!(error, SinkError::Permanent { .. }), "{error}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_in_the_list_beside_the_part_at_every_attempt() {
        let directory = tempfile::tempdir().unwrap();
        let sink = plain(&directory, Format::Body);
        for _ in 0..2 {
            let receipt = sink.deliver(&part(0, &["a", "b\n", "c"])).await.unwrap();
            assert_eq!(receipt.rejected, 1);
            assert_eq!(names(&batch(&directory)), ["0.rejects", "0.txt"]);
            let read = |name| fs::read_to_string(batch(&directory).join(name)).unwrap();
            assert_eq!(read("0.txt"), "a\nc\n");
            let list = read("0.rejects");
            assert!(
                list.contains(r#""eventId":"e1","#) && list.contains(r#""reason":"body has"#),
                "{list}"
            );
        }
        sink.deliver(&part(1, &["\n"])).await.unwrap();
        let part = fs::read(batch(&directory).join("1.txt")).unwrap();
        assert!(
            part.is_empty(),
            "a part of rejects alone is there all the same"
        );
    }

    #[tokio::test]
    async fn a_reject_list_with_other_content_is_refused_before_the_part_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let list = batch(&directory).join("0.rejects");
        fs::create_dir_all(batch(&directory)).unwrap();
        fs::write(&list, "other").unwrap();
        let sink = plain(&directory, Format::Body);
        for bodies in [&["a\n"], &["a"]] {
            let error = sink.deliver(&part(0, bodies)).await.unwrap_err();
            assert!(matches!(error, SinkError::Permanent { .. }), "{error}");
            assert!(error.to_string().contains("0.rejects"), "{error}");
        }
        assert_eq!(names(&batch(&directory)), ["0.rejects"]);
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_made_is_an_error_that_may_pass() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let rendering = Rendering {
            format: Format::Body,
            compression: Compression::None,
        };
        let sink = FileSink::new(file.path().join("below"), rendering);
        let error = sink.deliver(&part(0, &["a"])).await.unwrap_err();
        assert!(matches!(error, SinkError::Retryable { .. }), "{error}");
    }
}
