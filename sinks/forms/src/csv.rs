//! Writes csv records with the quoting of the library `csv-core`.

use csv_core::{WriteResult, Writer};

/// Returns a record without a line break.
pub(crate) fn record<'f>(fields: impl Iterator<Item = &'f str>) -> String {
    let mut writer = Writer::new();
    let mut record = Vec::new();
    for (index, field) in fields.enumerate() {
        if index > 0 {
            push(&mut record, |piece| writer.delimiter(piece));
        }
        let mut rest = field.as_bytes();
        push(&mut record, |piece| {
            let (result, read, written) = writer.field(rest, piece);
            rest = &rest[read..];
            (result, written)
        });
    }
    // The terminator also quotes a record that would be empty.
    push(&mut record, |piece| writer.terminator(piece));
    record.pop();
    String::from_utf8(record).expect("the fields are texts")
}

/// Calls `write` with a small buffer until it has written everything, and appends each buffer.
fn push(to: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> (WriteResult, usize)) {
    let mut piece = [0; 1 << 10];
    loop {
        let (result, written) = write(&mut piece);
        to.extend_from_slice(&piece[..written]);
        match result {
            WriteResult::InputEmpty => return,
            WriteResult::OutputFull => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn written_records_read_back_unchanged(
            fields in vec(prop_oneof!["[\",\r\n a;]{0,9}", any::<String>(), "x{2000}\"y{2000}"], 1..6),
        ) {
            // The reader skips this character at the start, as a byte order mark.
            prop_assume!(!fields[0].starts_with('\u{feff}'));
            let mut to = String::new();
            for _ in 0..2 {
                to += &record(fields.iter().map(String::as_str));
                to.push('\n');
            }
            let mut reader = ::csv::ReaderBuilder::new().has_headers(false).from_reader(to.as_bytes());
            let records: Vec<Vec<String>> = reader
                .records()
                .map(|record| record.unwrap().iter().map(str::to_owned).collect())
                .collect();
            prop_assert_eq!(records, [fields.clone(), fields]);
        }
    }
}
