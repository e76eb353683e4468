use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use protocol::ids::QuotaKey;
use protocol::quota::{QuotaAccount, QuotaScope};
use protocol::time::Timestamp;

use super::locked::locked;
use crate::ports::{PortError, QuotaStore};

/// The places of quotas, in memory. As in the batch table, the end of a period is no part of the name of its account.
#[derive(Debug, Default)]
pub struct MemoryQuotaStore(Mutex<BTreeMap<(Timestamp, QuotaKey), QuotaAccount>>);

impl MemoryQuotaStore {
    /// Returns a store in which no place is taken.
    pub fn new() -> MemoryQuotaStore {
        MemoryQuotaStore::default()
    }
}

fn name(scope: &QuotaScope) -> (Timestamp, QuotaKey) {
    (scope.begins, scope.key.clone())
}

#[async_trait]
impl QuotaStore for MemoryQuotaStore {
    async fn read(&self, scope: &QuotaScope) -> Result<QuotaAccount, PortError> {
        let stored = locked(&self.0).get(&name(scope)).cloned();
        Ok(stored.unwrap_or_default())
    }

    async fn replace(
        &self,
        scope: &QuotaScope,
        from_version: u64,
        to: &QuotaAccount,
    ) -> Result<bool, PortError> {
        debug_assert_eq!(to.version, from_version + 1, "the version is the next one");
        let mut stored = locked(&self.0);
        let version = stored.get(&name(scope)).map(|account| account.version);
        let is_current = version.unwrap_or_default() == from_version;
        if is_current {
            stored.insert(name(scope), to.clone());
        }
        Ok(is_current)
    }
}
