use std::sync::Mutex;

use async_trait::async_trait;
use protocol::pause::Pauses;

use super::locked::locked;
use crate::ports::{PauseStore, PortError};

/// The pauses of deliveries, in memory.
#[derive(Debug, Default)]
pub struct MemoryPauseStore(Mutex<Pauses>);

impl MemoryPauseStore {
    /// Returns a store without pauses.
    pub fn new() -> MemoryPauseStore {
        MemoryPauseStore::default()
    }
}

#[async_trait]
impl PauseStore for MemoryPauseStore {
    async fn read(&self) -> Result<Pauses, PortError> {
        Ok(locked(&self.0).clone())
    }

    async fn write(&self, pauses: &Pauses) -> Result<bool, PortError> {
        let mut stored = locked(&self.0);
        let is_current = stored.version == pauses.version;
        if is_current {
            *stored = Pauses {
                version: pauses.version + 1,
                ..pauses.clone()
            };
        }
        Ok(is_current)
    }
}
