use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use protocol::sequence::{Sequence, SequenceScope};

use super::locked::locked;
use crate::ports::{PortError, SequenceStore};

/// The numbers of parts, in memory.
#[derive(Debug, Default)]
pub struct MemorySequenceStore(Mutex<BTreeMap<SequenceScope, Sequence>>);

impl MemorySequenceStore {
    /// Returns a store in which no part has a number.
    pub fn new() -> MemorySequenceStore {
        MemorySequenceStore::default()
    }
}

#[async_trait]
impl SequenceStore for MemorySequenceStore {
    async fn read(&self, scope: &SequenceScope) -> Result<Sequence, PortError> {
        let stored = locked(&self.0).get(scope).copied();
        Ok(stored.unwrap_or_default())
    }

    async fn replace(
        &self,
        scope: &SequenceScope,
        from: Sequence,
        to: Sequence,
    ) -> Result<bool, PortError> {
        let mut stored = locked(&self.0);
        let is_current = stored.get(scope).copied().unwrap_or_default() == from;
        if is_current {
            stored.insert(scope.clone(), to);
        }
        Ok(is_current)
    }
}
