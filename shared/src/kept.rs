//! The events of a part that the sink has, kept for [answers](protocol::answer) about them: the object `kept/<batch>/<part>`.
//!
//! An answer may name an event by the number of its record, and a rejected event goes to the quarantine with its body, which claims no
//! longer have. The object is chunks, each with its length before it in four bytes (big endian): the seats of the events, and then their
//! lines, in the order of the records, as [loads](crate::load) have them.

use protocol::ids::BatchId;
use protocol::seqs::SeqSet;

use crate::compression::{DecompressError, compress_bytes, decompress_bytes};
use crate::load::Line;
use crate::ports::StoredEvent;

/// Bytes of lines after which a chunk ends.
const CHUNK_BYTES: usize = 4 << 20;
/// The most bytes of the lines of a chunk: those of [`CHUNK_BYTES`] and one more event.
const CHUNK_BYTES_MAX: usize = CHUNK_BYTES + (16 << 20);

/// A kept part that cannot be read. A retry would read the same.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    #[error("too short: the chunk at byte {at} has fewer bytes than it says")]
    Short { at: usize },
    #[error("seats: {0}")]
    Seats(String),
    #[error("chunk {chunk}: {source}")]
    Compressed {
        chunk: usize,
        #[source]
        source: DecompressError,
    },
    #[error("chunk {chunk}: «{source}»")]
    Line {
        chunk: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("got {got} lines, expected one for each of {expected} seats")]
    Lines { got: usize, expected: u64 },
}

/// Returns the object of these events, which are in seq order.
pub fn encode_kept<'a>(events: impl Iterator<Item = &'a StoredEvent> + Clone) -> Vec<u8> {
    let seats: SeqSet = events.clone().map(|event| event.seq).collect();
    let mut bytes = Vec::new();
    add_chunk(&mut bytes, &seats.to_bytes());
    let mut lines = Vec::new();
    let add_lines = |bytes: &mut Vec<u8>, lines: &mut Vec<u8>| {
        let compressed = compress_bytes(lines).expect("there is memory for a chunk");
        add_chunk(bytes, &compressed);
        lines.clear();
    };
    for event in events {
        let line = Line::of_event(event);
        serde_json::to_writer(&mut lines, &line).expect("a line of texts and numbers is JSON");
        lines.push(b'\n');
        if lines.len() >= CHUNK_BYTES {
            add_lines(&mut bytes, &mut lines);
        }
    }
    if !lines.is_empty() {
        add_lines(&mut bytes, &mut lines);
    }
    bytes
}

fn add_chunk(bytes: &mut Vec<u8>, chunk: &[u8]) {
    let length = u32::try_from(chunk.len()).expect("a chunk is much shorter than 4 GB");
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(chunk);
}

/// Returns the chunks of an object.
fn chunks(bytes: &[u8]) -> Result<Vec<&[u8]>, KeptError> {
    let (mut chunks, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let short = KeptError::Short { at };
        let Some((length, rest)) = bytes[at..].split_first_chunk::<4>() else {
            return Err(short);
        };
        let length = u32::from_be_bytes(*length) as usize;
        let Some(chunk) = rest.get(..length) else {
            return Err(short);
        };
        chunks.push(chunk);
        at += 4 + length;
    }
    Ok(chunks)
}

/// Returns the events of a kept part, in the order of their records.
///
/// # Errors
/// [`KeptError`]: the object is damaged.
pub fn decode_kept(batch: BatchId, bytes: &[u8]) -> Result<Vec<StoredEvent>, KeptError> {
    let chunks = chunks(bytes)?;
    let (seats, chunks) = chunks.split_first().ok_or(KeptError::Short { at: 0 })?;
    let seats = SeqSet::try_from(*seats).map_err(|error| KeptError::Seats(error.to_string()))?;
    let (mut events, mut free) = (Vec::with_capacity(seats.len() as usize), seats.iter());
    let mut got = 0;
    for (chunk, bytes) in chunks.iter().enumerate() {
        let lines = decompress_bytes(bytes, CHUNK_BYTES_MAX)
            .map_err(|source| KeptError::Compressed { chunk, source })?;
        let lines = lines.split(|byte| *byte == b'\n');
        for line in lines.filter(|line| !line.is_empty()) {
            got += 1;
            let wrong = |source| KeptError::Line { chunk, source };
            let line: Line<'_> = serde_json::from_slice(line).map_err(wrong)?;
            if let Some(seat) = free.next() {
                events.push(line.event(batch, seat).map_err(wrong)?);
            }
        }
    }
    match got as u64 == seats.len() {
        true => Ok(events),
        false => Err(KeptError::Lines {
            got,
            expected: seats.len(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use protocol::ids::{BatchShard, BodyHash, Seq};
    use protocol::time::Timestamp;

    use super::*;

    fn batch() -> BatchId {
        "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap()
    }

    fn event(seq: Seq, body: &str) -> StoredEvent {
        StoredEvent {
            event_id: format!("e{seq}").parse().unwrap(),
            sqs_message_id: format!("m{seq}").parse().unwrap(),
            body_hash: BodyHash::of(body.as_bytes()),
            shard: BatchShard {
                batch: batch(),
                shard: 0,
            },
            seq,
            body: Arc::from(body),
            overflow: None,
            source: "arn:aws:sqs:eu-west-1:1:q".parse().unwrap(),
            sent_at: Timestamp::from_ms(5),
            attributes: None,
            quota: None,
        }
    }

    #[test]
    fn events_read_back_with_their_seats() {
        let large = "x".repeat(3 << 20);
        let events = [
            event(3, "a\nb"),
            event(7, &large),
            event(8, &large),
            event(9, ""),
        ];
        let bytes = encode_kept(events.iter());
        assert_eq!(chunks(&bytes).unwrap().len(), 3);
        assert_eq!(decode_kept(batch(), &bytes).unwrap(), events);
        let none = encode_kept([].iter());
        assert_eq!(decode_kept(batch(), &none).unwrap(), []);
    }

    #[test]
    fn a_damaged_object_is_refused_with_the_reason() {
        let bytes = encode_kept([event(3, "a"), event(4, "b")].iter());
        let refusal = |bytes: &[u8]| decode_kept(batch(), bytes).unwrap_err().to_string();
        assert!(refusal(&[]).contains("too short"));
        assert!(refusal(&bytes[..bytes.len() - 1]).contains("too short: the chunk at byte"));
        let mut edited = bytes.clone();
        edited[5] ^= 0xff;
        assert!(refusal(&edited).starts_with("seats: "));
        let mut others = Vec::new();
        for chunk in [
            &SeqSet::from_iter([1, 2]).to_bytes(),
            &compress_bytes(b"{}").unwrap(),
        ] {
            add_chunk(&mut others, chunk);
        }
        assert!(refusal(&others).contains("missing field"));
        let seats = chunks(&bytes).unwrap()[0].len() + 4;
        let without_lines = refusal(&bytes[..seats]);
        assert_eq!(
            without_lines,
            "got 0 lines, expected one for each of 2 seats"
        );
    }
}
