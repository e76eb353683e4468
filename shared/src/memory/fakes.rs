use std::sync::{Arc, Mutex};

use protocol::time::Timestamp;

use super::batch_store::MemoryBatchStore;
use super::clock::{ManualClock, SeededEntropy};
use super::lock_store::MemoryLockStore;
use super::named_items::MemoryNamedItems;
use super::object_store::MemoryObjectStore;
use super::overflow_store::MemoryOverflowStore;
use super::queues::{MemoryBatchQueue, MemoryQuarantineQueue};
use crate::locked::locked;
use crate::ports::{MetricLog, NamedItems, Ports};

#[derive(Debug, Default)]
pub struct MemoryMetricLog(Mutex<Vec<String>>);

impl MemoryMetricLog {
    /// Takes every line written so far.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.0))
    }
}

impl MetricLog for MemoryMetricLog {
    fn write(&self, line: &str) {
        locked(&self.0).push(line.to_owned());
    }
}

/// All ports of a handler, in memory.
#[derive(Clone)]
pub struct Fakes {
    pub lock_store: Arc<MemoryLockStore>,
    pub batch_store: Arc<MemoryBatchStore>,
    pub batch_queue: Arc<MemoryBatchQueue>,
    pub quarantine_queue: Arc<MemoryQuarantineQueue>,
    /// In no function unless its test puts it there.
    pub duplicates_queue: Arc<MemoryQuarantineQueue>,
    pub overflow_store: Arc<MemoryOverflowStore>,
    pub object_store: Arc<MemoryObjectStore>,
    pub named_items: Arc<dyn NamedItems>,
    pub clock: Arc<ManualClock>,
    pub entropy: Arc<SeededEntropy>,
    pub metric_log: Arc<MemoryMetricLog>,
}

impl Fakes {
    /// Returns empty tables and queues, with a clock that shows `now`.
    pub fn at(now: Timestamp) -> Fakes {
        let named_items = MemoryNamedItems::new();
        Fakes {
            lock_store: Arc::new(MemoryLockStore::new()),
            batch_store: Arc::new(MemoryBatchStore::new().with_named_items(&named_items)),
            batch_queue: Arc::new(MemoryBatchQueue::new()),
            quarantine_queue: Arc::new(MemoryQuarantineQueue::default()),
            duplicates_queue: Arc::new(MemoryQuarantineQueue::default()),
            overflow_store: Arc::new(MemoryOverflowStore::new()),
            object_store: Arc::new(MemoryObjectStore::new()),
            named_items: Arc::new(named_items),
            clock: Arc::new(ManualClock::at(now)),
            entropy: Arc::new(SeededEntropy::new(7)),
            metric_log: Arc::new(MemoryMetricLog::default()),
        }
    }

    pub fn ports(&self) -> Ports {
        Ports {
            lock_store: self.lock_store.clone(),
            batch_store: self.batch_store.clone(),
            batch_queue: self.batch_queue.clone(),
            quarantine_queue: Some(self.quarantine_queue.clone()),
            duplicates_queue: None,
            notice_target: None,
            overflow_store: self.overflow_store.clone(),
            object_store: self.object_store.clone(),
            named_items: self.named_items.clone(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            metric_log: self.metric_log.clone(),
        }
    }
}
