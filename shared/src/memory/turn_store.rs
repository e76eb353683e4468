use std::sync::Mutex;

use async_trait::async_trait;
use protocol::turns::Turns;

use super::locked::locked;
use crate::ports::{PortError, TurnStore};

/// The turns of deliveries, in memory.
#[derive(Debug, Default)]
pub struct MemoryTurnStore(Mutex<Option<Turns>>);

impl MemoryTurnStore {
    /// Returns a store of which no turn is taken.
    pub fn new() -> MemoryTurnStore {
        MemoryTurnStore::default()
    }
}

#[async_trait]
impl TurnStore for MemoryTurnStore {
    async fn read(&self) -> Result<Option<Turns>, PortError> {
        Ok(*locked(&self.0))
    }

    async fn replace(&self, from: Option<Turns>, to: Turns) -> Result<bool, PortError> {
        let mut turns = locked(&self.0);
        let is_from = *turns == from;
        if is_from {
            *turns = Some(to);
        }
        Ok(is_from)
    }
}
