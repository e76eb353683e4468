use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use protocol::answer::BatchAnswers;
use protocol::batch::Listing;
use protocol::ids::BatchId;
use serde_dynamo::AttributeValue;

use crate::locked::locked;
use crate::named_items::{ANSWERS, versioned};
use crate::ports::{Change, Document, NamedItems, PortError};

/// The named items of the batch table, in memory. A clone has the same items.
#[derive(Clone, Debug, Default)]
pub struct MemoryNamedItems(Arc<Mutex<BTreeMap<String, Document>>>);

impl MemoryNamedItems {
    /// Returns a store without items.
    pub fn new() -> MemoryNamedItems {
        MemoryNamedItems::default()
    }

    /// Returns the answers about batches that are in this shard of `status-index`.
    pub(super) fn answers(&self, shard: u8) -> Vec<(BatchId, BatchAnswers)> {
        let listed_in = AttributeValue::S(format!("{}#{shard}", Listing::Answers.as_str()));
        let items = locked(&self.0);
        let listed = items
            .iter()
            .filter(|(_, item)| item.attributes.get("statusShard") == Some(&listed_in));
        let read = listed.filter_map(|(name, item)| {
            let batch = name.strip_prefix(ANSWERS)?.parse().ok()?;
            Some((batch, versioned(name, item.clone()).ok()?.value))
        });
        read.collect()
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
