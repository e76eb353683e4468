use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use protocol::batch::{BatchRecord, BatchWrite, Listing, apply};
use protocol::ids::BatchId;
use protocol::invariants::record_is_sound;
use protocol::limits::DYNAMODB_ITEM_BYTES_MAX;
use protocol::time::Timestamp;

use super::locked::locked;
use crate::ports::{BatchReply, BatchStore, Overdue, PortError};

/// The batch table in memory.
#[derive(Debug)]
pub struct MemoryBatchStore {
    records: Mutex<BTreeMap<BatchId, BatchRecord>>,
    item_bytes_max: usize,
}

impl Default for MemoryBatchStore {
    fn default() -> MemoryBatchStore {
        MemoryBatchStore::with_items_of(DYNAMODB_ITEM_BYTES_MAX)
    }
}

impl MemoryBatchStore {
    pub fn new() -> MemoryBatchStore {
        MemoryBatchStore::default()
    }

    /// Returns an empty table whose items have at most `item_bytes_max` bytes.
    pub fn with_items_of(item_bytes_max: usize) -> MemoryBatchStore {
        MemoryBatchStore {
            records: Mutex::default(),
            item_bytes_max,
        }
    }

    /// Returns every record, sorted by id.
    pub fn records(&self) -> Vec<BatchRecord> {
        locked(&self.records).values().cloned().collect()
    }

    /// Removes a record, as the TTL does.
    pub fn remove(&self, batch: BatchId) {
        locked(&self.records).remove(&batch);
    }

    pub fn get(&self, batch: BatchId) -> Option<BatchRecord> {
        locked(&self.records).get(&batch).cloned()
    }
}

#[async_trait]
impl BatchStore for MemoryBatchStore {
    async fn create(&self, record: &BatchRecord) -> Result<(), PortError> {
        locked(&self.records)
            .entry(record.batch_id)
            .or_insert_with(|| record.clone());
        Ok(())
    }

    async fn read(&self, batch: BatchId) -> Result<Option<BatchRecord>, PortError> {
        Ok(locked(&self.records).get(&batch).cloned())
    }

    async fn write(&self, batch: BatchId, write: &BatchWrite) -> Result<BatchReply, PortError> {
        let mut records = locked(&self.records);
        let Some(record) = records.get_mut(&batch) else {
            return Ok(BatchReply::Refused(None));
        };
        Ok(match apply(record, write) {
            None => BatchReply::Refused(Some(Box::new(record.clone()))),
            Some(next) if next.bytes() > self.item_bytes_max => {
                return Err(PortError::Refused {
                    service: "memory",
                    message: format!(
                        "record of batch {batch}: too large: got {} bytes",
                        next.bytes()
                    ),
                });
            }
            Some(next) => {
                debug_assert_eq!(record_is_sound(&next), Ok(()));
                *record = next.clone();
                BatchReply::Applied(Box::new(next))
            }
        })
    }

    async fn overdue(
        &self,
        listing: Listing,
        now: Timestamp,
        max: usize,
    ) -> Result<Vec<Overdue>, PortError> {
        let records = locked(&self.records);
        let mut due: Vec<Overdue> = records
            .values()
            .filter(|record| record.listing() == Some(listing) && record.due_at < now)
            .map(|record| Overdue {
                batch_id: record.batch_id,
                source: record.source.clone(),
                due_at: record.due_at,
            })
            .collect();
        due.sort_by_key(|overdue| overdue.due_at);
        due.truncate(max);
        Ok(due)
    }
}
