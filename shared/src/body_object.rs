//! The objects that have the bodies of events: frames of the loads of a batch of the log.

use protocol::batch::BatchRecord;
use protocol::bodies::Bodies;
use protocol::ids::ObjectId;
use protocol::seqs::SeqSet;
use protocol::slot::Frame;

use crate::load::decode_frame;
use crate::ports::{ObjectStore, PortError, StoredEvent};
use crate::retry::{Budget, RequestPermits, read_range};

/// A frame of a load, with the events of several seats of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyObject(Frame);

impl BodyObject {
    /// Returns the frames that have the events in these seats, each with those of its seats. A seat may be in none of them.
    pub fn of_frames<'a>(
        frames: impl IntoIterator<Item = &'a Frame>,
        seqs: &SeqSet,
    ) -> Vec<(BodyObject, SeqSet)> {
        let objects = frames.into_iter().map(|frame| {
            let wanted: SeqSet = frame.seqs().filter(|seq| seqs.contains(*seq)).collect();
            (BodyObject(frame.clone()), wanted)
        });
        objects.filter(|(_, wanted)| !wanted.is_empty()).collect()
    }

    /// Returns the name of the object that has the frame.
    pub fn id(&self) -> ObjectId {
        ObjectId::Load(self.0.load)
    }

    /// Returns what the object is and its name, for errors.
    pub fn described(&self) -> String {
        format!("object `{}`", self.id())
    }

    /// Returns where the object is.
    pub fn place(&self) -> &Bodies {
        &self.0.bodies
    }

    /// Reads the frame; returns `None` when the object, or a piece of it, is missing.
    ///
    /// # Errors
    /// As [`Budget::call`].
    pub async fn read(
        &self,
        store: &dyn ObjectStore,
        permits: &RequestPermits,
        budget: &Budget<'_>,
    ) -> Result<Option<Vec<u8>>, PortError> {
        let (place, object, bytes) = (self.place(), self.id(), &self.0.bytes);
        read_range(store, place, object, bytes, permits, budget).await
    }

    /// Returns the events in the wanted seats, in seq order, and why some are missing. `bytes` are the bytes that were read.
    pub fn decode(
        &self,
        record: &BatchRecord,
        bytes: &[u8],
        wanted: &SeqSet,
    ) -> (Vec<StoredEvent>, Option<String>) {
        match decode_frame(record.batch_id, &self.0, bytes) {
            Ok(mut events) => {
                events.retain(|event| wanted.contains(event.seq));
                (events, None)
            }
            Err(error) => (Vec::new(), Some(error.to_string())),
        }
    }
}
