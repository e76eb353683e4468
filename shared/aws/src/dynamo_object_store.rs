use std::collections::BTreeMap;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use protocol::bodies::{ObjectPlace, S3Prefix};
use protocol::ids::PieceId;
use protocol::time::Timestamp;
use shared::config::WITHOUT_FULL;
use shared::ports::{ObjectReply, ObjectStore, Piece, PiecesRead, PortError};

use crate::attributes::{Item, MalformedItem, StoredItem, b, n, required, s, ttl};
use crate::batch_get::batch_get;
use crate::batch_items::BATCH_ID;
use crate::errors::{DYNAMODB, S3, applied, port_error};

/// Permits the write only if there is no item with this key.
const NO_ITEM: &str = "attribute_not_exists(batchId)";
/// How many items an object has; only its first item has it.
const PIECES: &str = "pieces";
/// A piece of the object.
const PIECE: &str = "piece";
/// The table's TTL attribute.
const EXPIRES_AT: &str = "expiresAt";

/// Pieces of objects as items of the batch table. The key is the name of the piece; a batch id alone is the key of the batch
/// record.
#[derive(Clone, Debug)]
pub struct DynamoObjectStore {
    client: Client,
    table: String,
}

impl DynamoObjectStore {
    /// Returns the objects in the batch table `table`.
    pub fn new(client: Client, table: impl Into<String>) -> DynamoObjectStore {
        DynamoObjectStore {
            client,
            table: table.into(),
        }
    }

    fn piece(&self, item: Item) -> Result<Piece, MalformedItem> {
        let mut item = StoredItem::new(&self.table, BATCH_ID, item)?;
        Ok(Piece {
            bytes: required(&mut item, PIECE, StoredItem::bytes)?,
            pieces_count: item.number(PIECES)?.unwrap_or(1),
        })
    }
}

/// Objects in S3 are refused: a build with the cargo feature `full` has another store for them.
#[async_trait]
impl ObjectStore for DynamoObjectStore {
    async fn put(
        &self,
        place: &ObjectPlace,
        id: PieceId,
        piece: &Piece,
        expires_at: Timestamp,
    ) -> Result<ObjectReply, PortError> {
        must_be_table(place, id)?;
        let call = self
            .client
            .put_item()
            .table_name(&self.table)
            .condition_expression(NO_ITEM)
            .item(BATCH_ID, s(id.to_string()))
            .item(PIECE, b(piece.bytes.as_slice()))
            .item(EXPIRES_AT, ttl(expires_at));
        let call = match id.index {
            0 => call.item(PIECES, n(piece.pieces_count)),
            _ => call,
        };
        match applied(&self.table, call.send().await)? {
            true => Ok(ObjectReply::Stored),
            false => Ok(ObjectReply::Exists),
        }
    }

    async fn get(&self, place: &ObjectPlace, id: PieceId) -> Result<Option<Piece>, PortError> {
        must_be_table(place, id)?;
        let sent = self
            .client
            .get_item()
            .table_name(&self.table)
            .consistent_read(true)
            .key(BATCH_ID, s(id.to_string()))
            .send()
            .await;
        let output = sent.map_err(|error| port_error(DYNAMODB, &self.table, &error))?;
        Ok(output.item.map(|item| self.piece(item)).transpose()?)
    }

    async fn get_from_table(&self, ids: &[PieceId]) -> Result<PiecesRead, PortError> {
        let keys = ids.iter().map(PieceId::to_string);
        let request = KeysAndAttributes::builder();
        let got = batch_get(&self.client, &self.table, BATCH_ID, keys, request).await?;
        let mut pieces = BTreeMap::new();
        for item in got.items {
            let key = item.get(BATCH_ID).and_then(|key| key.as_s().ok()).cloned();
            pieces.insert(key.unwrap_or_default(), self.piece(item)?);
        }
        let read = ids.iter().map(|id| (*id, id.to_string()));
        let read = read.filter(|(_, key)| !got.unread.contains(key));
        Ok(read.map(|(id, key)| (id, pieces.remove(&key))).collect())
    }
}

fn must_be_table(place: &ObjectPlace, id: PieceId) -> Result<(), PortError> {
    match place {
        ObjectPlace::Table => Ok(()),
        ObjectPlace::S3(S3Prefix { bucket, prefix }) => {
            let message = format!("object `{id}`: in `s3://{bucket}/{prefix}`: {WITHOUT_FULL}");
            Err(PortError::refused(S3, message))
        }
    }
}
