use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::ByteStream;
use protocol::claim::Overflow;

use super::errors::{S3, port_error};
use super::sdk::Sdk;
use crate::ports::{OverflowStore, PortError};

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
    async fn put(&self, place: &Overflow, body: &Arc<str>) -> Result<(), PortError> {
        self.client
            .put_object()
            .bucket(&*place.bucket)
            .key(&place.key)
            .body(ByteStream::from(body.as_bytes().to_vec()))
            .send()
            .await
            .map_err(|error| port_error(S3, &place.to_string(), &error))?;
        Ok(())
    }

    async fn get(&self, place: &Overflow) -> Result<Option<Arc<str>>, PortError> {
        let got = self
            .client
            .get_object()
            .bucket(&*place.bucket)
            .key(&place.key)
            .send()
            .await;
        let object = match got {
            Ok(object) => object,
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(GetObjectError::is_no_such_key) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(port_error(S3, &place.to_string(), &error)),
        };
        let unread = |problem: String| PortError::Unknown {
            service: S3,
            message: format!("{place}: {problem}"),
        };
        let bytes = object
            .body
            .collect()
            .await
            .map_err(|error| unread(error.to_string()))?;
        let text = String::from_utf8(bytes.to_vec()).map_err(|error| PortError::Refused {
            service: S3,
            message: format!("{place}: {error}"),
        })?;
        Ok(Some(text.into()))
    }

    async fn remove(&self, place: &Overflow) -> Result<(), PortError> {
        self.client
            .delete_object()
            .bucket(&*place.bucket)
            .key(&place.key)
            .send()
            .await
            .map_err(|error| port_error(S3, &place.to_string(), &error))?;
        Ok(())
    }
}
