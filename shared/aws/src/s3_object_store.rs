use std::ops::Range;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use protocol::bodies::{ObjectPlace, S3Prefix};
use protocol::ids::{ObjectId, PieceId};
use protocol::time::Timestamp;
use shared::ports::{ObjectReply, ObjectStore, Piece, PiecesRead, PortError};

use crate::dynamo_object_store::DynamoObjectStore;
use crate::errors::{S3, port_error};
use crate::s3_objects;

/// Objects in a bucket, and small ones as items of the batch table.
#[derive(Clone, Debug)]
pub struct S3ObjectStore {
    client: Client,
    table: DynamoObjectStore,
}

impl S3ObjectStore {
    /// Returns the store with a given client.
    pub fn of(client: Client, table: DynamoObjectStore) -> S3ObjectStore {
        S3ObjectStore { client, table }
    }

    async fn get_object(
        &self,
        S3Prefix { bucket, prefix }: &S3Prefix,
        id: PieceId,
        range: Option<&Range<u64>>,
    ) -> Result<Option<Vec<u8>>, PortError> {
        let key = format!("{prefix}{id}");
        let name = format!("s3://{bucket}/{key}");
        s3_objects::get(&self.client, bucket, &key, range, &name).await
    }
}

#[async_trait]
impl ObjectStore for S3ObjectStore {
    async fn put(
        &self,
        place: &ObjectPlace,
        id: PieceId,
        piece: &Piece,
        expires_at: Timestamp,
    ) -> Result<ObjectReply, PortError> {
        let ObjectPlace::S3(S3Prefix { bucket, prefix }) = place else {
            return self.table.put(place, id, piece, expires_at).await;
        };
        let key = format!("{prefix}{id}");
        let name = || format!("s3://{bucket}/{key}");
        let sent = self
            .client
            .put_object()
            .bucket(&**bucket)
            .key(&key)
            .if_none_match("*")
            .body(ByteStream::from(piece.bytes.clone()))
            .send()
            .await;
        match sent {
            Ok(_) => Ok(ObjectReply::Stored),
            Err(error) => match error.code() {
                Some("PreconditionFailed") => Ok(ObjectReply::Exists),
                // Another request for this object was under way; a retry finds out what became of it.
                Some("ConditionalRequestConflict") => {
                    let message = format!("{}: conflict with a request under way", name());
                    Err(PortError::unknown(S3, message))
                }
                _ => Err(port_error(S3, &name(), &error)),
            },
        }
    }

    async fn get(&self, place: &ObjectPlace, id: PieceId) -> Result<Option<Piece>, PortError> {
        let ObjectPlace::S3(prefix) = place else {
            return self.table.get(place, id).await;
        };
        let bytes = self.get_object(prefix, id, None).await?;
        Ok(bytes.map(|bytes| Piece {
            bytes,
            pieces_count: 1,
        }))
    }

    async fn get_from_table(&self, ids: &[PieceId]) -> Result<PiecesRead, PortError> {
        self.table.get_from_table(ids).await
    }

    async fn get_range(
        &self,
        place: &S3Prefix,
        object: ObjectId,
        range: &Range<u64>,
    ) -> Result<Option<Vec<u8>>, PortError> {
        let id = PieceId { object, index: 0 };
        self.get_object(place, id, Some(range)).await
    }
}
