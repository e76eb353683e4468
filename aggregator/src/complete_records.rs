//! The records of complete batches that this environment has read, for later duplicates of their events.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::batch::BatchRecord;
use protocol::ids::BatchId;
use protocol::limits::COMPLETE_RECORDS_MAX;

/// Complete records, which never change. The oldest one makes room for a new one.
#[derive(Debug, Default)]
pub struct CompleteRecords(Mutex<VecDeque<Arc<BatchRecord>>>);

impl CompleteRecords {
    /// Returns the record of a batch that is known to be complete.
    pub fn get(&self, batch: BatchId) -> Option<Arc<BatchRecord>> {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = records.iter();
        records.find(|record| record.batch_id == batch).cloned()
    }

    /// Keeps a record, if its batch is complete.
    pub fn keep(&self, record: &Arc<BatchRecord>) {
        if record.status.is_some() {
            return;
        }
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Another invocation of this environment may have read the record at the same time.
        if records.iter().any(|kept| kept.batch_id == record.batch_id) {
            return;
        }
        if records.len() == COMPLETE_RECORDS_MAX {
            records.pop_front();
        }
        records.push_back(record.clone());
    }
}

#[cfg(test)]
mod tests {
    use protocol::time::Timestamp;

    use super::*;

    fn record(number: u128) -> BatchRecord {
        let id = format!("00000000-0000-7000-8000-{number:012}");
        let (source, at) = ("arn:q".parse().unwrap(), Timestamp::EPOCH);
        BatchRecord::open(id.parse().unwrap(), source, None, 1, at, at)
    }

    fn complete(number: u128) -> Arc<BatchRecord> {
        let mut record = record(number);
        record.status = None;
        Arc::new(record)
    }

    #[test]
    fn the_last_complete_records_are_kept() {
        let complete_records = CompleteRecords::default();
        complete_records.keep(&Arc::new(record(0)));
        assert_eq!(complete_records.get(record(0).batch_id), None);
        for number in 0..=COMPLETE_RECORDS_MAX as u128 {
            complete_records.keep(&complete(number));
        }
        assert_eq!(complete_records.get(record(0).batch_id), None);
        for number in [1, COMPLETE_RECORDS_MAX as u128] {
            let kept = complete_records.get(record(number).batch_id);
            assert_eq!(kept, Some(complete(number)));
        }
    }
}
