use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;

use crate::locked::locked;
use crate::ports::{Change, Document, NamedItems, PortError};

/// The named items of the batch table, in memory.
#[derive(Debug, Default)]
pub struct MemoryNamedItems(Mutex<BTreeMap<String, Document>>);

impl MemoryNamedItems {
    /// Returns a store without items.
    pub fn new() -> MemoryNamedItems {
        MemoryNamedItems::default()
    }

    /// Removes an item, as a person would by mistake. Returns whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        locked(&self.0).remove(name).is_some()
    }
}

#[async_trait]
impl NamedItems for MemoryNamedItems {
    async fn read(&self, name: &str) -> Result<Document, PortError> {
        Ok(locked(&self.0).get(name).cloned().unwrap_or_default())
    }

    async fn write(&self, name: &str, from: u64, change: &Change) -> Result<bool, PortError> {
        let mut items = locked(&self.0);
        if items.get(name).map_or(0, |item| item.version) != from {
            return Ok(false);
        }
        let item = items.entry(name.to_owned()).or_default();
        item.version += 1;
        item.attributes.extend(change.set.clone());
        item.attributes
            .retain(|name, _| !change.remove.contains(name));
        Ok(true)
    }
}
