//! The places of quotas, as an environment takes them.

use async_trait::async_trait;
use protocol::quota::{QuotaAccount, QuotaScope};
use shared::ports::{PortError, QuotaStore};

use crate::environment::Environment;
use crate::world::fakes::now;

#[async_trait]
impl QuotaStore for Environment {
    async fn read(&self, scope: &QuotaScope) -> Result<QuotaAccount, PortError> {
        let scope = scope.clone();
        self.request(move |world| now(world.quotas.read(&scope)))
            .await?
    }

    async fn replace(
        &self,
        scope: &QuotaScope,
        from_version: u64,
        to: &QuotaAccount,
    ) -> Result<bool, PortError> {
        let (scope, to) = (scope.clone(), to.clone());
        self.request(move |world| now(world.quotas.replace(&scope, from_version, &to)))
            .await?
    }
}
