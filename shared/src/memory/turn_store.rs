use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use protocol::time::Timestamp;

use super::locked::locked;
use crate::ports::{PortError, TurnStore};

/// The turns of deliveries, in memory: the rate, and when the last turn that was taken at it ends.
#[derive(Debug, Default)]
pub struct MemoryTurnStore(Mutex<Option<(u64, Timestamp)>>);

impl MemoryTurnStore {
    /// Returns a store of which no turn is taken.
    pub fn new() -> MemoryTurnStore {
        MemoryTurnStore::default()
    }
}

#[async_trait]
impl TurnStore for MemoryTurnStore {
    async fn take(
        &self,
        now: Timestamp,
        length: Duration,
        rate: u64,
    ) -> Result<Timestamp, PortError> {
        let mut last = locked(&self.0);
        let begins = match *last {
            Some((of, free_at)) if of >= rate => now.max(free_at),
            Some(_) | None => now,
        };
        *last = Some((rate, begins + length));
        Ok(begins)
    }
}
