//! Where the events of a batch are found: by the index and the lock table, or by the batch record and its loads.

use protocol::batch::BatchRecord;
use protocol::seqs::SeqSet;
use shared::ports::PortError;
use shared::retry::Budget;
use shared::traces::names::{BATCH_ID, ITEMS_COUNT};
use shared::traces::{self, span};

use crate::collector::Collector;
use crate::index_snapshot::{IndexEntries, Snapshot};
use crate::object_reader::{ObjectReader, UnreadObjects};
use crate::reading::{HandOverError, ReadEvents, ReadLimits};

/// Finds and reads the events of batches.
pub(crate) struct BodySource {
    pub(crate) collector: Collector,
    pub(crate) object_reader: ObjectReader,
}

/// Events that must still be read.
pub(crate) enum Unread {
    Index(IndexEntries),
    Objects(UnreadObjects),
}

impl Unread {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Unread::Index(entries) => entries.is_empty(),
            Unread::Objects(objects) => objects.is_empty(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Unread::Index(entries) => entries.len(),
            Unread::Objects(objects) => objects.len(),
        }
    }
}

impl BodySource {
    /// Looks for the events of a batch. Leaves out index entries of the seqs in `released`, which the index may still show.
    ///
    /// # Errors
    /// [`PortError`] when the index cannot be read. The inner error is about the claims that it does not show yet.
    pub(crate) async fn look(
        &self,
        record: &BatchRecord,
        released: &SeqSet,
        budget: &Budget<'_>,
    ) -> Result<Result<Snapshot<Unread>, String>, PortError> {
        if record.bodies.is_log() {
            let closed = self.object_reader.close(record, budget).await?;
            let unread = |seqs| Unread::Objects(UnreadObjects::of(seqs, closed.frames.clone()));
            return Ok(Ok(Snapshot {
                new: unread(record.undelivered()),
                frozen: unread(record.undelivered_of_frozen_part()),
                leftovers: Unread::Objects(UnreadObjects::default()),
            }));
        }
        let read = self.collector.read_index(record, released, budget);
        let look = span("look").text(BATCH_ID, record.batch_id);
        let read = look.run(read).await?;
        Ok(read.map(|index| index.map(Unread::Index)))
    }

    /// Reads the next events of `unread`, in seq order.
    pub(crate) async fn read(
        &self,
        record: &BatchRecord,
        unread: &mut Unread,
        limits: ReadLimits,
        budget: &Budget<'_>,
    ) -> ReadEvents {
        if unread.is_empty() {
            return self.read_unread(record, unread, limits, budget).await;
        }
        let read = async {
            let read = self.read_unread(record, unread, limits, budget).await;
            traces::count(ITEMS_COUNT, read.events.len() as u64);
            read
        };
        let collect = span("collect").text(BATCH_ID, record.batch_id);
        collect.run(read).await
    }

    async fn read_unread(
        &self,
        record: &BatchRecord,
        unread: &mut Unread,
        limits: ReadLimits,
        budget: &Budget<'_>,
    ) -> ReadEvents {
        match unread {
            Unread::Index(entries) => {
                let (collector, batch) = (&self.collector, record.batch_id);
                match collector.read(batch, entries, limits, budget).await {
                    Ok(events) => ReadEvents {
                        events,
                        ..ReadEvents::default()
                    },
                    Err(error) => ReadEvents {
                        failed: Some(HandOverError::Service(error)),
                        ..ReadEvents::default()
                    },
                }
            }
            Unread::Objects(objects) => {
                let reader = &self.object_reader;
                reader.read(record, objects, limits, budget).await
            }
        }
    }
}
