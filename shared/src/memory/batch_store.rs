use std::collections::BTreeMap;
use std::sync::Mutex;

use super::locked;
use crate::ids::BatchId;
use crate::ports::{BatchReply, BatchStore, PortError};
use crate::protocol::batch::{BatchRecord, BatchWrite, Status, apply};
use crate::protocol::invariants::record_is_sound;
use crate::time::Timestamp;

/// The batch table in memory.
#[derive(Debug, Default)]
pub struct MemoryBatchStore(Mutex<BTreeMap<BatchId, BatchRecord>>);

impl MemoryBatchStore {
    /// An empty table.
    pub fn new() -> MemoryBatchStore {
        MemoryBatchStore::default()
    }

    /// Every record, by id.
    pub fn records(&self) -> Vec<BatchRecord> {
        locked(&self.0).values().cloned().collect()
    }

    /// A record.
    pub fn get(&self, batch: BatchId) -> Option<BatchRecord> {
        locked(&self.0).get(&batch).cloned()
    }
}

impl BatchStore for MemoryBatchStore {
    async fn create(&self, record: &BatchRecord) -> Result<(), PortError> {
        locked(&self.0)
            .entry(record.batch_id)
            .or_insert_with(|| record.clone());
        Ok(())
    }

    async fn read(&self, batch: BatchId) -> Result<Option<BatchRecord>, PortError> {
        Ok(locked(&self.0).get(&batch).cloned())
    }

    async fn write(&self, batch: BatchId, write: &BatchWrite) -> Result<BatchReply, PortError> {
        let mut records = locked(&self.0);
        let Some(record) = records.get_mut(&batch) else {
            return Ok(BatchReply::Refused(None));
        };
        Ok(match apply(record, write) {
            None => BatchReply::Refused(Some(Box::new(record.clone()))),
            Some(next) => {
                debug_assert_eq!(record_is_sound(&next), Ok(()));
                *record = next.clone();
                BatchReply::Applied(Box::new(next))
            }
        })
    }

    async fn overdue(
        &self,
        status: Status,
        now: Timestamp,
        max: usize,
    ) -> Result<Vec<BatchRecord>, PortError> {
        let records = locked(&self.0);
        let mut due: Vec<BatchRecord> = records
            .values()
            .filter(|record| record.status == Some(status) && record.due_at < now)
            .cloned()
            .collect();
        due.sort_by_key(|record| record.due_at);
        due.truncate(max);
        Ok(due)
    }
}
