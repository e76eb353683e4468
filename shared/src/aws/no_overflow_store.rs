use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use protocol::claim::Overflow;

use super::errors::S3;
use super::sdk::Sdk;
use crate::ports::{OverflowStore, PortError};

/// The store of an executable that was built without the cargo feature `s3`. It refuses every request.
#[derive(Clone, Copy, Debug)]
pub struct NoOverflowStore;

impl NoOverflowStore {
    /// Has the signature of `S3OverflowStore::new`.
    pub fn new(_: &Sdk, _: Duration) -> NoOverflowStore {
        NoOverflowStore
    }
}

fn refused(place: &Overflow) -> PortError {
    PortError::Refused {
        service: S3,
        message: format!(
            "{place}: not available: the executable was built without the cargo feature `s3`"
        ),
    }
}

#[async_trait]
impl OverflowStore for NoOverflowStore {
    async fn put(&self, place: &Overflow, _: &Arc<str>) -> Result<(), PortError> {
        Err(refused(place))
    }

    async fn get(&self, place: &Overflow) -> Result<Option<Arc<str>>, PortError> {
        Err(refused(place))
    }

    async fn remove(&self, place: &Overflow) -> Result<(), PortError> {
        Err(refused(place))
    }
}
