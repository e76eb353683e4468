//! Bodies as they are stored where they would otherwise take more write units: zstd, at its fastest.

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::get_frame_content_size;

use protocol::limits::SQS_MESSAGE_BYTES_MAX;

/// Stored bytes that are no compressed body.
#[derive(Debug, thiserror::Error)]
pub enum DecompressError {
    /// They do not say how long the body is, or too much.
    #[error("is no body that was compressed: `{bytes}` bytes, at most {SQS_MESSAGE_BYTES_MAX} are")]
    Length {
        /// What they say.
        bytes: u64,
    },
    /// They are something else.
    #[error("is no zstd frame: {0}")]
    Frame(std::io::Error),
    /// They are not text.
    #[error("is no text: {0}")]
    Text(#[from] std::string::FromUtf8Error),
}

// A context takes longer to set up than most bodies take to be compressed.
thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// A body, compressed; `None` when that makes it no shorter.
pub fn compress(body: &str) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| {
        let compressor = match compressor {
            Some(compressor) => compressor,
            None => compressor.insert(Compressor::new(1).ok()?),
        };
        let bytes = compressor.compress(body.as_bytes()).ok()?;
        (bytes.len() < body.len()).then_some(bytes)
    })
}

/// The body that was compressed.
///
/// # Errors
/// [`DecompressError`]; the same bytes fail every time.
pub fn decompress(bytes: &[u8]) -> Result<String, DecompressError> {
    let length = match get_frame_content_size(bytes) {
        Ok(Some(length)) if length <= SQS_MESSAGE_BYTES_MAX as u64 => length as usize,
        Ok(Some(bytes)) => return Err(DecompressError::Length { bytes }),
        Ok(None) | Err(_) => return Err(DecompressError::Length { bytes: 0 }),
    };
    DECOMPRESSOR.with_borrow_mut(|decompressor| {
        let decompressor = match decompressor {
            Some(decompressor) => decompressor,
            None => decompressor.insert(Decompressor::new().map_err(DecompressError::Frame)?),
        };
        let bytes = decompressor
            .decompress(bytes, length)
            .map_err(DecompressError::Frame)?;
        Ok(String::from_utf8(bytes)?)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(piece in "\\\\PC{1,40}", times in 1..2_000_usize) {
            let body = piece.repeat(times);
            if let Some(bytes) = compress(&body) {
                prop_assert!(bytes.len() < body.len());
                prop_assert_eq!(decompress(&bytes).unwrap(), body);
            }
        }

        #[test]
        fn any_other_bytes_are_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            // Four bytes in four thousand million are a frame's start.
            prop_assert!(decompress(&bytes).is_err());
        }
    }

    #[test]
    fn a_frame_that_says_it_is_longer_than_any_message_is_refused_unread() {
        let long = "x".repeat(SQS_MESSAGE_BYTES_MAX + 1);
        let error = decompress(&compress(&long).unwrap()).unwrap_err();
        assert!(error.to_string().contains("`1048577` bytes"), "{error}");
    }
}
