//! Rules for batch requests as a whole. A batch that breaks one is refused completely.

use std::collections::BTreeSet;

use super::error::SqsError;
use super::limits;

/// Checks the number of entries and their ids.
///
/// # Errors
/// `EmptyBatchRequest`, `TooManyEntriesInBatchRequest`, `InvalidBatchEntryId`, `BatchEntryIdsNotDistinct`.
pub(super) fn check_ids<'a>(ids: impl ExactSizeIterator<Item = &'a str>) -> Result<(), SqsError> {
    match ids.len() {
        0 => return Err(SqsError::EmptyBatchRequest),
        1..=limits::BATCH_ENTRIES_MAX => {}
        count => return Err(SqsError::TooManyEntriesInBatchRequest { count }),
    }
    let mut seen = BTreeSet::new();
    for id in ids {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !(1..=limits::BATCH_ENTRY_ID_CHARS_MAX).contains(&id.len()) || !id.bytes().all(allowed) {
            return Err(SqsError::InvalidBatchEntryId { id: id.to_owned() });
        }
        if !seen.insert(id) {
            return Err(SqsError::BatchEntryIdsNotDistinct { id: id.to_owned() });
        }
    }
    Ok(())
}

/// Checks the total size of the messages of a batch.
///
/// # Errors
/// `BatchRequestTooLong` over 1 MiB.
pub(super) fn check_bytes(bytes: usize) -> Result<(), SqsError> {
    let bytes_max = limits::BATCH_BYTES_MAX;
    if bytes > bytes_max {
        Err(SqsError::BatchRequestTooLong { bytes, bytes_max })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(ids: &[&str]) -> Result<(), SqsError> {
        check_ids(ids.iter().copied())
    }

    #[test]
    fn a_batch_has_one_to_ten_entries() {
        let ids: Vec<String> = (0..11).map(|n| n.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        assert_eq!(checked(&[]), Err(SqsError::EmptyBatchRequest));
        assert_eq!(
            checked(&ids),
            Err(SqsError::TooManyEntriesInBatchRequest { count: 11 })
        );
        assert_eq!(checked(&ids[..10]), Ok(()));
    }

    #[test]
    fn entry_ids_are_short_plain_and_distinct() {
        let long = "a".repeat(81);
        assert_eq!(
            checked(&["a", "b", "a"]),
            Err(SqsError::BatchEntryIdsNotDistinct { id: "a".to_owned() })
        );
        for id in ["", "a.b", "é", &long] {
            assert_eq!(
                checked(&[id]),
                Err(SqsError::InvalidBatchEntryId { id: id.to_owned() })
            );
        }
        assert_eq!(checked(&["aZ-_9", &long[1..]]), Ok(()));
    }
}
