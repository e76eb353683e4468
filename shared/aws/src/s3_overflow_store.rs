use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use protocol::claim::Overflow;
use shared::ports::{OverflowStore, PortError};

use crate::errors::{S3, port_error};
use crate::s3_objects;
use crate::sdk::Sdk;

/// The store of bodies that do not fit their lock items, in S3.
#[derive(Clone, Debug)]
pub struct S3OverflowStore {
    client: Client,
}

impl S3OverflowStore {
    /// `attempt_timeout` is the time of one request.
    pub fn new(sdk: &Sdk, attempt_timeout: Duration) -> S3OverflowStore {
        S3OverflowStore::of(sdk.s3(attempt_timeout))
    }

    /// Returns the store with a given client.
    pub fn of(client: Client) -> S3OverflowStore {
        S3OverflowStore { client }
    }
}

#[async_trait]
impl OverflowStore for S3OverflowStore {
    async fn put(&self, object: &Overflow, body: &Arc<str>) -> Result<(), PortError> {
        self.client
            .put_object()
            .bucket(&*object.bucket)
            .key(&object.key)
            .body(ByteStream::from(body.as_bytes().to_vec()))
            .send()
            .await
            .map_err(|error| port_error(S3, &object.to_string(), &error))?;
        Ok(())
    }

    async fn get(&self, object: &Overflow) -> Result<Option<Arc<str>>, PortError> {
        let name = object.to_string();
        let bytes = s3_objects::get(&self.client, &object.bucket, &object.key, None, &name).await?;
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes);
        let text = text.map_err(|error| PortError::refused(S3, format!("{object}: {error}")))?;
        Ok(Some(text.into()))
    }

    async fn remove(&self, object: &Overflow) -> Result<(), PortError> {
        self.client
            .delete_object()
            .bucket(&*object.bucket)
            .key(&object.key)
            .send()
            .await
            .map_err(|error| port_error(S3, &object.to_string(), &error))?;
        Ok(())
    }
}
