//! Which faults strike the requests of one proxy.

use std::sync::Arc;

use async_trait::async_trait;

use super::call::{Call, Refused, Reply};
use super::credentials::Credentials;
use super::replies::RequestFaults;
use super::upstream::Upstream;

/// Faults of one service, which depend on what a request asks.
#[async_trait]
pub trait ServiceFaults: Send + Sync {
    /// Returns the reply to a call, with or without the service.
    ///
    /// # Errors
    /// When the service could not be reached.
    async fn answer(&self, call: Call, upstream: &Upstream) -> Result<Reply, Refused>;
}

/// What strikes the requests that go through one proxy.
#[derive(Clone, Default)]
pub struct Strikes {
    /// Whose credentials expire; `None` if nobody's do.
    pub credentials: Option<Arc<Credentials>>,
    /// Which replies are lost, and which requests fail.
    pub requests: Arc<RequestFaults>,
    /// The faults of the service itself; `None` if it has none.
    pub service: Option<Arc<dyn ServiceFaults>>,
}
