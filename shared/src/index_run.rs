//! The formats of runs and of lists of runs: the objects of the index.
//!
//! A run begins with the length of its header, four bytes, and the header as JSON, compressed by zstd. The entries follow, of
//! [`ENTRY_BYTES`] each. A list is JSON, compressed by zstd.

use protocol::format_version::{self, FORMAT_VERSION, LaterFormat};
use protocol::log::{ENTRY_BYTES, Entry, RunHeader, RunList, object_hash};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::compression::{DecompressError, compress_bytes, decompress_bytes};

/// Maximum bytes of a header or a list, uncompressed.
const JSON_BYTES_MAX: usize = 64 << 20;
/// Bytes of the length of the header.
const LENGTH_BYTES: usize = 4;

/// An object of the index that cannot be read. A retry would read the same.
#[derive(Debug, thiserror::Error)]
pub enum IndexFormatError {
    #[error("too short: got {bytes} bytes, expected a header")]
    Short { bytes: usize },
    #[error("other bytes than the list of runs says")]
    OtherBytes,
    #[error("{0}")]
    Compressed(#[from] DecompressError),
    #[error("not of this form: {0}")]
    Json(#[from] serde_json::Error),
    #[error("entries: got {bytes} bytes, expected a multiple of {ENTRY_BYTES}")]
    Entries { bytes: usize },
    #[error(transparent)]
    Later(#[from] LaterFormat),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned<T> {
    format_version: u64,
    #[serde(flatten)]
    value: T,
}

/// The entries of a run, in order.
pub type Entries = Vec<[u8; ENTRY_BYTES]>;

/// Returns a run. `entries` are sorted.
pub fn encode_run(header: &RunHeader, entries: &[Entry]) -> Vec<u8> {
    let header = to_json(header);
    let mut run = Vec::with_capacity(LENGTH_BYTES + header.len() + entries.len() * ENTRY_BYTES);
    run.extend((header.len() as u32).to_be_bytes());
    run.extend(header);
    for entry in entries {
        run.extend(entry.to_bytes());
    }
    run
}

/// Reads a run that must have this hash.
///
/// # Errors
/// [`IndexFormatError`]: the run is damaged, or a later version of the service wrote it.
pub fn decode_run(bytes: &[u8], hash: [u8; 16]) -> Result<(RunHeader, Entries), IndexFormatError> {
    if object_hash(bytes) != hash {
        return Err(IndexFormatError::OtherBytes);
    }
    let short = || IndexFormatError::Short { bytes: bytes.len() };
    let (length, rest) = bytes
        .split_first_chunk::<LENGTH_BYTES>()
        .ok_or_else(short)?;
    let length = u32::from_be_bytes(*length) as usize;
    let (header, entries) = rest.split_at_checked(length).ok_or_else(short)?;
    let header = from_json(header)?;
    let (entries, left) = entries.as_chunks::<ENTRY_BYTES>();
    if !left.is_empty() {
        let bytes = entries.len() * ENTRY_BYTES + left.len();
        return Err(IndexFormatError::Entries { bytes });
    }
    Ok((header, entries.to_vec()))
}

/// Returns a list of runs.
pub fn encode_list(list: &RunList) -> Vec<u8> {
    to_json(list)
}

/// Reads a list of runs.
///
/// # Errors
/// As [`decode_run`].
pub fn decode_list(bytes: &[u8]) -> Result<RunList, IndexFormatError> {
    from_json(bytes)
}

fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    let versioned = Versioned {
        format_version: FORMAT_VERSION,
        value,
    };
    let json = serde_json::to_vec(&versioned).expect("texts and numbers can be written as JSON");
    compress_bytes(&json).expect("there is memory for an object of the index")
}

fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, IndexFormatError> {
    let json = decompress_bytes(bytes, JSON_BYTES_MAX)?;
    let version: format_version::Versioned = serde_json::from_slice(&json)?;
    version.check()?;
    let versioned: Versioned<T> = serde_json::from_slice(&json)?;
    Ok(versioned.value)
}

#[cfg(test)]
mod tests {
    use protocol::log::{IdHash, Owner, RunRef, Tally};
    use protocol::time::Timestamp;

    use super::*;

    fn header() -> RunHeader {
        RunHeader {
            owners: vec![Owner::Primed {
                until: Timestamp::from_ms(9),
            }],
            duplicates: [1, 2].into_iter().collect(),
            conflicts: [70_000].into_iter().collect(),
            beyond_quota: [5].into_iter().collect(),
            tallies: vec![Tally {
                account: "00ff".parse().unwrap(),
                ends_at: Timestamp::from_ms(9),
                count: 3,
            }],
        }
    }

    fn entry(id: u128) -> Entry {
        Entry {
            id: IdHash::new(id),
            owner: 0,
            seq: 3,
            message: 4,
            body: 5,
        }
    }

    #[test]
    fn a_run_reads_back_as_it_was_written() {
        let entries = [entry(1), entry(2)];
        let run = encode_run(&header(), &entries);
        let (read, bytes) = decode_run(&run, object_hash(&run)).unwrap();
        assert_eq!(read, header());
        assert_eq!(bytes, entries.map(Entry::to_bytes));
        let empty = encode_run(&RunHeader::default(), &[]);
        let (read, bytes) = decode_run(&empty, object_hash(&empty)).unwrap();
        assert_eq!((read, bytes.len()), (RunHeader::default(), 0));
    }

    #[test]
    fn a_list_reads_back_as_it_was_written() {
        let list = RunList {
            runs: vec![RunRef {
                run: uuid::Uuid::from_u128(1),
                hash: [9; 16],
                bodies: "log:s3://b/p/".parse().unwrap(),
                entries: 3,
                ends_at: Timestamp::from_ms(5),
                events_end_at: Timestamp::from_ms(5),
                tallies_end_at: Timestamp::from_ms(7),
                rows: 2,
                batch: Some("0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap()),
            }],
            left_out_until: Timestamp::from_ms(2),
            counted_from: Timestamp::from_ms(3),
        };
        assert_eq!(decode_list(&encode_list(&list)).unwrap(), list);
    }

    #[test]
    fn damaged_objects_are_refused_with_the_reason() {
        let run = encode_run(&header(), &[entry(1)]);
        let refused = |bytes: &[u8]| {
            let read = decode_run(bytes, object_hash(bytes));
            read.unwrap_err().to_string()
        };
        let other = decode_run(&run, [0; 16]).unwrap_err();
        assert!(matches!(other, IndexFormatError::OtherBytes), "{other}");
        let cases = [
            (refused(b"abc"), "too short: got 3 bytes"),
            (refused(&[0, 0, 0, 9, 1]), "too short: got 5 bytes"),
            (refused(&run[..run.len() - 1]), "got 39 bytes"),
            (refused(&[0, 0, 0, 1, 1]), "not a valid compressed"),
        ];
        for (error, words) in cases {
            assert!(error.contains(words), "{error}");
        }
        let json = |text: &[u8]| decode_list(&compress_bytes(text).unwrap()).unwrap_err();
        let later = json(b"{\"formatVersion\":3}");
        assert!(matches!(later, IndexFormatError::Later(_)), "{later}");
        assert!(matches!(json(b"{}"), IndexFormatError::Json(_)));
    }
}
