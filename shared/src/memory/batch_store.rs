use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use protocol::answer::BatchAnswers;
use protocol::batch::{BatchRecord, BatchWrite, Listing, apply};
use protocol::ids::BatchId;
use protocol::invariants::record_is_sound;
use protocol::limits::{DYNAMODB_ITEM_BYTES_MAX, STATUS_SHARDS};
use protocol::time::Timestamp;

use super::named_items::MemoryNamedItems;
use crate::locked::locked;
use crate::ports::{BatchReply, BatchStore, ListPage, ListPosition, ListShard, Overdue, PortError};

/// Entries in a page of a list, about as many as DynamoDB returns at once.
const PAGE_ENTRIES: usize = 5_000;

/// The batch table in memory.
#[derive(Debug)]
pub struct MemoryBatchStore {
    records: Mutex<BTreeMap<BatchId, BatchRecord>>,
    /// The other items of the table.
    named_items: MemoryNamedItems,
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
            named_items: MemoryNamedItems::new(),
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

    /// Returns the table with these named items, of which answers are in lists too.
    #[must_use]
    pub fn with_named_items(self, named_items: &MemoryNamedItems) -> MemoryBatchStore {
        MemoryBatchStore {
            named_items: named_items.clone(),
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
        let mut listed = match list.listing {
            Listing::Answers => self
                .named_items
                .answers(list.shard)
                .into_iter()
                .filter_map(of_answers)
                .collect(),
            Listing::Status(_) | Listing::Notices => self.of_records(list),
        };
        let key = |one: &Overdue| (one.due_at, one.batch_id);
        let after = after.map(|last| {
            let due_at = last.due_at.parse().map(Timestamp::from_ms);
            let due_at = due_at.expect("a position of this store has a time");
            let id = last.batch_id.parse();
            (due_at, id.expect("a position of this store has an id"))
        });
        listed.retain(|one| one.due_at < due_before);
        listed.retain(|one| after.is_none_or(|after| after < key(one)));
        listed.sort_unstable_by_key(key);
        let is_last = listed.len() <= self.page_entries_max;
        listed.truncate(self.page_entries_max);
        let next = listed.last().filter(|_| !is_last);
        Ok(ListPage {
            next: next.map(|last| ListPosition {
                batch_id: last.batch_id.to_string(),
                due_at: last.due_at.as_ms().to_string(),
            }),
            batches: listed,
        })
    }
}

impl MemoryBatchStore {
    /// Returns the batches whose records are in a list.
    fn of_records(&self, list: ListShard) -> Vec<Overdue> {
        let records = locked(&self.records);
        let is_listed = |record: &&BatchRecord| {
            record.listing() == Some(list.listing)
                && record.batch_id.random_byte() % STATUS_SHARDS == list.shard
        };
        records.values().filter(is_listed).map(overdue).collect()
    }
}

fn of_answers((batch_id, answers): (BatchId, BatchAnswers)) -> Option<Overdue> {
    Some(Overdue {
        batch_id,
        source: answers.source?,
        due_at: answers.due_at,
    })
}

fn overdue(record: &BatchRecord) -> Overdue {
    Overdue {
        batch_id: record.batch_id,
        source: record.source.clone(),
        due_at: record.due_at,
    }
}
