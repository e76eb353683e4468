use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use protocol::claim::Overflow;

use crate::locked::locked;
use crate::ports::{OverflowStore, PortError};

/// The store of bodies that do not fit their lock items, in memory.
#[derive(Debug, Default)]
pub struct MemoryOverflowStore(Mutex<BTreeMap<String, Arc<str>>>);

impl MemoryOverflowStore {
    pub fn new() -> MemoryOverflowStore {
        MemoryOverflowStore::default()
    }

    /// Returns the keys of all stored bodies.
    pub fn keys(&self) -> Vec<String> {
        locked(&self.0).keys().cloned().collect()
    }
}

#[async_trait]
impl OverflowStore for MemoryOverflowStore {
    async fn put(&self, object: &Overflow, body: &Arc<str>) -> Result<(), PortError> {
        locked(&self.0).insert(object.key.clone(), body.clone());
        Ok(())
    }

    async fn get(&self, object: &Overflow) -> Result<Option<Arc<str>>, PortError> {
        Ok(locked(&self.0).get(&object.key).cloned())
    }

    async fn remove(&self, object: &Overflow) -> Result<(), PortError> {
        locked(&self.0).remove(&object.key);
        Ok(())
    }
}
