use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use protocol::bodies::{Bodies, S3Prefix};
use protocol::ids::ChunkId;
use protocol::limits::SMALL_CHUNK_BYTES_MAX;
use protocol::time::Timestamp;

use super::dynamo_chunk_store::DynamoChunkStore;
use super::errors::{S3, port_error};
use super::s3_objects;
use crate::ports::{ChunkReply, ChunkStore, PortError};

/// Chunks as objects of a bucket, and small ones as items of the batch table.
///
/// A write of a few units is cheaper than a request to S3, and the name of a chunk does not say where it is. So a reader looks
/// in the table first.
#[derive(Clone, Debug)]
pub struct S3ChunkStore {
    client: Client,
    table: DynamoChunkStore,
}

impl S3ChunkStore {
    /// Returns the store with a given client.
    pub fn of(client: Client, table: DynamoChunkStore) -> S3ChunkStore {
        S3ChunkStore { client, table }
    }

    async fn put_object(
        &self,
        S3Prefix { bucket, prefix }: &S3Prefix,
        chunk: ChunkId,
        bytes: &Arc<[u8]>,
    ) -> Result<ChunkReply, PortError> {
        let key = format!("{prefix}{chunk}");
        let sent = self
            .client
            .put_object()
            .bucket(&**bucket)
            .key(&key)
            .if_none_match("*")
            .body(ByteStream::from(bytes.to_vec()))
            .send()
            .await;
        match sent {
            Ok(_) => Ok(ChunkReply::Stored),
            Err(error) => match error.code() {
                Some("PreconditionFailed") => Ok(ChunkReply::Exists),
                // Another request for this object was under way; a retry finds out what became of it.
                Some("ConditionalRequestConflict") => Err(PortError::Unknown {
                    service: S3,
                    message: format!("s3://{bucket}/{key}: conflict with a request under way"),
                }),
                _ => Err(port_error(S3, &format!("s3://{bucket}/{key}"), &error)),
            },
        }
    }

    async fn get_object(
        &self,
        S3Prefix { bucket, prefix }: &S3Prefix,
        chunk: ChunkId,
    ) -> Result<Option<Arc<[u8]>>, PortError> {
        let key = format!("{prefix}{chunk}");
        let name = format!("s3://{bucket}/{key}");
        let bytes = s3_objects::get(&self.client, bucket, &key, &name).await?;
        Ok(bytes.map(Into::into))
    }
}

#[async_trait]
impl ChunkStore for S3ChunkStore {
    async fn put(
        &self,
        bodies: &Bodies,
        chunk: ChunkId,
        bytes: &Arc<[u8]>,
        expires_at: Timestamp,
    ) -> Result<ChunkReply, PortError> {
        match bodies {
            Bodies::S3(prefix) if bytes.len() > SMALL_CHUNK_BYTES_MAX => {
                self.put_object(prefix, chunk, bytes).await
            }
            Bodies::Items | Bodies::Table | Bodies::S3(_) => {
                self.table.put_chunk(chunk, bytes, expires_at).await
            }
        }
    }

    async fn get(&self, bodies: &Bodies, chunk: ChunkId) -> Result<Option<Arc<[u8]>>, PortError> {
        match (self.table.get_chunk(chunk).await?, bodies) {
            (None, Bodies::S3(prefix)) => self.get_object(prefix, chunk).await,
            (bytes, _) => Ok(bytes),
        }
    }
}
