use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use protocol::turns::Turns;

use super::attributes::{Item, MalformedItem, StoredItem, ms, n, s};
use super::batch_items::BATCH_ID;
use super::errors::applied;
use super::named_items;
use crate::ports::{PortError, TurnStore};

/// The key of the one item. No batch has it: a batch id is a UUID.
const KEY: &str = "turns";
/// When the last turn that was taken ends.
const FREE_AT: &str = "freeAt";
/// Before this time, no part goes to the sink.
const NEXT_AT: &str = "nextAt";
/// The rate for which the turns were taken, in events a second.
const RATE: &str = "rate";

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

    fn turns(&self, item: Item) -> Result<Turns, MalformedItem> {
        let mut item = StoredItem::new(&self.table, BATCH_ID, item)?;
        let rate = item.number(RATE)?;
        let (free_at, next_at) = (item.time_ms(FREE_AT)?, item.time_ms(NEXT_AT)?);
        Ok(Turns {
            rate: item.required(RATE, rate)?,
            free_at: item.required(FREE_AT, free_at)?,
            next_at: item.required(NEXT_AT, next_at)?,
        })
    }
}

#[async_trait]
impl TurnStore for DynamoTurnStore {
    async fn read(&self) -> Result<Option<Turns>, PortError> {
        let item = named_items::read(&self.client, &self.table, KEY.to_owned()).await?;
        Ok(item.map(|item| self.turns(item)).transpose()?)
    }

    async fn replace(&self, from: Option<Turns>, to: Turns) -> Result<bool, PortError> {
        let call = self
            .client
            .update_item()
            .table_name(&self.table)
            .key(BATCH_ID, s(KEY))
            .update_expression("SET #rate = :rate, #freeAt = :freeAt, #nextAt = :nextAt")
            .expression_attribute_names("#rate", RATE)
            .expression_attribute_names("#freeAt", FREE_AT)
            .expression_attribute_names("#nextAt", NEXT_AT)
            .expression_attribute_values(":rate", n(to.rate))
            .expression_attribute_values(":freeAt", ms(to.free_at))
            .expression_attribute_values(":nextAt", ms(to.next_at));
        let call = match from {
            None => call.condition_expression("attribute_not_exists(#rate)"),
            Some(from) => call
                .condition_expression(
                    "#rate = :wasRate AND #freeAt = :wasFreeAt AND #nextAt = :wasNextAt",
                )
                .expression_attribute_values(":wasRate", n(from.rate))
                .expression_attribute_values(":wasFreeAt", ms(from.free_at))
                .expression_attribute_values(":wasNextAt", ms(from.next_at)),
        };
        applied(&self.table, call.send().await)
    }
}
