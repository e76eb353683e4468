//! The format of a load: what one invocation of an aggregator brings into batches of the log.
//!
//! A load has a frame for each scope: one JSON object a line, each with a message, compressed by zstd. `zstd -dc <object> | jq` shows all of
//! them. A line names no seat: the slot of a reservation says which lines of which frame have which seqs.

use std::borrow::Cow;
use std::sync::Arc;

use protocol::claim::Candidate;
use protocol::ids::{BatchId, BatchShard, BodyHash, EventId, Seq, SourceArn, SqsMessageId};
use protocol::log::object_hash;
use protocol::quota::Quota;
use protocol::slot::Frame;
use protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::compression::{DecompressError, compress_bytes, decompress_bytes};
use crate::message_attributes::MessageAttributes;
use crate::ports::StoredEvent;

/// Maximum bytes of the lines of a frame, uncompressed. JSON escapes make a body longer.
const LINES_BYTES_MAX: usize = 64 << 20;
/// Bytes of a typical line besides its texts of any length: names, numbers, ids and the hash.
const LINE_OVERHEAD_BYTES: usize = 240;

/// Lines of a stored load that cannot be read. A retry would read the same.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("load `{load}`: too short: got {bytes} bytes of a frame, expected {expected}")]
    Short {
        load: uuid::Uuid,
        bytes: usize,
        expected: u64,
    },
    #[error("load `{load}`: other bytes than its slot says")]
    OtherBytes { load: uuid::Uuid },
    #[error("load `{load}`: {source}")]
    Compressed {
        load: uuid::Uuid,
        #[source]
        source: DecompressError,
    },
    #[error("load `{load}`: line {line}: «{source}»")]
    Line {
        load: uuid::Uuid,
        line: u32,
        #[source]
        source: serde_json::Error,
    },
    #[error("load `{load}`: too few lines: got {got}, expected {expected}")]
    Few {
        load: uuid::Uuid,
        got: u32,
        expected: u32,
    },
}

/// One message. The fields have the names of the lock item's attributes.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line<'a> {
    message_id: EventId,
    sqs_message_id: SqsMessageId,
    source: SourceArn,
    /// Epoch milliseconds.
    sent_at: u64,
    #[serde(borrow, skip_serializing_if = "Option::is_none", default)]
    attributes: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    quota: Option<Cow<'a, Quota>>,
    message: Cow<'a, str>,
}

impl<'a> Line<'a> {
    /// Returns the line of a message.
    fn of(candidate: &'a Candidate) -> Line<'a> {
        Line {
            message_id: candidate.event_id.clone(),
            sqs_message_id: candidate.sqs_message_id.clone(),
            source: candidate.source.clone(),
            sent_at: candidate.sent_at.as_ms(),
            attributes: candidate.attributes.as_deref().map(Cow::Borrowed),
            quota: candidate.quota.as_ref().map(Cow::Borrowed),
            message: Cow::Borrowed(&candidate.body),
        }
    }

    /// Returns the line of the message that brought an event.
    pub(crate) fn of_event(event: &'a StoredEvent) -> Line<'a> {
        let attributes = event.attributes.as_ref();
        Line {
            message_id: event.event_id.clone(),
            sqs_message_id: event.sqs_message_id.clone(),
            source: event.source.clone(),
            sent_at: event.sent_at.as_ms(),
            attributes: attributes.map(|all| Cow::Borrowed(&**all.as_text())),
            quota: event.quota.as_deref().map(Cow::Borrowed),
            message: Cow::Borrowed(&event.body),
        }
    }

    /// Returns the event of the message, in a seat of `batch`.
    ///
    /// # Errors
    /// The message attributes are malformed.
    pub(crate) fn event(self, batch: BatchId, seq: Seq) -> Result<StoredEvent, serde_json::Error> {
        let attributes = self.attributes.as_deref().map(MessageAttributes::read);
        Ok(StoredEvent {
            attributes: attributes.transpose()?.flatten(),
            event_id: self.message_id,
            sqs_message_id: self.sqs_message_id,
            body_hash: BodyHash::of(self.message.as_bytes()),
            shard: BatchShard { batch, shard: 0 },
            seq,
            body: Arc::from(&*self.message),
            overflow: None,
            source: self.source,
            sent_at: Timestamp::from_ms(self.sent_at),
            quota: self.quota.map(|quota| Box::new(quota.into_owned())),
        })
    }
}

/// Adds an event. Most events have the same source; one copy serves all.
fn add_event(events: &mut Vec<StoredEvent>, mut event: StoredEvent) {
    if let Some(last) = events.last().filter(|last| last.source == event.source) {
        event.source = last.source.clone();
    }
    events.push(event);
}

/// Returns the frame of the messages of one scope.
pub fn encode_frame<'a>(messages: impl Iterator<Item = &'a Candidate> + Clone) -> Vec<u8> {
    // A buffer that grows would copy a megabyte of lines several times.
    let contents = messages.clone().map(Candidate::content_bytes);
    let bytes = contents.map(|bytes| bytes + bytes / 8 + LINE_OVERHEAD_BYTES);
    let mut lines = Vec::with_capacity(bytes.sum());
    for candidate in messages {
        let line = Line::of(candidate);
        serde_json::to_writer(&mut lines, &line).expect("a line of texts and numbers is JSON");
        lines.push(b'\n');
    }
    compress_bytes(&lines).expect("there is memory for a frame")
}

/// Returns the lines of a slot of `batch` as events, in the order of their seqs. `bytes` are those of the frame, as far as the load has them.
///
/// # Errors
/// [`FrameError`]: the load is damaged.
pub fn decode_frame(
    batch: BatchId,
    frame: &Frame,
    bytes: &[u8],
) -> Result<Vec<StoredEvent>, FrameError> {
    let name = frame.load;
    let expected = frame.bytes.end.saturating_sub(frame.bytes.start);
    if (bytes.len() as u64) < expected {
        return Err(FrameError::Short {
            load: name,
            bytes: bytes.len(),
            expected,
        });
    }
    if object_hash(bytes) != frame.hash {
        return Err(FrameError::OtherBytes { load: name });
    }
    let lines = decompress_bytes(bytes, LINES_BYTES_MAX)
        .map_err(|source| FrameError::Compressed { load: name, source })?;
    let mut events: Vec<StoredEvent> = Vec::with_capacity(frame.lines.len());
    let lines = lines.split(|byte| *byte == b'\n');
    let wanted = (0..frame.lines.end)
        .zip(lines.filter(|line| !line.is_empty()))
        .skip(frame.lines.start as usize);
    for ((number, line), seq) in wanted.zip(frame.first_seq..) {
        let wrong = |source| FrameError::Line {
            load: name,
            line: number + 1,
            source,
        };
        let line: Line<'_> = serde_json::from_slice(line).map_err(wrong)?;
        add_event(&mut events, line.event(batch, seq).map_err(wrong)?);
    }
    let (got, expected) = (events.len() as u32, frame.lines.len() as u32);
    match got == expected {
        true => Ok(events),
        false => Err(FrameError::Few {
            load: name,
            got,
            expected,
        }),
    }
}

#[cfg(test)]
mod tests {
    use protocol::bodies::{Bodies, ObjectPlace};

    use super::*;

    fn candidate(number: u32, body: &str) -> Candidate {
        Candidate {
            event_id: format!("e{number}").parse().unwrap(),
            sqs_message_id: format!("m{number}").parse().unwrap(),
            body_hash: BodyHash::of(body.as_bytes()),
            body: body.into(),
            compressed: None,
            source: "arn:aws:sqs:eu-west-1:1:q".parse().unwrap(),
            sent_at: Timestamp::from_ms(5),
            attributes: None,
            quota: None,
        }
    }

    fn batch() -> BatchId {
        "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap()
    }

    /// Returns a load whose second frame has these bodies, and that frame.
    fn load(bodies: &[&str]) -> (Vec<u8>, Frame) {
        let bodies_from_7 = (7..).zip(bodies);
        let candidates = Vec::from_iter(bodies_from_7.map(|(n, body)| candidate(n, body)));
        let mut load = encode_frame([candidate(1, "other")].iter());
        let start = load.len() as u64;
        load.extend(encode_frame(candidates.iter()));
        let frame = Frame {
            bytes: start..load.len() as u64,
            ..frame_of(&load[start as usize..], bodies.len() as u32)
        };
        (load, frame)
    }

    /// Returns the frame that is all of a load, with this number of lines.
    fn frame_of(load: &[u8], lines: u32) -> Frame {
        Frame {
            load: uuid::Uuid::from_u128(1),
            bodies: Bodies::Log(ObjectPlace::Table),
            bytes: 0..load.len() as u64,
            lines: 0..lines,
            first_seq: 40,
            stored_at: Timestamp::from_ms(9),
            hash: object_hash(load),
        }
    }

    /// Returns the bytes of a frame, as far as the load has them.
    fn of_frame<'a>(load: &'a [u8], frame: &Frame) -> &'a [u8] {
        &load[frame.bytes.start as usize..load.len().min(frame.bytes.end as usize)]
    }

    #[test]
    fn the_lines_of_a_slot_read_back_with_their_seqs() {
        let text = "line\nbreak \u{0} \"quoted\"";
        let (load, frame) = load(&["{\"a\":1}", text, "last"]);
        let read = |frame: &Frame| {
            let events = decode_frame(batch(), frame, of_frame(&load, frame)).unwrap();
            let one = |event: StoredEvent| (event.seq, event.event_id.to_string(), event.body);
            events.into_iter().map(one).collect::<Vec<_>>()
        };
        let all = [
            (40, "e7".to_owned(), "{\"a\":1}".into()),
            (41, "e8".to_owned(), text.into()),
            (42, "e9".to_owned(), "last".into()),
        ];
        assert_eq!(read(&frame), all);
        let rest = Frame {
            lines: 1..3,
            ..frame
        };
        let seqs = read(&rest).into_iter().map(|(seq, id, _)| (seq, id));
        assert_eq!(
            seqs.collect::<Vec<_>>(),
            [(40, "e8".to_owned()), (41, "e9".to_owned())]
        );
    }

    #[test]
    fn message_attributes_and_hashes_read_back_and_an_event_without_them_has_no_such_field() {
        let mut with = candidate(7, "body");
        with.attributes = Some(r#"{"n":{"dataType":"String","stringValue":"v"}}"#.into());
        let load = encode_frame([with.clone(), candidate(8, "body")].iter());
        let lines = decompress_bytes(&load, LINES_BYTES_MAX).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let have = lines.lines().map(|line| line.contains("attributes"));
        assert_eq!(Vec::from_iter(have), [true, false]);
        let events = decode_frame(batch(), &frame_of(&load, 2), &load).unwrap();
        let texts = events.iter().map(|event| event.attributes.as_ref());
        let texts = Vec::from_iter(texts.map(|one| one.map(|one| one.as_text().clone())));
        assert_eq!(texts, [with.attributes, None]);
        assert!(events.iter().all(|event| event.body_hash == with.body_hash));
        assert!(events.iter().all(|event| event.sent_at == with.sent_at));
    }

    #[test]
    fn a_quota_reads_back_and_an_event_without_one_has_no_such_field() {
        let mut with = candidate(7, "body");
        let (begins, ends) = (Timestamp::from_ms(60_000), Timestamp::from_ms(120_000));
        with.quota = Some(Quota {
            key: "customer \"5\"".parse().unwrap(),
            begins,
            ends,
            max: 3,
        });
        let load = encode_frame([with.clone(), candidate(8, "body")].iter());
        let lines = decompress_bytes(&load, LINES_BYTES_MAX).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let field = r#""quota":{"key":"customer \"5\"","begins":60000,"ends":120000,"max":3}"#;
        let have = lines
            .lines()
            .map(|line| (line.contains(field), line.contains("quota")));
        assert_eq!(Vec::from_iter(have), [(true, true), (false, false)]);
        let events = decode_frame(batch(), &frame_of(&load, 2), &load).unwrap();
        let quotas = events
            .into_iter()
            .map(|event| event.quota.map(|quota| *quota));
        assert_eq!(Vec::from_iter(quotas), [with.quota, None]);
    }

    /// Returns why the bytes of a frame are refused.
    fn refusal(frame: &Frame, bytes: &[u8]) -> String {
        let read = decode_frame(batch(), frame, bytes);
        read.unwrap_err().to_string()
    }

    #[test]
    fn a_damaged_load_is_refused_with_its_name_and_reason() {
        let (load, frame) = load(&["a", "b"]);
        let with = |change: &dyn Fn(&mut Frame)| {
            let mut frame = frame.clone();
            change(&mut frame);
            refusal(&frame, of_frame(&load, &frame))
        };
        let mut edited = load.clone();
        *edited.last_mut().unwrap() ^= 1;
        let no_lines = compress_bytes(b"{}\n").unwrap();
        let of = |bytes: &[u8]| refusal(&frame_of(bytes, 1), bytes);
        let cases = [
            (with(&|frame| frame.bytes.end += 1), "too short"),
            (with(&|frame| frame.lines.end += 1), "got 2, expected 3"),
            (with(&|frame| frame.hash = [0; 16]), "other bytes"),
            (refusal(&frame, of_frame(&edited, &frame)), "other bytes"),
            (of(b"no zstd"), "not a valid compressed"),
            (of(&no_lines), "line 1: «missing field"),
        ];
        for (error, words) in cases {
            let name = frame.load.to_string();
            assert!(error.contains(words) && error.contains(&name), "{error}");
        }
    }
}
