//! The batch table as operators look at it: many batches at once. The functions do not use it.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use futures::StreamExt;
use futures::future::try_join_all;
use futures::stream;
use protocol::batch::{
    BatchRecord, Lease, Listing, Notice, OperatorNote, PartRecord, PartState, Status,
};
use protocol::bodies::Bodies;
use protocol::ids::{BatchId, BatchKey, SourceArn};
use protocol::limits::{BATCH_GET_KEYS_MAX, STATUS_SHARDS};
use protocol::period::Period;
use protocol::time::Timestamp;
use serde::{Serialize, Serializer};
use shared::ports::{Overdue, PortError};

use crate::attributes::{Item, StoredItem, ms};
use crate::batch_get::batch_get;
use crate::batch_items::{BATCH_ID, listing_shard_key, read_overdue, read_record};
use crate::dynamo_batch_store::STATUS_INDEX;
use crate::errors::{DYNAMODB, port_error};

/// Requests that are in flight at once.
const REQUESTS_MAX: usize = 16;
/// The most requests for one set of keys, which DynamoDB may return in several parts.
const ROUNDS_MAX: usize = 20;

/// Selects the batches of one list and shard.
const OF_SHARD: &str = "statusShard = :shard";
/// Selects batches past a due time too.
const DUE: &str = "statusShard = :shard AND dueAt < :before";
/// Selects records of complete batches that were opened since; a piece of an object has neither attribute.
const COMPLETE: &str = "attribute_exists(#completedAt) AND #createdAt >= :since";
/// Selects the records of batches of the log. Those of claims have no `bodies`.
const OF_LOG: &str = "attribute_exists(reservedBytes) AND attribute_exists(bodies)";
/// The attributes of a record that [`read_record`] needs, without the sets of seqs.
const ATTRIBUTES: &str = "batchId formatVersion status dueAt source batchKey periodBegins \
     periodEnds createdAt closesAt shards bodies window confirmed uncertain accounts sealedAt \
     witnesses lockedBy lockedUntil attempts parts quarantine verifyAt error completedAt \
     expiresAt notes noteCount notices reserved reservedBytes slots lastAt busyUntil \
     resolution";

/// Returns the projection of [`ATTRIBUTES`], with its placeholders: several of the names are reserved words.
fn projection() -> (String, HashMap<String, String>) {
    let names = ATTRIBUTES.split(' ');
    let names = names.map(|name| (format!("#{name}"), name.to_owned()));
    let projection = format!("#{}", ATTRIBUTES.replace(' ', ", #"));
    (projection, names.collect())
}

/// The record of a batch without its sets of seqs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchSummary {
    pub batch_id: BatchId,
    /// `None` once the batch is complete.
    #[serde(skip)]
    pub status: Option<Status>,
    pub due_at: Timestamp,
    pub source: SourceArn,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_key: Option<BatchKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    pub created_at: Timestamp,
    pub closes_at: Timestamp,
    #[serde(serialize_with = "as_text")]
    pub bodies: Bodies,
    /// Seats that were reserved. `None` if a version before 0.3 opened the batch.
    #[serde(skip)]
    pub reserved: Option<u64>,
    /// Claims that were counted.
    pub confirmed: u64,
    /// Events of delivered parts that the sink has.
    pub delivered: u64,
    /// Events of delivered parts that are only in a reject list.
    pub rejected: u64,
    pub parts: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    pub attempts: u64,
    /// Why the batch is set aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    pub notes: Vec<OperatorNote>,
    #[serde(skip)]
    pub notes_count: u64,
    /// Notices that may not have been sent.
    #[serde(skip)]
    pub notices: Vec<Notice>,
}

fn as_text<S: Serializer>(bodies: &Bodies, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(bodies)
}

impl BatchSummary {
    /// Returns what the record says.
    pub fn of(record: BatchRecord) -> BatchSummary {
        let parts = record.parts.iter();
        let delivered = parts.filter(|part| matches!(part.state, PartState::Delivered { .. }));
        BatchSummary {
            rejected: delivered.clone().map(|part| part.rejected).sum(),
            delivered: delivered.map(PartRecord::taken).sum(),
            parts: record.parts.len(),
            batch_id: record.batch_id,
            status: record.status,
            due_at: record.due_at,
            source: record.source,
            batch_key: record.batch_key,
            period: record.period,
            created_at: record.created_at,
            closes_at: record.closes_at,
            bodies: record.bodies,
            reserved: record.reservations.map(|one| one.reserved),
            confirmed: record.confirmed,
            lease: record.lease,
            attempts: record.attempts,
            quarantine: record.quarantine,
            error: record.error,
            completed_at: record.completed_at,
            notes: record.notes,
            notes_count: record.notes_count,
            notices: record.notices,
        }
    }
}

/// Batches that were read, in any order.
#[derive(Debug, Default)]
pub struct Summaries {
    pub summaries: Vec<BatchSummary>,
    /// Errors about records that cannot be read, one for each.
    pub malformed: Vec<String>,
}

/// Many records of the batch table, as operators look at them.
#[async_trait]
pub trait BatchCatalogue: Send + Sync {
    /// Returns every batch in this list whose `dueAt` is before `due_before`, if that is given. Eventually consistent.
    async fn listed(
        &self,
        listing: Listing,
        due_before: Option<Timestamp>,
    ) -> Result<Vec<Overdue>, PortError>;

    /// Returns the batches with these ids. Those without a record are left out.
    async fn summaries(&self, ids: &[BatchId]) -> Result<Summaries, PortError>;

    /// Returns every complete batch that was opened at or after `since`. Reads the whole table.
    async fn complete(&self, since: Timestamp) -> Result<Summaries, PortError>;

    /// Returns every batch of the log. Reads the whole table, with strong consistency.
    async fn of_log(&self) -> Result<Vec<BatchId>, PortError>;
}

/// The batch table in DynamoDB.
#[derive(Clone, Debug)]
pub struct DynamoBatchCatalogue {
    client: Client,
    table: String,
}

impl DynamoBatchCatalogue {
    pub fn new(client: Client, table: impl Into<String>) -> DynamoBatchCatalogue {
        DynamoBatchCatalogue {
            client,
            table: table.into(),
        }
    }

    async fn of_shard(
        &self,
        listing: Listing,
        shard: u8,
        due_before: Option<Timestamp>,
    ) -> Result<Vec<Overdue>, PortError> {
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(STATUS_INDEX)
            .expression_attribute_values(":shard", listing_shard_key(listing, shard));
        let query = match due_before {
            None => query.key_condition_expression(OF_SHARD),
            Some(before) => query
                .key_condition_expression(DUE)
                .expression_attribute_values(":before", ms(before)),
        };
        let items = query.into_paginator().items().send();
        let what = format!("{}, index {STATUS_INDEX}", self.table);
        let items = items.collect::<Result<Vec<Item>, _>>().await;
        let items = items.map_err(|error| port_error(DYNAMODB, &what, &error))?;
        let read = |item| read_overdue(&self.table, item);
        Ok(items.into_iter().map(read).collect::<Result<_, _>>()?)
    }

    /// Reads items by key, with strong consistency.
    async fn get(&self, ids: &[BatchId]) -> Result<Vec<Item>, PortError> {
        let (projection, names) = projection();
        let request = KeysAndAttributes::builder()
            .projection_expression(projection)
            .set_expression_attribute_names(Some(names));
        let mut keys: BTreeSet<String> = ids.iter().map(BatchId::to_string).collect();
        let mut items = Vec::with_capacity(ids.len());
        for _ in 0..ROUNDS_MAX {
            let (client, request) = (&self.client, request.clone());
            let got = batch_get(client, &self.table, BATCH_ID, keys, request).await?;
            items.extend(got.items);
            keys = got.unread;
            if keys.is_empty() {
                return Ok(items);
            }
        }
        let message = format!("{}: items left unread in {ROUNDS_MAX} requests", self.table);
        Err(PortError::throttled(DYNAMODB, message))
    }

    fn read(&self, items: impl IntoIterator<Item = Item>) -> Summaries {
        let mut read = Summaries::default();
        for item in items {
            match read_record(&self.table, item) {
                Ok(record) => read.summaries.push(BatchSummary::of(record)),
                Err(error) => read.malformed.push(error.to_string()),
            }
        }
        read
    }
}

#[async_trait]
impl BatchCatalogue for DynamoBatchCatalogue {
    async fn listed(
        &self,
        listing: Listing,
        due_before: Option<Timestamp>,
    ) -> Result<Vec<Overdue>, PortError> {
        let shards = (0..STATUS_SHARDS).map(|shard| self.of_shard(listing, shard, due_before));
        let found = try_join_all(shards).await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn summaries(&self, ids: &[BatchId]) -> Result<Summaries, PortError> {
        let requests = ids.chunks(BATCH_GET_KEYS_MAX).map(|ids| self.get(ids));
        let replies = stream::iter(requests.collect::<Vec<_>>()).buffer_unordered(REQUESTS_MAX);
        let replies: Vec<Result<Vec<Item>, PortError>> = replies.collect().await;
        let items = replies.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(self.read(items.into_iter().flatten()))
    }

    async fn complete(&self, since: Timestamp) -> Result<Summaries, PortError> {
        let (projection, names) = projection();
        let scan = self
            .client
            .scan()
            .table_name(&self.table)
            .filter_expression(COMPLETE)
            .projection_expression(projection)
            .set_expression_attribute_names(Some(names))
            .expression_attribute_values(":since", ms(since));
        let items = scan.into_paginator().items().send();
        let items = items.collect::<Result<Vec<Item>, _>>().await;
        let items = items.map_err(|error| port_error(DYNAMODB, &self.table, &error))?;
        Ok(self.read(items))
    }

    async fn of_log(&self) -> Result<Vec<BatchId>, PortError> {
        let scan = self
            .client
            .scan()
            .table_name(&self.table)
            .filter_expression(OF_LOG)
            .projection_expression(BATCH_ID)
            .consistent_read(true);
        let items = scan.into_paginator().items().send();
        let items = items.collect::<Result<Vec<Item>, _>>().await;
        let items = items.map_err(|error| port_error(DYNAMODB, &self.table, &error))?;
        let ids = items.into_iter().map(|item| {
            let item = StoredItem::new(&self.table, BATCH_ID, item)?;
            item.parsed_key(BATCH_ID)
        });
        Ok(ids.collect::<Result<_, _>>()?)
    }
}
