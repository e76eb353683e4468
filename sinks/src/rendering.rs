use std::io::{self, BufWriter, Write};

use crate::compression::Compression;
use crate::format::Format;
use crate::part::Part;
use crate::reject::Reject;

/// What the bytes of a part are: its format, and how it is compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendering {
    /// What a record looks like.
    pub format: Format,
    /// How the whole is compressed.
    pub compression: Compression,
}

/// What was written of a part.
#[derive(Debug)]
pub(crate) struct Content {
    /// Of the bytes before they were compressed: another version of a compressor may make others of the same content.
    pub(crate) hash: blake3::Hash,
    /// How many there were, before they were compressed.
    pub(crate) bytes: u64,
    /// What could not be written.
    pub(crate) rejects: Vec<Reject>,
}

impl Rendering {
    /// The name of a part's file or object.
    pub(crate) fn name(&self, part: usize) -> String {
        let (format, compression) = (self.format.extension(), self.compression.extension());
        format!("{part}.{format}{compression}")
    }

    /// Returns the hash of what a part is written as, before it is compressed.
    ///
    /// # Errors
    /// None in practice: nothing is written anywhere.
    pub fn hash(&self, part: &Part) -> io::Result<blake3::Hash> {
        self.write(part, io::sink())
            .map(|(_, content)| content.hash)
    }

    /// Writes a part. The same part is the same bytes, every time.
    ///
    /// # Errors
    /// The writer's.
    pub(crate) fn write<W: Write>(&self, part: &Part, to: W) -> io::Result<(W, Content)> {
        // The buffer comes first: the hash is several times as fast over large pieces.
        let mut to = BufWriter::with_capacity(
            1 << 18,
            Hashing {
                to: self.compression.writer(to)?,
                hasher: blake3::Hasher::new(),
            },
        );
        let rejects = self.format.write(part, &mut to)?;
        let Hashing { to, hasher } = to.into_inner().map_err(io::IntoInnerError::into_error)?;
        let content = Content {
            hash: hasher.finalize(),
            bytes: hasher.count(),
            rejects,
        };
        Ok((to.finish()?, content))
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
    use super::*;
    use crate::tests_support::part;

    #[test]
    fn the_hash_is_of_the_content_however_it_is_compressed() {
        let part = part(1, &["a", "b\n"]);
        let hashes = [Compression::None, Compression::Gzip, Compression::Zstd].map(|compression| {
            let rendering = Rendering {
                format: Format::Body,
                compression,
            };
            let (_, content) = rendering.write(&part, io::sink()).unwrap();
            assert_eq!((content.bytes, content.rejects.len()), (2, 1));
            content.hash
        });
        assert_eq!(hashes, [blake3::hash(b"a\n"); 3]);
    }

    #[test]
    fn a_name_says_how_to_read_it() {
        let rendering = Rendering {
            format: Format::Envelope,
            compression: Compression::Zstd,
        };
        assert_eq!(rendering.name(12), "12.jsonl.zst");
    }
}
