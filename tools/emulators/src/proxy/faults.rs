//! Which faults one proxy injects.

use std::sync::Arc;

use async_trait::async_trait;

use super::expiring_credentials::ExpiringCredentials;
use super::request::{NoReply, Reply, ServiceRequest};
use super::request_faults::RequestFaults;
use super::upstream::Upstream;

/// Faults of one service that depend on what a request does.
#[async_trait]
pub trait ServiceFaults: Send + Sync {
    /// Returns the reply to a request: the service's, by [`Upstream::send`], or one of its own.
    ///
    /// # Errors
    /// The service returned no complete reply.
    async fn reply(&self, request: ServiceRequest, upstream: &Upstream) -> Result<Reply, NoReply>;
}

/// The faults that one proxy injects. The default injects none.
#[derive(Clone, Default)]
pub struct ProxyFaults {
    /// Refuses requests that are signed with expired credentials.
    pub credentials: Option<Arc<ExpiringCredentials>>,
    /// Loses replies and fails requests, whatever they ask for.
    pub requests: Arc<RequestFaults>,
    /// Faults that depend on what a request does.
    pub service: Option<Arc<dyn ServiceFaults>>,
}
