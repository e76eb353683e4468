//! Names of batches and batch keys in paths and headers, where only some characters are allowed.

use protocol::ids::{BatchId, BatchKey};

use crate::part::Part;

/// The longest directory name that is made from a batch key. It leaves room for the prefix in an object's name.
const KEY_NAME_BYTES_MAX: usize = 128;

/// Returns the path of a batch's files or objects, relative to the sink's directory or prefix: `<batchId>`, or with
/// `BATCH_KEY` `<batch key>/<batchId>`, where the batch key is its `key_name`.
pub fn directory_of(batch_id: BatchId, batch_key: Option<&BatchKey>) -> String {
    match batch_key {
        None => batch_id.to_string(),
        Some(key) => format!("{}/{batch_id}", key_name(key)),
    }
}

/// Returns the name of the reject list of a part, by the number of the part in its batch.
pub fn rejects_name(part: usize) -> String {
    format!("{part}.rejects")
}

/// Returns the name of the list of events of a part with a link, by the number of the part in its batch.
pub fn events_name(part: usize) -> String {
    format!("{part}.events")
}

/// Returns a batch key as one step of a path.
///
/// ASCII letters, digits and `-._` stay as they are, except for a dot at the start. Every other byte becomes `!` and two
/// hexadecimal digits; S3 advises against percent signs. If the encoded key is longer than 128 bytes, its first 110 bytes are
/// kept, followed by `!-` and 16 hexadecimal digits of the key's blake3 hash.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html> (2026-08).
pub fn key_name(key: &BatchKey) -> String {
    let mut name = percent_encoded(key.as_str())
        .replace('~', "%7E")
        .replace('%', "!");
    if name.starts_with('.') {
        name.replace_range(..1, "!2E");
    }
    if name.len() > KEY_NAME_BYTES_MAX {
        let hash = blake3::hash(key.as_str().as_bytes()).to_hex();
        name.truncate(KEY_NAME_BYTES_MAX - 18);
        name = format!("{name}!-{}", &hash[..16]);
    }
    name
}

/// Returns a path as messages have it: if the part has a batch key, between the marks of what log lines leave out.
pub fn shown(part: &Part, path: &str) -> String {
    match part.batch_key {
        Some(_) => format!("‹{path}›"),
        None => path.to_owned(),
    }
}

/// Returns a text, percent-encoded, for a name, a header or a query.
pub fn percent_encoded(text: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_support;

    #[test]
    fn a_batch_key_is_encoded_to_letters_digits_and_a_few_signs() {
        let key: BatchKey = "Zoë/2026-11|%".parse().unwrap();
        assert_eq!(percent_encoded(key.as_str()), "Zo%C3%AB%2F2026-11%7C%25");
        let query = percent_encoded("a b/ü\"&?");
        assert_eq!(query, "a%20b%2F%C3%BC%22%26%3F");
    }

    #[test]
    fn a_batch_key_is_one_path_segment_and_different_keys_differ() {
        let id = tests_support::part(0, &[]).batch_id;
        let name = |key: &str| {
            let directory = directory_of(id, Some(&key.parse().unwrap()));
            let name = directory.strip_suffix(&format!("/{id}")).unwrap();
            name.to_owned()
        };
        assert_eq!(directory_of(id, None), id.to_string());
        assert_eq!(name("Zoë & Co."), "Zo!C3!AB!20!26!20Co.");
        assert_eq!(
            ["a_b-c", "~!%", ".", "..", "../x"].map(name),
            ["a_b-c", "!7E!21!25", "!2E", "!2E.", "!2E.!2Fx"]
        );
        let long = [
            "x".repeat(128),
            "x".repeat(129),
            format!("{}y", "x".repeat(128)),
            "é".repeat(500),
        ];
        let names = long.each_ref().map(|key| name(key));
        assert_eq!(names[0], long[0]);
        assert!(
            names
                .iter()
                .all(|name| name.len() == 128 && !name.contains('/')),
            "{names:?}"
        );
        assert_eq!(std::collections::BTreeSet::from(names).len(), long.len());
    }
}
