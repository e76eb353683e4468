//! The format of a chunk, which former versions stored: one JSON object a line, each with the event of one seat, compressed by zstd.
//!
//! `zstd -dc <object> | jq` shows a chunk. Every line says which seat it belongs to, so that a reader notices a chunk that is
//! not the one it asked for.

use std::borrow::Cow;

use protocol::format_version::{self, LaterFormat, Versioned};
use protocol::ids::{BatchId, ChunkId, Seq};
use protocol::seqs::SeqSet;
use serde::Deserialize;

use crate::compression::{DecompressError, decompress_bytes};
use crate::load::{Line, add_event};
use crate::ports::StoredEvent;

/// Maximum bytes of the lines of a chunk, uncompressed. JSON escapes make a body longer.
const LINES_BYTES_MAX: usize = 64 << 20;

/// A stored chunk that cannot be read. A retry would read the same.
#[derive(Debug, thiserror::Error)]
pub enum ChunkError {
    #[error("chunk `{chunk}`: {source}")]
    Compressed {
        chunk: ChunkId,
        #[source]
        source: DecompressError,
    },
    #[error("chunk `{chunk}`: line {line}: «{source}»")]
    Line {
        chunk: ChunkId,
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "chunk `{chunk}`: line {line}: wrong seat: got `{batch}/{seq}`, expected a seat of this chunk"
    )]
    OtherSeat {
        chunk: ChunkId,
        line: usize,
        batch: BatchId,
        seq: Seq,
    },
    #[error("chunk `{chunk}`: seat {seq}: the body is not the one that was claimed")]
    OtherBody { chunk: ChunkId, seq: Seq },
    #[error("chunk `{chunk}`: line {line}: {source}")]
    Later {
        chunk: ChunkId,
        line: usize,
        #[source]
        source: LaterFormat,
    },
    #[error("chunk `{chunk}`: has no event for {count} of the seats that the batch record lists")]
    Missing { chunk: ChunkId, count: u64 },
}

/// What the line of a seat has beside the [`Line`] of its event: fields of the same JSON object. They are read first, by
/// themselves, so that nothing is copied of an event that is not wanted. With `flatten`, every line would be copied.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfSeat<'a> {
    format_version: Option<u64>,
    batch: BatchId,
    seq: Seq,
    /// The hash of the body that was claimed. Only with it is the body of the line the right one.
    #[serde(borrow)]
    body_hash: Cow<'a, str>,
}

/// Returns a chunk with the events of these seats of `batch`, as former versions stored it.
#[cfg(any(test, feature = "test-support"))]
pub fn encode<'a>(
    batch: BatchId,
    events: impl Iterator<Item = (Seq, &'a protocol::claim::Candidate)>,
) -> Vec<u8> {
    let mut lines = Vec::new();
    for (seq, candidate) in events {
        let mut line = serde_json::json!(Line::of(candidate));
        line["batch"] = serde_json::json!(batch);
        line["seq"] = serde_json::json!(seq);
        line["bodyHash"] = serde_json::json!(candidate.body_hash.to_string());
        lines.extend(format!("{line}\n").into_bytes());
    }
    crate::compression::compress_bytes(&lines).expect("there is memory for a chunk")
}

/// The readable events of a chunk.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The events of the wanted seats, in the order of their seqs.
    pub events: Vec<StoredEvent>,
    /// Why wanted events are missing; `None` if there are all.
    pub problem: Option<ChunkError>,
}

/// Returns the events of the seats `wanted`, which are seats of this chunk. A line that cannot be read costs its own event
/// only.
pub fn decode(chunk: ChunkId, bytes: &[u8], wanted: &SeqSet) -> Decoded {
    let mut decoded = Decoded::default();
    let lines = match decompress_bytes(bytes, LINES_BYTES_MAX) {
        Ok(lines) => lines,
        Err(source) => {
            decoded.problem = Some(ChunkError::Compressed { chunk, source });
            return decoded;
        }
    };
    let mut found = SeqSet::new();
    for (index, line) in lines.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        match event_of(chunk, index + 1, line, wanted) {
            Ok(Some(event)) if !found.contains(event.seq) => {
                found.insert(event.seq);
                add_event(&mut decoded.events, event);
            }
            Ok(_) => {}
            Err(problem) => decoded.problem = decoded.problem.or(Some(problem)),
        }
    }
    decoded.events.sort_unstable_by_key(|event| event.seq);
    match wanted.len() - found.len() {
        // Problems of other lines do not matter here.
        0 => decoded.problem = None,
        count => {
            let missing = ChunkError::Missing { chunk, count };
            decoded.problem = decoded.problem.or(Some(missing));
        }
    }
    decoded
}

/// Returns the event of a line; `None` if its seat is not wanted. `number` is the number of the line, from 1.
fn event_of(
    chunk: ChunkId,
    number: usize,
    line: &[u8],
    wanted: &SeqSet,
) -> Result<Option<StoredEvent>, ChunkError> {
    let later = |source| ChunkError::Later {
        chunk,
        line: number,
        source,
    };
    let wrong = |source| ChunkError::Line {
        chunk,
        line: number,
        source,
    };
    let seat: OfSeat<'_> = serde_json::from_slice(line).map_err(|source| {
        // The version by itself is read only of lines that are wrong: there are many lines.
        match serde_json::from_slice(line).map(Versioned::check) {
            Ok(Err(source)) => later(source),
            Ok(Ok(())) | Err(_) => wrong(source),
        }
    })?;
    format_version::check(seat.format_version).map_err(later)?;
    let OfSeat { batch, seq, .. } = seat;
    if batch != chunk.batch || seq < chunk.first {
        return Err(ChunkError::OtherSeat {
            chunk,
            line: number,
            batch,
            seq,
        });
    }
    if !wanted.contains(seq) {
        return Ok(None);
    }
    let line: Line<'_> = serde_json::from_slice(line).map_err(wrong)?;
    let event = line.event(batch, seq).map_err(wrong)?;
    if event.body_hash.to_string() != seat.body_hash {
        return Err(ChunkError::OtherBody { chunk, seq });
    }
    Ok(Some(event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::compress_bytes;
    use crate::load::tests::candidate;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    fn chunk() -> ChunkId {
        ChunkId {
            batch: BATCH.parse().unwrap(),
            first: 7,
        }
    }

    fn stored(bodies: &[&str]) -> Vec<u8> {
        let bodies_from_7 = (7..).zip(bodies);
        let candidates = Vec::from_iter(bodies_from_7.map(|(n, body)| candidate(n, body)));
        encode(chunk().batch, (7..).zip(&candidates))
    }

    #[test]
    fn wanted_events_read_back_as_they_were_claimed() {
        let text = "line\nbreak \u{0} \"quoted\"";
        let bytes = stored(&["{\"a\":1}", text, "last"]);
        let decoded = decode(chunk(), &bytes, &[7, 8].into_iter().collect());
        assert!(decoded.problem.is_none(), "{decoded:?}");
        let read: Vec<_> = decoded
            .events
            .iter()
            .map(|event| (event.seq, event.event_id.as_str(), &*event.body))
            .collect();
        assert_eq!(read, [(7, "e7", "{\"a\":1}"), (8, "e8", text)]);
    }

    #[test]
    fn a_wrong_chunk_is_refused_with_its_name_and_reason() {
        let wanted: SeqSet = [7].into_iter().collect();
        let other = ChunkId {
            first: 8,
            ..chunk()
        };
        let body = stored(&["body"]);
        let lines = decompress_bytes(&body, LINES_BYTES_MAX).unwrap();
        let line = String::from_utf8(lines).unwrap();
        let read = |bytes: &[u8]| decode(chunk(), bytes, &wanted);
        let read_line = |line: &str| read(&compress_bytes(line.as_bytes()).unwrap());
        let edited = line.replace("\"message\":\"body\"", "\"message\":\"else\"");
        // Its seat can be read, and its event cannot.
        let no_message = line.replace("\"message\":", "\"other\":");
        let later = "{\"formatVersion\":3}\n";
        let later_of_same_form = line.replacen('{', "{\"formatVersion\":3,", 1);
        let cases = [
            (read(b"no zstd"), "not a valid compressed"),
            (read_line("{}\n"), "line 1"),
            (read_line(&no_message), "line 1: «missing field `message`"),
            (decode(other, &body, &wanted), "wrong seat"),
            (
                read_line(&later_of_same_form),
                "line 1: written by a later version",
            ),
            (read_line(later), "got `3`, expected at most `2`"),
            (read_line(&edited), "not the one that was claimed"),
            (decode(chunk(), &body, &(7..9).collect()), "1 of the seats"),
        ];
        for (decoded, words) in cases {
            let error = decoded.problem.unwrap().to_string();
            assert!(error.contains(words) && error.contains(BATCH), "{error}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_costs_its_own_event_only() {
        let lines = decompress_bytes(&stored(&["a", "b", "c"]), LINES_BYTES_MAX).unwrap();
        let text = String::from_utf8(lines).unwrap();
        let edits = [
            ("\"message\":\"b\"", "\"message\":\"x\"", "not the one"),
            ("\"seq\":8", "\"seq\":\"8\"", "line 2"),
            ("\"seq\":8", "\"seq\":7", "1 of the seats"),
        ];
        for (from, to, words) in edits {
            let bytes = compress_bytes(text.replace(from, to).as_bytes()).unwrap();
            let decoded = decode(chunk(), &bytes, &(7..10).collect());
            let seqs: Vec<_> = decoded.events.iter().map(|event| event.seq).collect();
            assert_eq!(seqs, [7, 9], "{to}");
            let problem = decoded.problem.unwrap().to_string();
            assert!(problem.contains(words), "{problem}");
        }
    }
}
