use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::ReturnValue;
use protocol::time::Timestamp;

use super::attributes::{StoredItem, ms, n, s};
use super::batch_items::BATCH_ID;
use super::errors::{DYNAMODB, port_error};
use crate::ports::{PortError, TurnStore};

/// The key of the one item. No batch has it: a batch id is a UUID.
const KEY: &str = "turns";
/// When the last turn that was taken ends.
const FREE_AT: &str = "freeAt";
/// The rate at which the turns were taken, in events a second.
const RATE: &str = "rate";
/// How often both writes are tried. Each is refused only because another environment took a turn in between, or because the
/// last turn ended.
const TRIES_MAX: usize = 4;

/// The turns of deliveries, in one item of the batch table. It has no `statusShard`, so it is not in `status-index`.
#[derive(Clone, Debug)]
pub struct DynamoTurnStore {
    client: Client,
    table: String,
}

impl DynamoTurnStore {
    /// Returns the turns in the batch table `table`.
    pub fn new(client: Client, table: impl Into<String>) -> DynamoTurnStore {
        DynamoTurnStore {
            client,
            table: table.into(),
        }
    }

    fn update(&self, now: Timestamp, rate: u64) -> UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(&self.table)
            .key(BATCH_ID, s(KEY))
            .expression_attribute_names("#freeAt", FREE_AT)
            .expression_attribute_names("#rate", RATE)
            .expression_attribute_values(":now", ms(now))
            .expression_attribute_values(":rate", n(rate))
            .return_values(ReturnValue::UpdatedNew)
    }

    /// Sends an update; returns `freeAt` after it, or `None` if its condition does not hold.
    async fn send(&self, update: UpdateItemFluentBuilder) -> Result<Option<Timestamp>, PortError> {
        match update.send().await {
            Ok(output) => {
                let mut item = output.attributes.unwrap_or_default();
                item.insert(BATCH_ID.to_owned(), s(KEY));
                let mut item = StoredItem::new(&self.table, BATCH_ID, item)?;
                let free_at = item.time_ms(FREE_AT)?;
                Ok(Some(item.required(FREE_AT, free_at)?))
            }
            Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(None),
            Err(error) => Err(port_error(DYNAMODB, &self.table, &error)),
        }
    }
}

#[async_trait]
impl TurnStore for DynamoTurnStore {
    async fn take(
        &self,
        now: Timestamp,
        length: Duration,
        rate: u64,
    ) -> Result<Timestamp, PortError> {
        let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        for _ in 0..TRIES_MAX {
            let behind = self
                .update(now, rate)
                .condition_expression("#freeAt > :now AND #rate >= :rate")
                .update_expression("SET #freeAt = #freeAt + :length, #rate = :rate")
                .expression_attribute_values(":length", n(length_ms));
            if let Some(free_at) = self.send(behind).await? {
                return Ok(free_at.saturating_sub(length));
            }
            let at_once = self
                .update(now, rate)
                .condition_expression(
                    "attribute_not_exists(#rate) OR #freeAt <= :now OR #rate < :rate",
                )
                .update_expression("SET #freeAt = :end, #rate = :rate")
                .expression_attribute_values(":end", ms(now + length));
            if self.send(at_once).await?.is_some() {
                return Ok(now);
            }
        }
        Err(PortError::Throttled {
            service: DYNAMODB,
            message: format!("{}: item `{KEY}`: others took every turn", self.table),
        })
    }
}
