use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use protocol::claim::{Claim, LockItem};
use protocol::ids::{BatchId, BatchShard, EventId, SeatKey, Seq, SqsMessageId};
use protocol::limits::PARTIQL_STATEMENTS_MAX;
use protocol::time::Timestamp;
use shared::config::WriteMode;
use shared::ports::{
    ClaimReply, IndexEntry, IndexPage, LockItems, LockStore, PortError, Release, ReleaseReply,
    StoredEvent,
};
use tracing::warn;

use crate::attributes::s;
use crate::batch_get::{Got, batch_get};
use crate::errors::{DYNAMODB, port_error};
use crate::lock_items::{
    EVENT_NAME, EVENT_PROJECTION, LOCK_ITEM_NAME, LOCK_ITEM_PROJECTION, MESSAGE_ID, index_key, key,
    read_event, read_index_entry, read_last_seat, read_lock_item, tombstone_item,
};
use crate::partiql::{self, PartiqlRefused, Statements};
use crate::single_writes;

/// The attributes that [`read_last_seat`] needs.
const LAST_SEAT_PROJECTION: &str = "messageId, lastSeat, formatVersion";
/// Selects the index entries of one shard.
const OF_SHARD: &str = "batchId = :batchId";

/// The lock table on DynamoDB.
#[derive(Clone, Debug)]
pub struct DynamoLockStore {
    client: Client,
    table: String,
    index: String,
    mode: WriteMode,
    /// Whether the store has refused PartiQL, with [`WriteMode::Auto`].
    is_partiql_refused: Arc<AtomicBool>,
    statements: Statements,
}

impl DynamoLockStore {
    /// The lock table `table` with its index by batch, `index`.
    pub fn new(
        client: Client,
        table: impl Into<String>,
        index: impl Into<String>,
        mode: WriteMode,
    ) -> DynamoLockStore {
        let table = table.into();
        let statements = Statements::new(&table);
        DynamoLockStore {
            client,
            table,
            index: index.into(),
            mode,
            is_partiql_refused: Arc::default(),
            statements,
        }
    }

    fn uses_partiql(&self) -> bool {
        match self.mode {
            WriteMode::Auto => !self.is_partiql_refused.load(Ordering::Relaxed),
            WriteMode::Batch => true,
            WriteMode::Put => false,
        }
    }

    /// Writes `count` items by the one request `partiql`, or by `singles`, one request an item, which is not sent otherwise. `failed`
    /// makes a reply of an error, and `is_done` tells whether the store took a write.
    ///
    /// With `auto`, single writes follow a request that was refused for PartiQL, and the store goes over to them if it takes one. One
    /// that refuses both may be one whose permissions have not taken effect yet.
    async fn write<R>(
        &self,
        partiql: impl Future<Output = Result<Vec<R>, PartiqlRefused>>,
        singles: impl Future<Output = Vec<R>>,
        count: usize,
        failed: fn(PortError) -> R,
        is_done: fn(&R) -> bool,
    ) -> Vec<R> {
        if !self.uses_partiql() {
            return singles.await;
        }
        let error = match partiql.await {
            Ok(replies) => return replies,
            Err(PartiqlRefused(error)) => error,
        };
        if self.mode == WriteMode::Batch {
            return (0..count).map(|_| failed(error.clone())).collect();
        }
        let replies = singles.await;
        if replies.iter().any(is_done) && !self.is_partiql_refused.swap(true, Ordering::Relaxed) {
            warn!(%error, "`WRITE_MODE` `auto`: the lock table refuses PartiQL: from now on, one conditional request an item");
        }
        replies
    }

    /// Reads items by key with strong consistency; `name` is the placeholder of the projection.
    ///
    /// # Errors
    /// Also [`PortError::Throttled`] when DynamoDB read no item.
    async fn get(
        &self,
        ids: &[EventId],
        projection: &str,
        name: (&str, &str),
    ) -> Result<Got, PortError> {
        let request = KeysAndAttributes::builder()
            .projection_expression(projection)
            .expression_attribute_names(name.0, name.1);
        let keys = ids.iter().map(|id| id.as_str().to_owned());
        batch_get(&self.client, &self.table, MESSAGE_ID, keys, request).await
    }
}

#[async_trait]
impl LockItems for DynamoLockStore {
    async fn last_seat(&self, id: &EventId) -> Result<Option<(BatchId, Seq)>, PortError> {
        let sent = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(key(id)))
            .projection_expression(LAST_SEAT_PROJECTION)
            .consistent_read(true)
            .send()
            .await;
        let output = sent.map_err(|error| port_error(DYNAMODB, &self.table, &error))?;
        let seat = output.item.map(|item| read_last_seat(&self.table, item));
        Ok(seat.transpose()?.flatten())
    }

    async fn remove(&self, id: &EventId, expected: &LockItem) -> Result<bool, PortError> {
        single_writes::remove(&self.client, &self.table, id, expected).await
    }

    async fn remember(
        &self,
        id: &EventId,
        tombstone: &LockItem,
        seat: Option<(BatchId, Seq)>,
        expected: Option<&LockItem>,
    ) -> Result<bool, PortError> {
        let item = tombstone_item(id, tombstone, seat);
        single_writes::remember(&self.client, &self.table, item, expected).await
    }

    async fn scan(
        &self,
        each: &mut (dyn FnMut(EventId, LockItem) + Send),
    ) -> Result<(), PortError> {
        let scan = self
            .client
            .scan()
            .table_name(&self.table)
            .projection_expression(LOCK_ITEM_PROJECTION)
            .expression_attribute_names(LOCK_ITEM_NAME.0, LOCK_ITEM_NAME.1)
            .consistent_read(true);
        let mut items = scan.into_paginator().items().send();
        while let Some(item) = items.next().await {
            let item = item.map_err(|error| port_error(DYNAMODB, &self.table, &error))?;
            let (id, item) = read_lock_item(&self.table, item)?;
            each(id, item);
        }
        Ok(())
    }
}

#[async_trait]
impl LockStore for DynamoLockStore {
    fn items_per_request(&self) -> usize {
        match self.uses_partiql() {
            true => PARTIQL_STATEMENTS_MAX,
            false => 1,
        }
    }

    async fn claim(&self, claims: &[Claim]) -> Vec<ClaimReply> {
        let singles = async {
            let mut replies = Vec::with_capacity(claims.len());
            // One after the other, because the caller counts them as one request in flight. There are several only after a refusal.
            for claim in claims {
                replies.push(single_writes::claim(&self.client, &self.table, claim, None).await);
            }
            replies
        };
        let partiql = partiql::claim(&self.client, &self.statements, claims);
        let is_done = |reply: &ClaimReply| !matches!(reply, ClaimReply::Error(_));
        self.write(partiql, singles, claims.len(), ClaimReply::Error, is_done)
            .await
    }

    async fn replace(&self, claim: &Claim, expected: &LockItem) -> ClaimReply {
        single_writes::claim(&self.client, &self.table, claim, Some(expected)).await
    }

    async fn read(&self, ids: &[EventId]) -> Result<Vec<Option<LockItem>>, PortError> {
        let got = self.get(ids, LOCK_ITEM_PROJECTION, LOCK_ITEM_NAME).await?;
        let items: BTreeMap<EventId, LockItem> = got
            .items
            .into_iter()
            .map(|item| read_lock_item(&self.table, item))
            .collect::<Result<_, _>>()?;
        // The list ends at the first item that was not read.
        let read: Vec<Option<LockItem>> = ids
            .iter()
            .take_while(|id| !got.unread.contains(id.as_str()))
            .map(|id| items.get(id).cloned())
            .collect();
        if read.is_empty() && !ids.is_empty() {
            let (unread, all) = (got.unread.len(), ids.len());
            let message = format!("{}: {unread} of {all} items were not read", self.table);
            return Err(PortError::throttled(DYNAMODB, message));
        }
        Ok(read)
    }

    async fn read_events(
        &self,
        ids: &[EventId],
    ) -> Result<(Vec<StoredEvent>, Vec<EventId>), PortError> {
        let got = self.get(ids, EVENT_PROJECTION, EVENT_NAME).await?;
        // As a rule, all events of a batch have the same source, so its text is kept once.
        let mut source = None;
        let events = got
            .items
            .into_iter()
            .filter_map(|item| read_event(&self.table, item, &mut source).transpose())
            .collect::<Result<_, _>>()?;
        let unread = ids
            .iter()
            .filter(|id| got.unread.contains(id.as_str()))
            .cloned()
            .collect();
        Ok((events, unread))
    }

    async fn release(&self, items: &[(EventId, SeatKey)], release: Release) -> Vec<ReleaseReply> {
        let singles = async {
            let mut replies = Vec::with_capacity(items.len());
            for (id, seat) in items {
                let sent = single_writes::release(&self.client, &self.table, (id, *seat), release);
                replies.push(sent.await);
            }
            replies
        };
        let partiql = partiql::release(&self.client, &self.statements, items, release);
        let is_done = |reply: &ReleaseReply| matches!(reply, ReleaseReply::Released);
        self.write(partiql, singles, items.len(), ReleaseReply::Error, is_done)
            .await
    }

    async fn mark_rejected(
        &self,
        id: &EventId,
        message: &SqsMessageId,
        seat: SeatKey,
        until: Timestamp,
    ) -> Result<(), PortError> {
        let of = (message, seat);
        single_writes::mark_rejected(&self.client, &self.table, id, of, until).await
    }

    async fn index(
        &self,
        shard: BatchShard,
        after: Option<&IndexEntry>,
    ) -> Result<IndexPage, PortError> {
        let what = format!("{}, index {}", self.table, self.index);
        let sent = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(&self.index)
            .key_condition_expression(OF_SHARD)
            .expression_attribute_values(":batchId", s(shard.to_string()))
            .scan_index_forward(true)
            .set_exclusive_start_key(after.map(|entry| index_key(shard, entry)))
            .send()
            .await;
        let output = sent.map_err(|error| port_error(DYNAMODB, &what, &error))?;
        let entry = |item| read_index_entry(&self.table, item);
        let items = output.items.unwrap_or_default().into_iter();
        Ok(IndexPage {
            entries: items.map(entry).collect::<Result<_, _>>()?,
            next: output.last_evaluated_key.map(entry).transpose()?,
        })
    }

    async fn has_items(&self) -> Result<bool, PortError> {
        let sent = self.client.describe_table().table_name(&self.table);
        let output = sent.send().await;
        let output = output.map_err(|error| port_error(DYNAMODB, &self.table, &error))?;
        let count = output.table.and_then(|table| table.item_count);
        Ok(count.unwrap_or_default() > 0)
    }
}
