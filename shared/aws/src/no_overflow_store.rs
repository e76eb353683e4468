use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use protocol::claim::Overflow;
use shared::config::WITHOUT_FULL;
use shared::ports::{OverflowStore, PortError};

use crate::errors::S3;
use crate::sdk::Sdk;

/// The store of an executable that was built without the cargo feature `full`. It refuses every request.
#[derive(Clone, Copy, Debug)]
pub struct NoOverflowStore;

impl NoOverflowStore {
    /// Has the signature of `S3OverflowStore::new`.
    pub fn new(_: &Sdk, _: Duration) -> NoOverflowStore {
        NoOverflowStore
    }
}

fn refused(object: &Overflow) -> PortError {
    PortError::refused(S3, format!("{object}: not available: {WITHOUT_FULL}"))
}

#[async_trait]
impl OverflowStore for NoOverflowStore {
    async fn put(&self, object: &Overflow, _: &Arc<str>) -> Result<(), PortError> {
        Err(refused(object))
    }

    async fn get(&self, object: &Overflow) -> Result<Option<Arc<str>>, PortError> {
        Err(refused(object))
    }

    async fn remove(&self, object: &Overflow) -> Result<(), PortError> {
        Err(refused(object))
    }
}
