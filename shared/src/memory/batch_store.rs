use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use protocol::batch::{BatchRecord, BatchWrite, apply};
use protocol::ids::BatchId;
use protocol::invariants::record_is_sound;
use protocol::limits::{DYNAMODB_ITEM_BYTES_MAX, STATUS_SHARDS};
use protocol::time::Timestamp;

use crate::locked::locked;
use crate::ports::{BatchReply, BatchStore, ListPage, ListPosition, ListShard, Overdue, PortError};

/// Entries in a page of a list, about as many as DynamoDB returns at once.
const PAGE_ENTRIES: usize = 5_000;

/// The batch table in memory.
#[derive(Debug)]
pub struct MemoryBatchStore {
    records: Mutex<BTreeMap<BatchId, BatchRecord>>,
    item_bytes_max: usize,
    page_entries_max: usize,
    refuses_seals: AtomicBool,
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
            page_entries_max: PAGE_ENTRIES,
            refuses_seals: AtomicBool::new(false),
        }
    }

    /// Returns the table with pages of at most `page_entries_max` entries.
    #[must_use]
    pub fn with_pages_of(self, page_entries_max: usize) -> MemoryBatchStore {
        MemoryBatchStore {
            page_entries_max,
            ..self
        }
    }

    /// Refuses every seal from now on, or takes them again.
    pub fn refuse_seals(&self, refuses: bool) {
        self.refuses_seals.store(refuses, Ordering::Relaxed);
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
        if matches!(write, BatchWrite::Seal { .. }) && self.refuses_seals.load(Ordering::Relaxed) {
            return Err(PortError::refused("memory", "no seals"));
        }
        let mut records = locked(&self.records);
        let Some(record) = records.get_mut(&batch) else {
            return Ok(BatchReply::Refused(None));
        };
        Ok(match apply(record, write) {
            None => BatchReply::Refused(Some(Box::new(record.clone()))),
            Some(next) if next.bytes() > self.item_bytes_max => {
                let bytes = next.bytes();
                let message = format!("record of batch {batch}: too large: got {bytes} bytes");
                return Err(PortError::refused("memory", message));
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
        list: ListShard,
        due_before: Timestamp,
        after: Option<&ListPosition>,
    ) -> Result<ListPage, PortError> {
        let records = locked(&self.records);
        let is_listed = |record: &&BatchRecord| {
            record.listing() == Some(list.listing)
                && record.batch_id.random_byte() % STATUS_SHARDS == list.shard
                && record.due_at < due_before
        };
        let key = |record: &BatchRecord| (record.due_at, record.batch_id);
        let after = after.map(|last| {
            let due_at = last.due_at.parse().map(Timestamp::from_ms);
            let due_at = due_at.expect("a position of this store has a time");
            let id = last.batch_id.parse();
            (due_at, id.expect("a position of this store has an id"))
        });
        let mut listed: Vec<&BatchRecord> = records
            .values()
            .filter(is_listed)
            .filter(|record| after.is_none_or(|after| after < key(record)))
            .collect();
        listed.sort_unstable_by_key(|record| key(record));
        let is_last = listed.len() <= self.page_entries_max;
        listed.truncate(self.page_entries_max);
        let next = listed.last().filter(|_| !is_last);
        Ok(ListPage {
            next: next.map(|last| ListPosition {
                batch_id: last.batch_id.to_string(),
                due_at: last.due_at.as_ms().to_string(),
            }),
            batches: listed.into_iter().map(overdue).collect(),
        })
    }
}

fn overdue(record: &BatchRecord) -> Overdue {
    Overdue {
        batch_id: record.batch_id,
        source: record.source.clone(),
        due_at: record.due_at,
    }
}
