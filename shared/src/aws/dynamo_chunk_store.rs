use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::bodies::Bodies;
use protocol::ids::ChunkId;
use protocol::limits::CHUNK_ITEM_BYTES_MAX;
use protocol::time::Timestamp;

use super::attributes::{Item, MalformedItem, StoredItem, b, n, s, ttl};
use super::batch_items::BATCH_ID;
use super::errors::{DYNAMODB, port_error};
use crate::ports::{ChunkReply, ChunkStore, PortError};

/// Permits the write only if there is no item with this key.
const NO_ITEM: &str = "attribute_not_exists(batchId)";
/// How many items a chunk has; only its first item has it.
const PIECES: &str = "pieces";
/// A piece of the chunk.
const PIECE: &str = "piece";
/// The table's TTL attribute.
const EXPIRES_AT: &str = "expiresAt";

/// Chunks as items of the batch table. An item holds at most 400 KB, so a large chunk has several. The first one is written
/// last: where it exists, the chunk is whole.
#[derive(Clone, Debug)]
pub struct DynamoChunkStore {
    client: Client,
    table: String,
}

impl DynamoChunkStore {
    /// Returns the chunks in the batch table `table`.
    pub fn new(client: Client, table: impl Into<String>) -> DynamoChunkStore {
        DynamoChunkStore {
            client,
            table: table.into(),
        }
    }

    /// Returns the key of piece `index`. A batch id alone is the key of the batch record.
    fn key(chunk: ChunkId, index: usize) -> AttributeValue {
        match index {
            0 => s(chunk.to_string()),
            _ => s(format!("{chunk}/{index}")),
        }
    }

    async fn put_piece(
        &self,
        chunk: ChunkId,
        index: usize,
        piece: &[u8],
        pieces: usize,
        expires_at: Timestamp,
    ) -> Result<ChunkReply, PortError> {
        let call = self
            .client
            .put_item()
            .table_name(&self.table)
            .condition_expression(NO_ITEM)
            .item(BATCH_ID, DynamoChunkStore::key(chunk, index))
            .item(PIECE, b(piece))
            .item(EXPIRES_AT, ttl(expires_at));
        let call = match index {
            0 => call.item(PIECES, n(pieces)),
            _ => call,
        };
        match call.send().await {
            Ok(_) => Ok(ChunkReply::Stored),
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(PutItemError::is_conditional_check_failed_exception) =>
            {
                Ok(ChunkReply::Exists)
            }
            Err(error) => Err(port_error(DYNAMODB, &self.table, &error)),
        }
    }

    async fn get_piece(&self, chunk: ChunkId, index: usize) -> Result<Option<Piece>, PortError> {
        let sent = self
            .client
            .get_item()
            .table_name(&self.table)
            .consistent_read(true)
            .key(BATCH_ID, DynamoChunkStore::key(chunk, index))
            .send()
            .await;
        let output = sent.map_err(|error| port_error(DYNAMODB, &self.table, &error))?;
        let piece = output.item.map(|item| self.piece(item)).transpose()?;
        Ok(piece)
    }

    fn piece(&self, item: Item) -> Result<Piece, MalformedItem> {
        let mut item = StoredItem::new(&self.table, BATCH_ID, item)?;
        let bytes = item.bytes(PIECE)?;
        Ok(Piece {
            bytes: item.required(PIECE, bytes)?,
            pieces: item.number(PIECES)?.unwrap_or(1),
        })
    }
}

struct Piece {
    bytes: Vec<u8>,
    /// The number of pieces, in the first piece.
    pieces: usize,
}

impl DynamoChunkStore {
    /// Writes a chunk into the table.
    pub(super) async fn put_chunk(
        &self,
        chunk: ChunkId,
        bytes: &Arc<[u8]>,
        expires_at: Timestamp,
    ) -> Result<ChunkReply, PortError> {
        let pieces: Vec<&[u8]> = bytes.chunks(CHUNK_ITEM_BYTES_MAX).collect();
        let mut reply = ChunkReply::Stored;
        for (index, piece) in pieces.iter().enumerate().rev() {
            // The bytes of a chunk never change, so a piece that exists is this one.
            reply = self
                .put_piece(chunk, index, piece, pieces.len(), expires_at)
                .await?;
        }
        Ok(reply)
    }

    /// Reads a chunk from the table; returns `None` if it is not there.
    pub(super) async fn get_chunk(&self, chunk: ChunkId) -> Result<Option<Arc<[u8]>>, PortError> {
        let Some(first) = self.get_piece(chunk, 0).await? else {
            return Ok(None);
        };
        let mut bytes = first.bytes;
        for index in 1..first.pieces {
            match self.get_piece(chunk, index).await? {
                Some(piece) => bytes.extend(piece.bytes),
                None => return Ok(None),
            }
        }
        Ok(Some(bytes.into()))
    }
}

/// The chunks of a build without S3.
#[async_trait]
impl ChunkStore for DynamoChunkStore {
    async fn put(
        &self,
        bodies: &Bodies,
        chunk: ChunkId,
        bytes: &Arc<[u8]>,
        expires_at: Timestamp,
    ) -> Result<ChunkReply, PortError> {
        match bodies {
            Bodies::Items | Bodies::Table => self.put_chunk(chunk, bytes, expires_at).await,
            Bodies::S3(_) => Err(not_built(bodies, chunk)),
        }
    }

    async fn get(&self, bodies: &Bodies, chunk: ChunkId) -> Result<Option<Arc<[u8]>>, PortError> {
        match (self.get_chunk(chunk).await?, bodies) {
            (None, Bodies::S3(_)) => Err(not_built(bodies, chunk)),
            (bytes, _) => Ok(bytes),
        }
    }
}

fn not_built(bodies: &Bodies, chunk: ChunkId) -> PortError {
    PortError::Refused {
        service: "S3",
        message: format!(
            "chunk `{chunk}`: in `{bodies}`: expected a build with the cargo feature `s3`"
        ),
    }
}
