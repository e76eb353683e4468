use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use protocol::time::Timestamp;

use super::locked::locked;
use crate::ports::{PortError, TurnStore};

/// The turns of deliveries, in memory.
#[derive(Debug)]
pub struct MemoryTurnStore(Mutex<Timestamp>);

impl Default for MemoryTurnStore {
    fn default() -> MemoryTurnStore {
        MemoryTurnStore(Mutex::new(Timestamp::EPOCH))
    }
}

impl MemoryTurnStore {
    /// Returns a store of which no turn is taken.
    pub fn new() -> MemoryTurnStore {
        MemoryTurnStore::default()
    }
}

#[async_trait]
impl TurnStore for MemoryTurnStore {
    async fn take(&self, now: Timestamp, length: Duration) -> Result<Timestamp, PortError> {
        let mut free_at = locked(&self.0);
        let begins = now.max(*free_at);
        *free_at = begins + length;
        Ok(begins)
    }
}
