//! Where the events of a batch are found: by the index and the lock table, or by the batch record and its chunks.

use protocol::batch::BatchRecord;
use protocol::seqs::SeqSet;
use shared::ports::PortError;
use shared::retry::Budget;

use crate::chunk_reader::{ChunkReader, Read};
use crate::collector::{Collector, ReadLimits};
use crate::index_snapshot::{IndexEntries, IndexRead};
use crate::overflow_bodies::HandOverError;

/// Finds and reads the events of batches.
pub(crate) struct BodySource {
    pub(crate) collector: Collector,
    pub(crate) chunk_reader: ChunkReader,
}

/// The result of looking for the events of a batch.
pub(crate) enum Look {
    Complete(Snapshot),
    /// The index does not show every claim that must exist yet.
    Lagging {
        /// The missing claims, described for the log.
        missing: String,
    },
}

/// Events that must still be read, by what their seats are to the batch.
pub(crate) struct Snapshot {
    /// Events in no part yet.
    pub(crate) new: Unread,
    /// Events in the frozen part.
    pub(crate) frozen: Unread,
    /// Events in a delivered part, or set aside. Their claims may not be released yet.
    pub(crate) leftovers: Unread,
}

/// Events that must still be read.
pub(crate) enum Unread {
    Index(IndexEntries),
    Chunks(SeqSet),
}

impl Unread {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Unread::Index(entries) => entries.is_empty(),
            Unread::Chunks(seqs) => seqs.is_empty(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Unread::Index(entries) => entries.len(),
            Unread::Chunks(seqs) => seqs.len() as usize,
        }
    }
}

impl BodySource {
    /// Looks for the events of a batch. Leaves out index entries of the seqs in `released`, which the index may still show.
    pub(crate) async fn look(
        &self,
        record: &BatchRecord,
        released: &SeqSet,
        budget: &Budget<'_>,
    ) -> Result<Look, PortError> {
        if record.bodies.in_chunks() {
            let frozen = record.frozen_part();
            return Ok(Look::Complete(Snapshot {
                new: Unread::Chunks(record.undelivered()),
                frozen: Unread::Chunks(
                    frozen.map_or_else(SeqSet::new, |(_, part)| part.members.clone()),
                ),
                leftovers: Unread::Chunks(SeqSet::new()),
            }));
        }
        let read = self.collector.read_index(record, released, budget).await?;
        Ok(match read {
            IndexRead::Complete(index) => Look::Complete(Snapshot {
                new: Unread::Index(index.new),
                frozen: Unread::Index(index.frozen),
                leftovers: Unread::Index(index.leftovers),
            }),
            IndexRead::Lagging { missing } => Look::Lagging { missing },
        })
    }

    /// Reads the next events of `unread`, in seq order.
    pub(crate) async fn read(
        &self,
        record: &BatchRecord,
        unread: &mut Unread,
        limits: ReadLimits,
        budget: &Budget<'_>,
    ) -> Result<Read, HandOverError> {
        match unread {
            Unread::Index(entries) => {
                let batch = record.batch_id;
                let read = self.collector.read(batch, entries, limits, budget);
                let events = read.await.map_err(HandOverError::Service)?;
                Ok(Read {
                    events,
                    lost: Vec::new(),
                })
            }
            Unread::Chunks(seqs) => {
                let reader = &self.chunk_reader;
                reader.read(record, seqs, limits, budget).await
            }
        }
    }
}
