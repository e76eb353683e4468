use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use futures::future::join_all;
use protocol::claim::{Claim, LockItem};
use protocol::ids::{BatchShard, EventId, Place, SourceArn};
use protocol::limits::{BATCH_GET_KEYS_MAX, PARTIQL_STATEMENTS_MAX};
use serde::{Deserialize, Serialize};

use super::attributes::{Item, MalformedItem, Value};
use super::dynamodb::DynamoDb;
use super::errors::DYNAMODB;
use super::lock_items::{
    EVENT_NAMES, EVENT_PROJECTION, LOCK_ITEM_PROJECTION, Names, index_key, read_event,
    read_index_entry, read_lock_item,
};
use super::operation::{json, read};
use super::partiql::{self, Statements};
use super::put;
use crate::config::WriteMode;
use crate::ports::{
    ClaimReply, IndexEntry, IndexPage, LockStore, PortError, Release, ReleaseReply, StoredEvent,
};

/// Finds the index entries of one shard.
const OF_SHARD: &str = "batchId = :batchId";

/// The lock table on DynamoDB.
#[derive(Clone, Debug)]
pub struct DynamoLockStore {
    dynamodb: DynamoDb,
    table: String,
    index: String,
    mode: WriteMode,
    statements: Statements,
}

/// What one BatchGetItem brought, with what was asked for.
struct Got<T> {
    items: Vec<T>,
    /// Keys that were asked for and not read.
    unread: BTreeSet<String>,
}

/// The body of BatchGetItem.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html> (2026-08).
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct BatchGet<'a> {
    request_items: BTreeMap<&'a str, KeysOfTable<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct KeysOfTable<'a> {
    keys: Vec<LockKey<'a>>,
    projection_expression: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expression_attribute_names: Option<Names>,
    consistent_read: bool,
}

/// The body of BatchGetItem's answer. One table was asked, so every key of these maps is it, by name or by ARN.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BatchGetAnswer<'a> {
    #[serde(borrow, default)]
    responses: BTreeMap<Cow<'a, str>, Vec<Item<'a>>>,
    #[serde(borrow, default)]
    unprocessed_keys: BTreeMap<Cow<'a, str>, UnprocessedKeys<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct UnprocessedKeys<'a> {
    #[serde(borrow, default)]
    keys: Vec<LockKey<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LockKey<'a> {
    #[serde(borrow)]
    message_id: Value<'a>,
}

/// The body of Query.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Query.html> (2026-08).
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Query<'a> {
    table_name: &'a str,
    index_name: &'a str,
    key_condition_expression: &'a str,
    expression_attribute_values: OfShardValues<'a>,
    scan_index_forward: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exclusive_start_key: Option<Item<'a>>,
}

/// The value in [`OF_SHARD`].
#[derive(Serialize)]
struct OfShardValues<'a> {
    #[serde(rename = ":batchId")]
    batch_id: Value<'a>,
}

/// The body of Query's answer.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QueryAnswer<'a> {
    #[serde(borrow, default)]
    items: Vec<Item<'a>>,
    #[serde(borrow)]
    last_evaluated_key: Option<Item<'a>>,
}

impl DynamoLockStore {
    /// The lock table `table` with its index by batch, `index`.
    pub fn new(
        dynamodb: DynamoDb,
        table: impl Into<String>,
        index: impl Into<String>,
        mode: WriteMode,
    ) -> DynamoLockStore {
        let table = table.into();
        let statements = Statements::new(&table);
        DynamoLockStore {
            dynamodb,
            table,
            index: index.into(),
            mode,
            statements,
        }
    }

    /// Reads items by key, strongly consistent, each by `read_item`. An id that is asked for twice is read once: DynamoDB refuses requests
    /// that name a key twice. The order is kept, so that a store that stops at 16 MB reads the first ones.
    ///
    /// # Errors
    /// Also [`PortError::Throttled`] when nothing was read at all.
    async fn get<T>(
        &self,
        ids: &[EventId],
        projection: &str,
        names: Option<Names>,
        mut read_item: impl for<'a> FnMut(&'a str, Item<'a>) -> Result<T, MalformedItem>,
    ) -> Result<Got<T>, PortError> {
        debug_assert!(
            ids.len() <= BATCH_GET_KEYS_MAX,
            "{} keys in one request",
            ids.len()
        );
        let mut seen = BTreeSet::new();
        let keys: Vec<LockKey<'_>> = ids
            .iter()
            .filter(|id| seen.insert(*id))
            .map(|id| LockKey {
                message_id: Value::text(id.as_str()),
            })
            .collect();
        if keys.is_empty() {
            return Ok(Got {
                items: Vec::new(),
                unread: BTreeSet::new(),
            });
        }
        let keys = KeysOfTable {
            keys,
            projection_expression: projection,
            expression_attribute_names: names,
            consistent_read: true,
        };
        let request = json(&BatchGet {
            request_items: BTreeMap::from([(self.table.as_str(), keys)]),
        });
        let answer = self
            .dynamodb
            .batch_get_item()
            .call(&self.table, request)
            .await?;
        let answer: BatchGetAnswer<'_> = read(&self.table, &answer)?;
        let mut items = Vec::with_capacity(seen.len());
        for item in answer.responses.into_values().flatten() {
            items.push(read_item(&self.table, item)?);
        }
        let unread: BTreeSet<String> = answer
            .unprocessed_keys
            .into_values()
            .flat_map(|keys| keys.keys)
            .filter_map(|key| match key.message_id {
                Value::S(id) => Some(id.into_owned()),
                _ => None,
            })
            .collect();
        if unread.len() >= seen.len() {
            let message = format!("{}: none of {} items was read", self.table, seen.len());
            return Err(PortError::Throttled {
                service: DYNAMODB,
                message,
            });
        }
        Ok(Got { items, unread })
    }
}

#[async_trait]
impl LockStore for DynamoLockStore {
    fn items_per_request(&self) -> usize {
        match self.mode {
            WriteMode::Batch => PARTIQL_STATEMENTS_MAX,
            WriteMode::Put => 1,
        }
    }

    async fn claim(&self, claims: &[Claim]) -> Vec<ClaimReply> {
        match self.mode {
            WriteMode::Batch => {
                partiql::claim(
                    self.dynamodb.batch_execute_statement(),
                    &self.statements,
                    claims,
                )
                .await
            }
            WriteMode::Put => {
                join_all(
                    claims
                        .iter()
                        .map(|claim| put::claim(self.dynamodb.client(), &self.table, claim)),
                )
                .await
            }
        }
    }

    async fn replace(&self, claim: &Claim, expected: &LockItem) -> ClaimReply {
        put::replace(self.dynamodb.client(), &self.table, claim, expected).await
    }

    async fn read(&self, ids: &[EventId]) -> Result<Vec<Option<LockItem>>, PortError> {
        let got = self
            .get(ids, LOCK_ITEM_PROJECTION, None, read_lock_item)
            .await?;
        let items: BTreeMap<EventId, LockItem> = got.items.into_iter().collect();
        // In order, and as far as everything was read.
        let read: Vec<Option<LockItem>> = ids
            .iter()
            .take_while(|id| !got.unread.contains(id.as_str()))
            .map(|id| items.get(id).cloned())
            .collect();
        if read.is_empty() && !ids.is_empty() {
            let message = format!(
                "{}: {} of {} items were not read",
                self.table,
                got.unread.len(),
                ids.len()
            );
            return Err(PortError::Throttled {
                service: DYNAMODB,
                message,
            });
        }
        Ok(read)
    }

    async fn read_events(
        &self,
        ids: &[EventId],
    ) -> Result<(Vec<StoredEvent>, Vec<EventId>), PortError> {
        // As a rule all events of a batch have one source, which is kept once.
        let mut source: Option<SourceArn> = None;
        let read_item = |table: &str, item: Item<'_>| read_event(table, item, &mut source);
        let got = self
            .get(ids, EVENT_PROJECTION, Some(EVENT_NAMES), read_item)
            .await?;
        let unread = ids
            .iter()
            .filter(|id| got.unread.contains(id.as_str()))
            .cloned()
            .collect();
        Ok((got.items.into_iter().flatten().collect(), unread))
    }

    async fn release(&self, items: &[(EventId, Place)], release: Release) -> Vec<ReleaseReply> {
        match self.mode {
            WriteMode::Batch => {
                partiql::release(
                    self.dynamodb.batch_execute_statement(),
                    &self.statements,
                    items,
                    release,
                )
                .await
            }
            WriteMode::Put => {
                let one = |(id, place)| {
                    put::release(self.dynamodb.client(), &self.table, (id, place), release)
                };
                join_all(items.iter().map(|(id, place)| one((id, *place)))).await
            }
        }
    }

    async fn index(
        &self,
        shard: BatchShard,
        after: Option<&IndexEntry>,
    ) -> Result<IndexPage, PortError> {
        let what = format!("{}, index {}", self.table, self.index);
        let answer = self
            .dynamodb
            .query()
            .call(
                &what,
                json(&Query {
                    table_name: &self.table,
                    index_name: &self.index,
                    key_condition_expression: OF_SHARD,
                    expression_attribute_values: OfShardValues {
                        batch_id: Value::text(shard.to_string()),
                    },
                    scan_index_forward: true,
                    exclusive_start_key: after.map(|entry| index_key(shard, entry)),
                }),
            )
            .await?;
        let answer: QueryAnswer<'_> = read(&what, &answer)?;
        let entry = |item| read_index_entry(&self.table, item);
        let entries = answer
            .items
            .into_iter()
            .map(entry)
            .collect::<Result<_, _>>()?;
        let next = answer.last_evaluated_key.map(entry).transpose()?;
        Ok(IndexPage { entries, next })
    }
}
