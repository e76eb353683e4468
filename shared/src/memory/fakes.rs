use std::sync::{Arc, Mutex};

use protocol::time::Timestamp;

use super::batch_store::MemoryBatchStore;
use super::clock::{ManualClock, SeededEntropy};
use super::lock_store::MemoryLockStore;
use super::locked::locked;
use super::overflow_store::MemoryOverflowStore;
use super::queues::{MemoryBatchQueue, MemoryQuarantineQueue};
use crate::ports::{MetricLog, Ports};

/// Lines of metrics in memory.
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

/// Every port in memory: what a handler under test works on.
#[derive(Clone, Debug)]
pub struct Fakes {
    /// The lock table.
    pub lock_store: Arc<MemoryLockStore>,
    /// The batch table.
    pub batch_store: Arc<MemoryBatchStore>,
    /// The batch queue.
    pub batch_queue: Arc<MemoryBatchQueue>,
    /// The quarantine queue.
    pub quarantine_queue: Arc<MemoryQuarantineQueue>,
    /// Where bodies are that do not fit their items.
    pub overflow_store: Arc<MemoryOverflowStore>,
    /// Time, which moves when somebody sleeps.
    pub clock: Arc<ManualClock>,
    /// Randomness, the same in every run.
    pub entropy: Arc<SeededEntropy>,
    /// Metrics.
    pub metric_log: Arc<MemoryMetricLog>,
}

impl Fakes {
    /// Empty tables and queues at `now`.
    pub fn at(now: Timestamp) -> Fakes {
        Fakes {
            lock_store: Arc::new(MemoryLockStore::new()),
            batch_store: Arc::new(MemoryBatchStore::new()),
            batch_queue: Arc::new(MemoryBatchQueue::new()),
            quarantine_queue: Arc::new(MemoryQuarantineQueue::new()),
            overflow_store: Arc::new(MemoryOverflowStore::new()),
            clock: Arc::new(ManualClock::at(now)),
            entropy: Arc::new(SeededEntropy::new(7)),
            metric_log: Arc::new(MemoryMetricLog::default()),
        }
    }

    /// The fakes as a handler takes them.
    pub fn ports(&self) -> Ports {
        Ports {
            lock_store: self.lock_store.clone(),
            batch_store: self.batch_store.clone(),
            batch_queue: self.batch_queue.clone(),
            quarantine_queue: Some(self.quarantine_queue.clone()),
            overflow_store: self.overflow_store.clone(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            metric_log: self.metric_log.clone(),
        }
    }
}
