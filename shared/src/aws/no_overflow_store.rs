use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use protocol::claim::Overflow;

use super::errors::S3;
use super::sdk::Sdk;
use crate::ports::{OverflowStore, PortError};

/// What an executable has that was built without the cargo feature `s3`: nothing is stored, and what others have
/// stored cannot be read.
#[derive(Clone, Copy, Debug)]
pub struct NoOverflowStore;

impl NoOverflowStore {
    /// Where `S3OverflowStore` would be.
    pub fn new(_: &Sdk, _: Duration) -> NoOverflowStore {
        NoOverflowStore
    }
}

fn refused(place: &Overflow) -> PortError {
    PortError::Refused {
        service: S3,
        message: format!("{place}: the executable was built without the cargo feature `s3`"),
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
