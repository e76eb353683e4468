use std::io::{self, BufWriter, Write};

use sha2::{Digest, Sha256};

use crate::compression::Compression;
use crate::encoding::{Encoding, LineEnd};
use crate::format::Format;
use crate::layout::Layout;
use crate::part::Part;
use crate::reject::Reject;

/// How a part becomes bytes: its format, its layout and its compression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendering {
    /// The format of the records.
    pub format: Format,
    /// How the records are laid out.
    pub layout: Layout,
    /// How the formatted part is compressed.
    pub compression: Compression,
}

/// Facts about the written part.
#[derive(Debug)]
pub struct Content {
    /// Hash of the bytes before compression: another version of the compressor may compress the same content differently.
    pub hash: blake3::Hash,
    /// SHA-256 of the same bytes, in hexadecimal; [`None`] if the writer did not ask for it.
    pub sha256: Option<String>,
    /// Number of bytes before compression.
    pub bytes: u64,
    /// The records that the format cannot carry.
    pub rejects: Vec<Reject>,
}

impl Rendering {
    /// Returns the name of a part's file or object, `<part>.<ext>`.
    pub fn name(&self, part: usize) -> String {
        let (format, compression) = (self.format.extension(), self.compression.extension());
        format!("{part}.{format}{compression}")
    }

    /// Returns whether the bytes of a part are a text in UTF-8, which JSON can carry.
    pub fn is_text(&self) -> bool {
        self.compression == Compression::None
            && self.layout.encoding == Encoding::Utf8
            && self.layout.line_end != LineEnd::Rdw
            && !matches!(self.format, Format::Parquet(_))
    }

    /// Returns the media type of the part before compression, for `Content-Type`.
    pub fn content_type(&self) -> String {
        self.format.content_type(self.layout.encoding)
    }

    /// Returns the hash of the formatted part, before compression.
    ///
    /// # Errors
    /// None in practice, because the bytes are discarded.
    pub fn hash(&self, part: &Part) -> io::Result<blake3::Hash> {
        self.write(part, io::sink())
            .map(|(_, content)| content.hash)
    }

    /// Writes a part; returns the writer and facts about the content, without its SHA-256. The same part gives the same bytes at
    /// every attempt.
    ///
    /// # Errors
    /// The writer failed.
    pub fn write<W: Write>(&self, part: &Part, to: W) -> io::Result<(W, Content)> {
        self.write_hashed(part, to, None)
    }

    /// Writes a part as [`write`](Self::write) does; returns the SHA-256 of the content too, which only a manifest has.
    pub fn write_for_manifest<W: Write>(&self, part: &Part, to: W) -> io::Result<(W, Content)> {
        self.write_hashed(part, to, Some(Sha256::new()))
    }

    fn write_hashed<W: Write>(
        &self,
        part: &Part,
        to: W,
        sha256: Option<Sha256>,
    ) -> io::Result<(W, Content)> {
        // The buffer is in front of the hash, because blake3 is several times as fast over large pieces.
        let mut to = BufWriter::with_capacity(
            1 << 18,
            Hashing {
                to: self.compression.writer(to)?,
                hasher: blake3::Hasher::new(),
                sha256,
            },
        );
        let rejects = self.format.write_as(&self.layout, part, &mut to)?;
        let Hashing { to, hasher, sha256 } =
            to.into_inner().map_err(io::IntoInnerError::into_error)?;
        let content = Content {
            hash: hasher.finalize(),
            sha256: sha256.map(|hasher| hex::encode(hasher.finalize())),
            bytes: hasher.count(),
            rejects,
        };
        Ok((to.finish()?, content))
    }
}

/// A writer that also hashes what it writes.
struct Hashing<W> {
    to: W,
    hasher: blake3::Hasher,
    sha256: Option<Sha256>,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(&bytes[..count]);
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_support::{part, rendering};

    #[test]
    fn the_hash_does_not_depend_on_the_compression() {
        let part = part(1, &["a", "b\n"]);
        let hashes = [Compression::None, Compression::Gzip, Compression::Zstd].map(|compression| {
            let rendering = rendering(Format::Body, compression);
            let (_, content) = rendering.write(&part, io::sink()).unwrap();
            assert_eq!((content.bytes, content.rejects.len()), (2, 1));
            content.hash
        });
        assert_eq!(hashes, [blake3::hash(b"a\n"); 3]);
    }
}
