use std::io::{self, BufReader, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// How a part is compressed: `SINK_COMPRESSION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// RFC 1952, without a time in it.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// Of gzip's nine.
const GZIP_LEVEL: u32 = 6;
/// The library's default.
const ZSTD_LEVEL: i32 = 3;

impl Compression {
    /// What it adds to the name of a file.
    pub const fn extension(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        }
    }

    /// As `SINK_COMPRESSION` and HTTP's `Content-Encoding` name it.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }

    /// Compresses what is written to it.
    ///
    /// # Errors
    /// If the library has no memory.
    pub(crate) fn writer<W: Write>(self, to: W) -> io::Result<Compressing<W>> {
        Ok(match self {
            Compression::None => Compressing::None(to),
            Compression::Gzip => {
                Compressing::Gzip(GzEncoder::new(to, flate2::Compression::new(GZIP_LEVEL)))
            }
            Compression::Zstd => Compressing::Zstd(zstd::Encoder::new(to, ZSTD_LEVEL)?),
        })
    }

    /// What was compressed.
    ///
    /// # Errors
    /// If the library has no memory.
    pub(crate) fn reader<'r>(self, from: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
        Ok(match self {
            Compression::None => Box::new(from),
            Compression::Gzip => Box::new(MultiGzDecoder::new(BufReader::new(from))),
            Compression::Zstd => Box::new(zstd::Decoder::new(from)?),
        })
    }
}

pub(crate) enum Compressing<W: Write> {
    None(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Compressing<W> {
    /// Writes the end, and gives back what it wrote to.
    pub(crate) fn finish(self) -> io::Result<W> {
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
    fn the_same_bytes_compress_to_the_same_bytes_and_come_back() {
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
    fn gzip_carries_no_time() {
        let bytes = Compression::Gzip
            .writer(Vec::new())
            .unwrap()
            .finish()
            .unwrap();
        assert_eq!(bytes[4..8], [0; 4]);
    }
}
