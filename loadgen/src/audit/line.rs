//! What one line of a part says.

use std::borrow::Cow;

use serde::Deserialize;

/// How the lines of a part are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// One JSON object a line, the body in it as a string.
    Envelope,
    /// The bodies alone.
    Body,
}

impl Format {
    /// Recognises the format by a line; `None` if it is neither.
    pub fn of(line: &[u8]) -> Option<Self> {
        // Quotes inside a string are escaped, so a body within an envelope cannot look like one.
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

/// An envelope, as far as it can be checked.
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
    /// In a reject list alone.
    #[serde(borrow, default)]
    pub reason: Option<Cow<'a, str>>,
}

/// Why a line is not sound.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Corruption {
    #[error("neither an envelope nor a body")]
    Unrecognised,
    #[error("unreadable as an envelope: {0}")]
    Envelope(String),
    #[error("the body has no id")]
    NoId,
    #[error("the body differs from the plan at byte {0}")]
    Body(usize),
    #[error("the envelope says batch `{0}`")]
    Batch(String),
    #[error("the envelope says part `{0}`")]
    Part(u64),
    #[error("rejected without a reason")]
    NoReason,
    #[error("cannot be decompressed from here on: {0}")]
    Compression(String),
    #[error("seq `{seq}` follows seq `{last}`")]
    Seq { last: u64, seq: u64 },
    #[error("the envelope says event `{0}`")]
    EventId(String),
}

const BODY_START: &str = r#"{"id":""#;

#[derive(Deserialize)]
struct BodyId<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

/// The id a body names: at once where it stands at its place, by reading the JSON where not.
pub(super) fn id_of(body: &str) -> Option<Cow<'_, str>> {
    let at_its_place = body
        .strip_prefix(BODY_START)
        .and_then(|rest| rest.split_once('"'))
        .map(|(id, _)| Cow::Borrowed(id))
        .filter(|id| !id.contains('\\'));
    at_its_place.or_else(|| {
        serde_json::from_str::<BodyId<'_>>(body)
            .ok()
            .map(|body| body.id)
    })
}

/// Where two texts part company; `None` if they are the same.
pub(super) fn difference(found: &[u8], planned: &[u8]) -> Option<usize> {
    if found == planned {
        return None;
    }
    let common = found
        .iter()
        .zip(planned)
        .take_while(|(a, b)| a == b)
        .count();
    Some(common)
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
    fn an_id_is_found_wherever_it_stands() {
        assert_eq!(id_of(r#"{"id":"1-0","n":0}"#).as_deref(), Some("1-0"));
        assert_eq!(id_of(r#"{ "n": 0, "id": "1-0" }"#).as_deref(), Some("1-0"));
        assert_eq!(id_of(r#"{"id":"a\"b"}"#).as_deref(), Some("a\"b"));
        assert_eq!(
            id_of(r#"{"id":"1-0","n"#).as_deref(),
            Some("1-0"),
            "a body cut short"
        );
        for none in ["", "text", "{}", r#"{"id":7}"#, r#"{"id":"1-"#] {
            assert_eq!(id_of(none), None, "{none}");
        }
    }

    #[test]
    fn a_difference_is_the_first_one() {
        assert_eq!(difference(b"abc", b"abc"), None);
        assert_eq!(difference(b"abd", b"abc"), Some(2));
        assert_eq!(difference(b"ab", b"abc"), Some(2));
    }
}
