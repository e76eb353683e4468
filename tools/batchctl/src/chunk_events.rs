//! Reads events whose bodies are in chunks, or in loads of the log.

use protocol::batch::BatchRecord;
use protocol::ids::{ChunkId, ObjectId, Seq};
use protocol::log::{Frame, frames_of};
use protocol::seqs::SeqSet;
use shared::chunk::decode;
use shared::load::decode_frame;
use shared::ports::StoredEvent;
use shared::retry::{Slots, read_object};

use crate::failure::Failure;
use crate::service::Service;

/// What has the events of several seats.
pub enum Source {
    Chunk(ChunkId),
    Frame(Box<Frame>),
}

/// Returns where the events in these seats are, with the seats of each. In a batch of the log, seats of lines that are lost or were
/// never brought have no source.
///
/// # Errors
/// [`Failure::Refused`] if a seat is in no chunk.
pub async fn sources(
    service: &Service,
    record: &BatchRecord,
    seqs: &SeqSet,
) -> Result<Vec<(Source, SeqSet)>, Failure> {
    if record.log.is_none() {
        let chunks = record.chunks_of(seqs).map_err(|seq| {
            let id = record.batch_id;
            Failure::Refused(format!("batch `{id}`: seat {seq} is in no chunk"))
        })?;
        let chunks = chunks.into_iter();
        return Ok(chunks
            .map(|(chunk, seqs)| (Source::Chunk(chunk), seqs))
            .collect());
    }
    let slots = Slots {
        store: &*service.chunk_store,
        permits: &service.permits,
        budget: &service.budget(),
    };
    let slots = slots.values(record).await?;
    let sources = frames_of(&slots).into_iter().map(|frame| {
        let of_frame = (frame.first_seq..).take(frame.lines.len());
        let wanted: SeqSet = of_frame.filter(|seq| seqs.contains(*seq)).collect();
        (Source::Frame(Box::new(frame.clone())), wanted)
    });
    Ok(sources.filter(|(_, wanted)| !wanted.is_empty()).collect())
}

/// Returns the seats of all lines of a batch of the log that was not resolved.
pub fn unresolved(record: &BatchRecord) -> SeqSet {
    let log = record.log.as_ref().filter(|_| !record.is_resolved());
    (0..log.map_or(0, |log| log.reserved as Seq)).collect()
}

/// Reads the events of a source in the wanted seats, in seq order. Returns them, and why some are missing.
///
/// # Errors
/// A service could not be asked.
pub async fn read(
    service: &Service,
    record: &BatchRecord,
    source: &Source,
    wanted: &SeqSet,
) -> Result<(Vec<StoredEvent>, Option<String>), Failure> {
    let (object, place) = match source {
        Source::Chunk(chunk) => (ObjectId::Chunk(*chunk), &record.bodies),
        Source::Frame(frame) => (ObjectId::Load(frame.load), &frame.bodies),
    };
    let (store, budget) = (&*service.chunk_store, service.budget());
    let bytes = read_object(store, place, object, &service.permits, &budget).await?;
    let Some(bytes) = bytes else {
        let kind = match source {
            Source::Chunk(_) => "chunk",
            Source::Frame(_) => "object",
        };
        return Ok((
            Vec::new(),
            Some(format!("{kind} `{object}`: missing in `{place}`")),
        ));
    };
    let (mut events, problem) = match source {
        Source::Chunk(chunk) => {
            let decoded = decode(*chunk, &bytes, wanted);
            let problem = decoded.problem.map(|problem| problem.to_string());
            (decoded.events, problem)
        }
        Source::Frame(frame) => match decode_frame(record.batch_id, frame, &bytes) {
            Ok(events) => (events, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        },
    };
    events.retain(|event| wanted.contains(event.seq));
    Ok((events, problem))
}

/// Reads the events in these seats, in seq order.
///
/// # Errors
/// [`Failure::Refused`] if some are missing or damaged.
pub async fn events_of(
    service: &Service,
    record: &BatchRecord,
    seqs: &SeqSet,
) -> Result<Vec<StoredEvent>, Failure> {
    let mut events = Vec::with_capacity(seqs.len() as usize);
    for (source, wanted) in sources(service, record, seqs).await? {
        let (read, problem) = read(service, record, &source, &wanted).await?;
        if let Some(problem) = problem {
            return Err(Failure::Refused(format!(
                "{problem}; chunks are kept for 30 days, loads for 40"
            )));
        }
        events.extend(read);
    }
    events.sort_unstable_by_key(|event| event.seq);
    Ok(events)
}
