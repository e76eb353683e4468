//! Parses one line of a part.

use std::borrow::Cow;

use serde::Deserialize;

/// The format of the lines of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// One JSON object per line, with the body as a string.
    Envelope,
    /// One body per line.
    Body,
}

impl Format {
    /// Recognises the format of a line; returns `None` if it has neither.
    pub fn of(line: &[u8]) -> Option<Self> {
        // Quotes inside a JSON string are escaped, so a body cannot be mistaken for an envelope.
        if contains(line, br#""batchId":"#) && contains(line, br#""body":"#) {
            Some(Self::Envelope)
        } else if line.starts_with(BODY_START.as_bytes()) {
            Some(Self::Body)
        } else {
            None
        }
    }
}

fn contains(line: &[u8], needle: &[u8]) -> bool {
    line.windows(needle.len()).any(|window| window == needle)
}

/// The fields of an envelope that the audit checks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope<'a> {
    #[serde(borrow)]
    pub batch_id: Cow<'a, str>,
    pub part: u64,
    pub seq: u64,
    #[serde(borrow)]
    pub event_id: Cow<'a, str>,
    #[serde(borrow)]
    pub sqs_message_id: Cow<'a, str>,
    #[serde(borrow)]
    pub body: Cow<'a, str>,
    /// Present only in reject lists.
    #[serde(borrow, default)]
    pub reason: Option<Cow<'a, str>>,
}

/// Why a line is corrupt.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Corruption {
    #[error("the line is neither an envelope nor a body")]
    Unrecognised,
    #[error("not a valid envelope: {0}")]
    Envelope(String),
    #[error("the body has no id")]
    NoId,
    #[error("the body differs from the workload at byte {0}")]
    Body(usize),
    #[error("the body is a changed one, expected the only one of the event")]
    OnlyOneBody,
    #[error("the batch id of the envelope is `{0}`, expected the name of the directory")]
    Batch(String),
    #[error("the part of the envelope is `{0}`, expected the number in the file's name")]
    Part(u64),
    #[error("the rejected record has no reason")]
    NoReason,
    #[error("the file cannot be decompressed from this line on: {0}")]
    Compression(String),
    #[error("seqs do not ascend: seq `{seq}` follows seq `{last}`")]
    Seq { last: u64, seq: u64 },
    #[error("the event id of the envelope is `{0}`, expected one that ends in the id of the body")]
    EventId(String),
}

const BODY_START: &str = r#"{"id":""#;

#[derive(Deserialize)]
struct BodyId<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

/// Returns the id in a body. It is read directly if the body begins with it, and otherwise by parsing the JSON.
pub(super) fn id_of(body: &str) -> Option<Cow<'_, str>> {
    let id_at_start = body
        .strip_prefix(BODY_START)
        .and_then(|rest| rest.split_once('"'))
        .map(|(id, _)| Cow::Borrowed(id))
        .filter(|id| !id.contains('\\'));
    id_at_start.or_else(|| {
        serde_json::from_str::<BodyId<'_>>(body)
            .ok()
            .map(|body| body.id)
    })
}

/// Returns the position of the first differing byte; `None` if the texts are equal.
pub(super) fn difference(found: &[u8], planned: &[u8]) -> Option<usize> {
    if found == planned {
        return None;
    }
    let common = found.iter().zip(planned).take_while(|(a, b)| a == b);
    Some(common.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_within_an_envelope_does_not_hide_the_envelope() {
        let envelope = br#"{"batchId":"b","part":0,"seq":0,"body":"{\"id\":\"1-0\"}"}"#;
        assert_eq!(Format::of(envelope), Some(Format::Envelope));
        let body = br#"{"id":"1-0","n":0,"pad":"\"batchId\": \"body\":"}"#;
        assert_eq!(Format::of(body), Some(Format::Body));
        assert_eq!(Format::of(b""), None);
        assert_eq!(Format::of(b"part of a li"), None);
    }

    #[test]
    fn an_id_is_found_anywhere_in_the_body() {
        assert_eq!(id_of(r#"{"id":"1-0","n":0}"#).as_deref(), Some("1-0"));
        assert_eq!(id_of(r#"{ "n": 0, "id": "1-0" }"#).as_deref(), Some("1-0"));
        assert_eq!(id_of(r#"{"id":"a\"b"}"#).as_deref(), Some("a\"b"));
        // A body cut short.
        assert_eq!(id_of(r#"{"id":"1-0","n"#).as_deref(), Some("1-0"));
        for none in ["", "text", "{}", r#"{"id":7}"#, r#"{"id":"1-"#] {
            assert_eq!(id_of(none), None, "{none}");
        }
    }

    #[test]
    fn the_first_difference_is_returned() {
        assert_eq!(difference(b"abc", b"abc"), None);
        assert_eq!(difference(b"abd", b"abc"), Some(2));
        assert_eq!(difference(b"ab", b"abc"), Some(2));
    }
}
