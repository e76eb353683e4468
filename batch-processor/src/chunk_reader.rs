//! Reads the events of a batch whose bodies are in chunks, or in loads. The batch record says which seats have events, so neither the index
//! nor the lock table is read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::batch::BatchRecord;
use protocol::ids::{BatchId, ChunkId, ObjectId, Seq, SlotId};
use protocol::limits::{CHUNK_CALLS_MAX, CHUNK_RETENTION};
use protocol::log::{Frame, Slot, empty_slots, frames_of};
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::chunk::decode;
use shared::load::decode_frame;
use shared::ports::{ChunkStore, PortError, Ports, StoredEvent};
use shared::retry::{Budget, RequestPermits, Slots, bounded, read_object};

use crate::reading::{HandOverError, Lost, ReadEvents, ReadLimits, memory_bytes};

/// Events of a batch of chunks that must still be read.
#[derive(Debug, Default)]
pub(crate) struct UnreadChunks {
    /// The seats of events whose chunks are still to be read.
    seqs: SeqSet,
    /// Where the lines of a batch of the log are, in the order of their seqs; otherwise the record names the chunks.
    frames: Option<Arc<[Frame]>>,
    /// Events of chunks that were read, beyond what was asked for.
    read_ahead: VecDeque<StoredEvent>,
}

impl UnreadChunks {
    /// Returns the events of these seats, which are counted or witnessed.
    pub(crate) fn of(seqs: SeqSet) -> UnreadChunks {
        UnreadChunks {
            seqs,
            ..UnreadChunks::default()
        }
    }

    /// Returns the events of these seats of a batch of the log that has these frames.
    pub(crate) fn of_log(seqs: SeqSet, frames: Arc<[Frame]>) -> UnreadChunks {
        UnreadChunks {
            seqs,
            frames: Some(frames),
            ..UnreadChunks::default()
        }
    }

    /// Returns the objects that are still to be read, each with the seats that are wanted of it.
    ///
    /// # Errors
    /// A seat that is in no object.
    fn sources(&self, record: &BatchRecord) -> Result<Vec<(Source, SeqSet)>, Seq> {
        let Some(frames) = &self.frames else {
            let chunks = record.chunks_of(&self.seqs)?.into_iter();
            return Ok(chunks
                .map(|(chunk, seqs)| (Source::Chunk(chunk), seqs))
                .collect());
        };
        let mut seqs = self.seqs.iter().peekable();
        let mut sources = Vec::new();
        for frame in frames.iter() {
            let end = frame.first_seq + frame.lines.len() as Seq;
            let mut wanted = SeqSet::new();
            while let Some(seq) = seqs.next_if(|seq| *seq < end) {
                (frame.first_seq <= seq).then_some(()).ok_or(seq)?;
                wanted.insert(seq);
            }
            if !wanted.is_empty() {
                sources.push((Source::Frame(frame.clone()), wanted));
            }
        }
        match seqs.next() {
            None => Ok(sources),
            Some(seq) => Err(seq),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seqs.is_empty() && self.read_ahead.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.seqs.len() as usize + self.read_ahead.len()
    }
}

/// What has the events of several seats.
enum Source {
    Chunk(ChunkId),
    Frame(Frame),
}

impl Source {
    fn object(&self) -> ObjectId {
        match self {
            Source::Chunk(chunk) => ObjectId::Chunk(*chunk),
            Source::Frame(frame) => ObjectId::Load(frame.load),
        }
    }

    /// Returns the events of the wanted seats, and why some are missing.
    fn decode(
        &self,
        batch: BatchId,
        bytes: &[u8],
        wanted: &SeqSet,
    ) -> (Vec<StoredEvent>, Option<String>) {
        match self {
            Source::Chunk(chunk) => {
                let decoded = decode(*chunk, bytes, wanted);
                let problem = decoded.problem.map(|problem| problem.to_string());
                (decoded.events, problem)
            }
            Source::Frame(frame) => match decode_frame(batch, frame, bytes) {
                Ok(mut events) => {
                    events.retain(|event| wanted.contains(event.seq));
                    (events, None)
                }
                Err(error) => (Vec::new(), Some(error.to_string())),
            },
        }
    }
}

/// Reads chunks and loads.
pub(crate) struct ChunkReader {
    chunk_store: Arc<dyn ChunkStore>,
    permits: Arc<RequestPermits>,
    /// The slots of the batch that was closed last. They have their values for ever.
    closed: Mutex<Option<(BatchId, Arc<Closed>)>>,
}

/// The slots of a batch of the log that takes no reservations any more.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// In the order of their seqs.
    pub(crate) frames: Arc<[Frame]>,
    /// The slots that have lost their values.
    pub(crate) lost: Vec<Lost>,
}

impl Closed {
    fn of(record: &BatchRecord, slots: &[Option<Slot>]) -> Closed {
        let frames: Arc<[Frame]> = frames_of(slots).into_iter().cloned().collect();
        let seqs_of = |frame: &Frame| (frame.first_seq..).take(frame.lines.len());
        let mut seqs: SeqSet =
            (0..record.log.as_ref().map_or(0, |log| log.reserved as Seq)).collect();
        seqs.remove_from(&frames.iter().flat_map(seqs_of).collect());
        let number_of = |number| SlotId {
            batch: record.batch_id,
            number,
        };
        let empty = empty_slots(slots).into_iter().map(number_of);
        let lost = empty.map(|slot| Lost {
            object: ObjectId::Slot(slot),
            // The reservations of holes are among them.
            seqs: seqs.clone(),
            problem: format!("slot `{slot}`: missing: expected the load that was acknowledged"),
        });
        let lost = lost.collect();
        Closed { frames, lost }
    }

    /// Returns the seqs of all lines that are not lost.
    pub(crate) fn seqs(&self) -> SeqSet {
        let frames = self.frames.iter();
        let seqs = frames.flat_map(|frame| (frame.first_seq..).take(frame.lines.len()));
        seqs.collect()
    }

    /// Returns when the load of a line was stored.
    pub(crate) fn stored_at(&self, seq: Seq) -> Timestamp {
        let after = self.frames.partition_point(|frame| frame.first_seq <= seq);
        self.frames[after.saturating_sub(1)].stored_at
    }
}

impl ChunkReader {
    pub(crate) fn new(ports: &Ports, permits: Arc<RequestPermits>) -> ChunkReader {
        ChunkReader {
            chunk_store: ports.chunk_store.clone(),
            permits,
            closed: Mutex::default(),
        }
    }

    /// Returns the slots of a batch of the log. Puts a hole into each that stays empty, so the batch must take no reservations any more.
    ///
    /// # Errors
    /// [`PortError`] if a slot is not known to have a value.
    pub(crate) async fn close(
        &self,
        record: &BatchRecord,
        budget: &Budget<'_>,
    ) -> Result<Arc<Closed>, PortError> {
        let lock = || self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().clone();
        if let Some((_, closed)) = known.filter(|(batch, _)| *batch == record.batch_id) {
            return Ok(closed);
        }
        let slots = Slots {
            store: &*self.chunk_store,
            permits: &self.permits,
            budget,
        };
        let closed = Arc::new(Closed::of(record, &slots.close(record).await?));
        if closed.lost.is_empty() {
            *lock() = Some((record.batch_id, closed.clone()));
        }
        Ok(closed)
    }

    /// Reads the next events of `unread`, as many as the limits say. Reads whole chunks, up to [`CHUNK_CALLS_MAX`] at
    /// once, and keeps the events beyond the limits in `unread`. A chunk that could not be read stays in `unread`, and the
    /// chunks after it are read all the same.
    pub(crate) async fn read(
        &self,
        record: &BatchRecord,
        unread: &mut UnreadChunks,
        limits: ReadLimits,
        budget: &Budget<'_>,
    ) -> ReadEvents {
        let mut read = ReadEvents::default();
        let mut chunks = match unread.sources(record) {
            Ok(chunks) => chunks.into_iter(),
            Err(seq) => {
                read.failed = Some(HandOverError::Permanent(format!(
                    "batch record: seat {seq}: in no chunk or load: expected one that has it"
                )));
                return read;
            }
        };
        let (mut bytes, mut chunk_bytes, mut chunks_count) = (0, 0, 0);
        loop {
            let is_full =
                |bytes, events: &[_]| bytes >= limits.bytes_max && events.len() >= limits.items_min;
            while !is_full(bytes, &read.events)
                && let Some(event) = unread.read_ahead.pop_front()
            {
                bytes += memory_bytes(&event);
                read.events.push(event);
            }
            if is_full(bytes, &read.events) {
                return read;
            }
            let bytes_left = limits.bytes_max.saturating_sub(bytes);
            let next_count = chunks_in(bytes_left, chunk_bytes / u64::max(chunks_count, 1));
            let next: Vec<_> = chunks.by_ref().take(next_count).collect();
            if next.is_empty() {
                return read;
            }
            let reads = next
                .iter()
                .map(|(chunk, wanted)| self.read_source(record, chunk, wanted, budget))
                .collect();
            for (wanted, result) in bounded(reads, CHUNK_CALLS_MAX).await {
                match result {
                    Ok((events, lost)) => {
                        chunks_count += 1;
                        chunk_bytes += events.iter().map(memory_bytes).sum::<u64>();
                        unread.seqs.remove_from(wanted);
                        unread.read_ahead.extend(events);
                        read.lost.extend(lost);
                    }
                    Err(error) => read.failed = Some(error),
                }
            }
            // Chunks arrive in any order.
            let read_ahead = unread.read_ahead.make_contiguous();
            read_ahead.sort_unstable_by_key(|event| event.seq);
        }
    }

    /// Returns what could be read of a chunk or load and what is lost, with `wanted`; the error, if another attempt may succeed.
    async fn read_source<'a>(
        &self,
        record: &BatchRecord,
        source: &Source,
        wanted: &'a SeqSet,
        budget: &Budget<'_>,
    ) -> (
        &'a SeqSet,
        Result<(Vec<StoredEvent>, Option<Lost>), HandOverError>,
    ) {
        let object = source.object();
        let lost = |seqs: SeqSet, problem: String| Lost {
            object,
            seqs,
            problem,
        };
        let nothing = |problem| Ok((Vec::new(), Some(lost(wanted.clone(), problem))));
        let store = &*self.chunk_store;
        let bodies = match source {
            Source::Chunk(_) => &record.bodies,
            Source::Frame(frame) => &frame.bodies,
        };
        let bytes = read_object(store, bodies, object, &self.permits, budget);
        let read = match bytes.await {
            Ok(Some(bytes)) => {
                let (events, problem) = source.decode(record.batch_id, &bytes, wanted);
                let mut missing = wanted.clone();
                let found = events.iter().map(|event| event.seq).collect();
                missing.remove_from(&found);
                let problem = problem.map(|problem| lost(missing, problem));
                Ok((events, problem))
            }
            Ok(None) => nothing(format!("{} missing in `{bodies}`", named(object))),
            // The service may have removed it by now, and only says that it must not be read.
            Err(error @ PortError::Refused { .. })
                if record.created_at + CHUNK_RETENTION <= budget.clock.now() =>
            {
                nothing(format!("{} {error}", named(object)))
            }
            Err(error) => Err(error.into()),
        };
        (wanted, read)
    }
}

/// Returns what an object is, for errors.
fn named(object: ObjectId) -> String {
    let kind = match object {
        ObjectId::Chunk(_) => "chunk",
        ObjectId::Load(_) | ObjectId::Slot(_) | ObjectId::Run(_) | ObjectId::RunList(_) => "object",
    };
    format!("{kind} `{object}`:")
}

/// Returns how many chunks to read at once, to get `bytes` of events. The first chunk shows how large they are.
fn chunks_in(bytes: u64, chunk_bytes_mean: u64) -> usize {
    match chunk_bytes_mean {
        0 => 1,
        mean => (bytes / mean).clamp(1, CHUNK_CALLS_MAX as u64) as usize,
    }
}
