use std::io::{self, BufReader, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// How a part is compressed: `SINK_COMPRESSION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    None,
    /// gzip (RFC 1952), with no time in its header, so that equal content gives equal bytes.
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
}

/// The usual gzip level, of 1 to 9.
const GZIP_LEVEL: u32 = 6;
/// The default level of the zstd library.
const ZSTD_LEVEL: i32 = 3;

impl Compression {
    /// Returns the extension that compressed files have, with its dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        }
    }

    /// Returns the name in `SINK_COMPRESSION` and in HTTP's `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }

    /// Returns a writer that compresses what is written to it.
    ///
    /// # Errors
    /// The library could not allocate memory.
    pub fn writer<W: Write>(self, to: W) -> io::Result<Compressing<W>> {
        Ok(match self {
            Compression::None => Compressing::None(to),
            Compression::Gzip => {
                Compressing::Gzip(GzEncoder::new(to, flate2::Compression::new(GZIP_LEVEL)))
            }
            Compression::Zstd => Compressing::Zstd(zstd::Encoder::new(to, ZSTD_LEVEL)?),
        })
    }

    /// Returns a reader of the decompressed bytes.
    ///
    /// # Errors
    /// The library could not allocate memory.
    pub fn reader<'r>(self, from: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
        Ok(match self {
            Compression::None => Box::new(from),
            Compression::Gzip => Box::new(MultiGzDecoder::new(BufReader::new(from))),
            Compression::Zstd => Box::new(zstd::Decoder::new(from)?),
        })
    }

    /// Returns the hash of the decompressed bytes.
    ///
    /// # Errors
    /// They cannot be read or decompressed.
    pub fn hash<'r>(self, from: impl Read + 'r) -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        let mut reader = self.reader(from)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(hasher.finalize()),
                count => hasher.update(&buffer[..count]),
            };
        }
    }
}

/// A writer that compresses.
pub enum Compressing<W: Write> {
    /// It passes bytes on.
    None(W),
    /// To gzip.
    Gzip(GzEncoder<W>),
    /// To Zstandard.
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Compressing<W> {
    /// Writes the end of the compressed stream; returns the inner writer.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Compressing::None(to) => Ok(to),
            Compressing::Gzip(to) => to.finish(),
            Compressing::Zstd(to) => to.finish(),
        }
    }
}

impl<W: Write> Write for Compressing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Compressing::None(to) => to.write(bytes),
            Compressing::Gzip(to) => to.write(bytes),
            Compressing::Zstd(to) => to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Compressing::None(to) => to.flush(),
            Compressing::Gzip(to) => to.flush(),
            Compressing::Zstd(to) => to.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_compress_to_equal_bytes_and_decompress_to_the_original() {
        let text = "a record like any other\n".repeat(1_000);
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let compressed = || {
                let mut writer = compression.writer(Vec::new()).unwrap();
                writer.write_all(text.as_bytes()).unwrap();
                writer.finish().unwrap()
            };
            let bytes = compressed();
            assert_eq!(bytes, compressed(), "{compression:?}");
            let mut back = String::new();
            let mut reader = compression.reader(bytes.as_slice()).unwrap();
            reader.read_to_string(&mut back).unwrap();
            assert_eq!(back, text, "{compression:?}");
            assert_eq!(compression == Compression::None, bytes.len() == text.len());
        }
    }

    #[test]
    fn a_gzip_header_has_no_time() {
        let writer = Compression::Gzip.writer(Vec::new()).unwrap();
        let bytes = writer.finish().unwrap();
        assert_eq!(bytes[4..8], [0; 4]);
    }
}
