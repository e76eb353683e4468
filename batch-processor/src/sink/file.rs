use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use tracing::info;
use uuid::Uuid;

use super::{Format, Part, Receipt, RenderError, Sink, SinkError};

/// A file for each part: `<directory>/<batchId>/<part>.<ext>`, there whole or not at all.
#[derive(Debug)]
pub struct FileSink {
    directory: PathBuf,
    format: Format,
}

impl FileSink {
    /// Files below `directory`, which is created when it is needed.
    pub fn new(directory: PathBuf, format: Format) -> FileSink {
        FileSink { directory, format }
    }

    fn write(&self, part: &Part) -> Result<Written, RenderError> {
        let directory = self.directory.join(part.batch_id.to_string());
        let name = format!("{}.{}", part.number, self.format.extension());
        fs::create_dir_all(&directory)?;
        let temporary = Temporary(directory.join(format!(".{name}.{}.tmp", Uuid::now_v7())));
        // The buffer comes first: the hash is several times as fast over large pieces.
        let mut to = BufWriter::with_capacity(
            1 << 18,
            Hashing {
                to: File::create(&temporary.0)?,
                hasher: blake3::Hasher::new(),
            },
        );
        self.format.write(part, &mut to)?;
        to.flush()?;
        let hash = to.get_ref().hasher.finalize();
        to.get_ref().to.sync_all()?;
        let path = directory.join(name);
        // A link, unlike a rename, never replaces: of two processes that deliver the part at once, one is first.
        let before = match fs::hard_link(&temporary.0, &path) {
            Ok(()) => None,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Some(hash_of(&path)?),
            Err(error) => return Err(error.into()),
        };
        File::open(&directory)?.sync_all()?;
        Ok(Written { path, hash, before })
    }
}

struct Written {
    path: PathBuf,
    hash: blake3::Hash,
    before: Option<blake3::Hash>,
}

impl Sink for FileSink {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let Written { path, hash, before } = self.write(part).map_err(|error| match error {
            RenderError::LineBreak { .. } => SinkError::Permanent {
                reason: error.to_string(),
            },
            RenderError::Write(error) => SinkError::Retryable {
                reason: format!("`{}`: {error}", self.directory.display()),
            },
        })?;
        info!(part_key = part.key(), items_count = part.items.len(), content_hash = %hash, repeated = before.is_some(), "part written");
        match before {
            Some(before) if before != hash => Err(SinkError::Permanent {
                reason: format!(
                    "`{}` exists with other content: hash {before}, ours is {hash}",
                    path.display()
                ),
            }),
            Some(_) | None => Ok(Receipt(format!("blake3:{hash}"))),
        }
    }
}

fn hash_of(path: &Path) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    let mut file = File::open(path)?;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            count => hasher.update(&buffer[..count]),
        };
    }
}

/// Removed when dropped; a crash leaves it behind, hidden, under a name of its own.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

struct Hashing<W> {
    to: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::part;
    use super::*;

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
        let sink = FileSink::new(directory.path().to_owned(), Format::Envelope);
        let first = sink.deliver(&part(0, &["a", "b"])).await.unwrap();
        let again = sink.deliver(&part(0, &["a", "b"])).await.unwrap();
        assert_eq!(first, again);
        let batch = directory.path().join(part(0, &[]).batch_id.to_string());
        assert_eq!(names(&batch), ["0.jsonl"], "no temporary file is left");
        assert_eq!(
            fs::read_to_string(batch.join("0.jsonl"))
                .unwrap()
                .lines()
                .count(),
            2
        );
    }

    #[tokio::test]
    async fn other_content_under_the_same_key_is_refused_and_nothing_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let sink = FileSink::new(directory.path().to_owned(), Format::Body);
        sink.deliver(&part(0, &["a"])).await.unwrap();
        let error = sink.deliver(&part(0, &["b"])).await.unwrap_err();
        assert!(matches!(error, SinkError::Permanent { .. }), "{error}");
        let file = directory
            .path()
            .join(part(0, &[]).batch_id.to_string())
            .join("0.txt");
        assert_eq!(fs::read_to_string(file).unwrap(), "a\n");
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_made_is_an_error_that_may_pass() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let sink = FileSink::new(file.path().join("below"), Format::Body);
        let error = sink.deliver(&part(0, &["a"])).await.unwrap_err();
        assert!(matches!(error, SinkError::Retryable { .. }), "{error}");
    }
}
