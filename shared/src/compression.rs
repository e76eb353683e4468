//! Compression of bodies that would otherwise take more write units: zstd at its fastest level.

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::get_frame_content_size;

use protocol::limits::SQS_MESSAGE_BYTES_MAX;

/// Stored bytes that are not a valid compressed body.
#[derive(Debug, thiserror::Error)]
pub enum DecompressError {
    /// The frame header has no length, or one that is too large.
    #[error(
        "not a valid compressed body: got a length of {bytes} bytes, expected 1 to {bytes_max}"
    )]
    Length {
        /// The length in the header, 0 if there is none.
        bytes: u64,
        bytes_max: usize,
    },
    #[error("not a valid compressed body: {0}")]
    Frame(std::io::Error),
    #[error("not a valid compressed body: {0}")]
    Text(#[from] std::string::FromUtf8Error),
}

// Contexts are kept, because setting one up takes longer than compressing most bodies.
thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Returns the compressed body; `None` when it is not shorter.
pub fn compress(body: &str) -> Option<Vec<u8>> {
    let bytes = compress_bytes(body.as_bytes()).ok()?;
    (bytes.len() < body.len()).then_some(bytes)
}

/// Returns compressed bytes, whether they are shorter or not.
///
/// # Errors
/// The library could not allocate memory.
pub fn compress_bytes(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| {
        let compressor = match compressor {
            Some(compressor) => compressor,
            None => compressor.insert(Compressor::new(1)?),
        };
        compressor.compress(bytes)
    })
}

/// Returns the body that was compressed.
///
/// # Errors
/// [`DecompressError`]; the same bytes fail every time.
pub fn decompress(bytes: &[u8]) -> Result<String, DecompressError> {
    let bytes = decompress_bytes(bytes, SQS_MESSAGE_BYTES_MAX)?;
    Ok(String::from_utf8(bytes)?)
}

/// Decompresses bytes. Returns at most `bytes_max` bytes.
///
/// # Errors
/// [`DecompressError`]; the same bytes fail every time.
pub fn decompress_bytes(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, DecompressError> {
    let wrong_length = |bytes| DecompressError::Length { bytes, bytes_max };
    let length = match get_frame_content_size(bytes) {
        Ok(Some(length)) if length <= bytes_max as u64 => length as usize,
        Ok(Some(bytes)) => return Err(wrong_length(bytes)),
        Ok(None) | Err(_) => return Err(wrong_length(0)),
    };
    DECOMPRESSOR.with_borrow_mut(|decompressor| {
        let decompressor = match decompressor {
            Some(decompressor) => decompressor,
            None => decompressor.insert(Decompressor::new().map_err(DecompressError::Frame)?),
        };
        decompressor
            .decompress(bytes, length)
            .map_err(DecompressError::Frame)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_compressed_body_decompresses_to_the_same_text(piece in "\\\\PC{1,40}", times in 1..2_000_usize) {
            let body = piece.repeat(times);
            if let Some(bytes) = compress(&body) {
                prop_assert!(bytes.len() < body.len());
                prop_assert_eq!(decompress(&bytes).unwrap(), body);
            }
        }

        #[test]
        fn bytes_that_are_not_a_compressed_body_are_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            // Random bytes begin like a frame in one of 4 billion cases only.
            prop_assert!(decompress(&bytes).is_err());
        }
    }

    #[test]
    fn a_frame_with_a_length_above_the_limit_is_refused() {
        let long = "x".repeat(SQS_MESSAGE_BYTES_MAX + 1);
        let error = decompress(&compress(&long).unwrap()).unwrap_err();
        assert!(error.to_string().contains("1048577 bytes"), "{error}");
    }
}
