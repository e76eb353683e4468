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
    match bytes > bytes_max {
        true => Err(SqsError::BatchRequestTooLong { bytes, bytes_max }),
        false => Ok(()),
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
        let ids = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];
        assert_eq!(checked(&[]), Err(SqsError::EmptyBatchRequest));
        let too_many = SqsError::TooManyEntriesInBatchRequest { count: 11 };
        assert_eq!(checked(&ids), Err(too_many));
        assert_eq!(checked(&ids[..10]), Ok(()));
    }

    #[test]
    fn entry_ids_are_short_plain_and_distinct() {
        let long = "a".repeat(81);
        let id = "a".to_owned();
        let repeated = SqsError::BatchEntryIdsNotDistinct { id };
        assert_eq!(checked(&["a", "b", "a"]), Err(repeated));
        for text in ["", "a.b", "é", &long] {
            let id = text.to_owned();
            let invalid = SqsError::InvalidBatchEntryId { id };
            assert_eq!(checked(&[text]), Err(invalid));
        }
        assert_eq!(checked(&["aZ-_9", &long[1..]]), Ok(()));
    }
}
