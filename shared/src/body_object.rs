//! The objects that have the bodies of events: a chunk, or the load of a batch of the log.

use protocol::batch::BatchRecord;
use protocol::bodies::Bodies;
use protocol::ids::{ChunkId, ObjectId, Seq};
use protocol::log::Frame;
use protocol::seqs::SeqSet;

use crate::chunk::decode;
use crate::load::decode_frame;
use crate::ports::{ObjectStore, PortError, StoredEvent};
use crate::retry::{Budget, RequestPermits, read_object, read_range};

/// An object with the events of several seats of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyObject {
    Chunk(ChunkId),
    Frame(Box<Frame>),
}

impl BodyObject {
    /// Returns the chunks that have the events in these seats, each with those of its seats.
    ///
    /// # Errors
    /// A seat that is in no chunk.
    pub fn of_chunks(
        record: &BatchRecord,
        seqs: &SeqSet,
    ) -> Result<Vec<(BodyObject, SeqSet)>, Seq> {
        let chunks = record.chunks_of(seqs)?.into_iter();
        let objects = chunks.map(|(chunk, seqs)| (BodyObject::Chunk(chunk), seqs));
        Ok(objects.collect())
    }

    /// Returns the frames that have the events in these seats, each with those of its seats. A seat may be in none of them.
    pub fn of_frames<'a>(
        frames: impl IntoIterator<Item = &'a Frame>,
        seqs: &SeqSet,
    ) -> Vec<(BodyObject, SeqSet)> {
        let objects = frames.into_iter().map(|frame| {
            let wanted: SeqSet = frame.seqs().filter(|seq| seqs.contains(*seq)).collect();
            (BodyObject::Frame(Box::new(frame.clone())), wanted)
        });
        objects.filter(|(_, wanted)| !wanted.is_empty()).collect()
    }

    /// Returns the name of the object.
    pub fn id(&self) -> ObjectId {
        match self {
            BodyObject::Chunk(chunk) => ObjectId::Chunk(*chunk),
            BodyObject::Frame(frame) => ObjectId::Load(frame.load),
        }
    }

    /// Returns what the object is and its name, for errors.
    pub fn described(&self) -> String {
        let kind = match self {
            BodyObject::Chunk(_) => "chunk",
            BodyObject::Frame(_) => "object",
        };
        format!("{kind} `{}`", self.id())
    }

    /// Returns where an object of this batch is.
    pub fn place<'a>(&'a self, record: &'a BatchRecord) -> &'a Bodies {
        match self {
            BodyObject::Chunk(_) => &record.bodies,
            BodyObject::Frame(frame) => &frame.bodies,
        }
    }

    /// Reads the object, or the frame alone; returns `None` when the object, or a piece of it, is missing.
    ///
    /// # Errors
    /// As [`Budget::call`].
    pub async fn read(
        &self,
        record: &BatchRecord,
        store: &dyn ObjectStore,
        permits: &RequestPermits,
        budget: &Budget<'_>,
    ) -> Result<Option<Vec<u8>>, PortError> {
        let (place, object) = (self.place(record), self.id());
        match self {
            BodyObject::Chunk(_) => read_object(store, place, object, permits, budget).await,
            BodyObject::Frame(frame) => {
                read_range(store, place, object, &frame.bytes, permits, budget).await
            }
        }
    }

    /// Returns the events in the wanted seats, in seq order, and why some are missing. `bytes` are the bytes that were read.
    pub fn decode(
        &self,
        record: &BatchRecord,
        bytes: &[u8],
        wanted: &SeqSet,
    ) -> (Vec<StoredEvent>, Option<String>) {
        match self {
            BodyObject::Chunk(chunk) => {
                let decoded = decode(*chunk, bytes, wanted);
                let problem = decoded.problem.map(|problem| problem.to_string());
                (decoded.events, problem)
            }
            BodyObject::Frame(frame) => match decode_frame(record.batch_id, frame, bytes) {
                Ok(mut events) => {
                    events.retain(|event| wanted.contains(event.seq));
                    (events, None)
                }
                Err(error) => (Vec::new(), Some(error.to_string())),
            },
        }
    }
}
