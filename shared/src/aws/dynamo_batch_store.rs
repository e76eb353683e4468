use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::types::ReturnValue::AllNew;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
use protocol::batch::{BatchRecord, BatchWrite};
use protocol::ids::BatchId;
use protocol::time::Timestamp;

use super::attributes::{Item, ms, s};
use super::batch_items::{
    BATCH_ID, STATUS_SHARD, listing_shard_key, read_overdue, read_record, record_item,
};
use super::batch_writes::update;
use super::errors::{DYNAMODB, port_error};
use super::update::Update;
use crate::ports::{BatchReply, BatchStore, ListPage, ListPosition, ListShard, Overdue, PortError};

/// The index of the batch table by status, shard and due time. A complete batch has no status, so it is not in the
/// index.
pub const STATUS_INDEX: &str = "status-index";

/// Permits the write only if there is no record with this id.
const NO_RECORD: &str = "attribute_not_exists(batchId)";
/// Selects the batches of one list and shard that are due before a time.
const OVERDUE: &str = "statusShard = :shard AND dueAt < :before";
/// Sort key of the index.
const DUE_AT: &str = "dueAt";

/// The batch table on DynamoDB.
#[derive(Clone, Debug)]
pub struct DynamoBatchStore {
    client: Client,
    table: String,
}

impl DynamoBatchStore {
    /// The batch table `table`.
    pub fn new(client: Client, table: impl Into<String>) -> DynamoBatchStore {
        DynamoBatchStore {
            client,
            table: table.into(),
        }
    }

    fn key(batch: BatchId) -> Item {
        [(BATCH_ID.to_owned(), s(batch.to_string()))].into()
    }

    fn record(&self, item: Item) -> Result<Box<BatchRecord>, PortError> {
        Ok(Box::new(read_record(&self.table, item)?))
    }

    fn refused(
        &self,
        error: SdkError<UpdateItemError, HttpResponse>,
    ) -> Result<BatchReply, PortError> {
        if !error
            .as_service_error()
            .is_some_and(UpdateItemError::is_conditional_check_failed_exception)
        {
            return Err(port_error(DYNAMODB, &self.table, &error));
        }
        match error.into_service_error() {
            UpdateItemError::ConditionalCheckFailedException(failure) => Ok(BatchReply::Refused(
                failure.item.map(|item| self.record(item)).transpose()?,
            )),
            // `error` has this variant, as checked above. Without a record, the caller reads it.
            _ => Ok(BatchReply::Refused(None)),
        }
    }

    /// Returns an entry of the index, or logs an error if it is malformed, so that the sweep still gets the other
    /// entries.
    fn well_formed(&self, item: Item) -> Option<Overdue> {
        read_overdue(&self.table, item)
            .inspect_err(|error| tracing::error!(%error, "batch record left out of the sweep"))
            .ok()
    }
}

#[async_trait]
impl BatchStore for DynamoBatchStore {
    async fn create(&self, record: &BatchRecord) -> Result<(), PortError> {
        let sent = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(record_item(record)))
            .condition_expression(NO_RECORD)
            .send()
            .await;
        match sent {
            Ok(_) => Ok(()),
            // An earlier attempt was applied, and its reply was lost.
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(PutItemError::is_conditional_check_failed_exception) =>
            {
                Ok(())
            }
            Err(error) => Err(port_error(DYNAMODB, &self.table, &error)),
        }
    }

    async fn read(&self, batch: BatchId) -> Result<Option<BatchRecord>, PortError> {
        let sent = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(Self::key(batch)))
            .consistent_read(true)
            .send()
            .await;
        let output = sent.map_err(|error| port_error(DYNAMODB, &self.table, &error))?;
        Ok(output
            .item
            .map(|item| read_record(&self.table, item))
            .transpose()?)
    }

    async fn write(&self, batch: BatchId, write: &BatchWrite) -> Result<BatchReply, PortError> {
        let Update {
            condition,
            expression,
            names,
            values,
        } = update(batch, write);
        let sent = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(Self::key(batch)))
            .condition_expression(condition)
            .update_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values((!values.is_empty()).then_some(values))
            .return_values(AllNew)
            .return_values_on_condition_check_failure(AllOld)
            .send()
            .await;
        match sent {
            Ok(output) => match output.attributes {
                Some(item) => Ok(BatchReply::Applied(self.record(item)?)),
                None => Err(PortError::Unknown {
                    service: DYNAMODB,
                    message: format!(
                        "{}: no attributes in the reply to an update of {batch}",
                        self.table
                    ),
                }),
            },
            Err(error) => self.refused(error),
        }
    }

    async fn overdue(
        &self,
        list: ListShard,
        due_before: Timestamp,
        after: Option<&ListPosition>,
    ) -> Result<ListPage, PortError> {
        let shard = listing_shard_key(list.listing, list.shard);
        let start = after.map(|last| {
            Item::from([
                (BATCH_ID.to_owned(), s(&last.batch_id)),
                (STATUS_SHARD.to_owned(), shard.clone()),
                (DUE_AT.to_owned(), AttributeValue::N(last.due_at.clone())),
            ])
        });
        let sent = self
            .client
            .query()
            .table_name(&self.table)
            .index_name(STATUS_INDEX)
            .key_condition_expression(OVERDUE)
            .expression_attribute_values(":shard", shard)
            .expression_attribute_values(":before", ms(due_before))
            .set_exclusive_start_key(start)
            .send()
            .await;
        let what = format!("{}, index {STATUS_INDEX}", self.table);
        let output = sent.map_err(|error| port_error(DYNAMODB, &what, &error))?;
        let items = output.items.unwrap_or_default().into_iter();
        Ok(ListPage {
            batches: items.filter_map(|item| self.well_formed(item)).collect(),
            next: output.last_evaluated_key.as_ref().and_then(position),
        })
    }
}

/// Returns the position of a key of `status-index`, which always has both attributes.
fn position(key: &Item) -> Option<ListPosition> {
    Some(ListPosition {
        batch_id: key.get(BATCH_ID)?.as_s().ok()?.clone(),
        due_at: key.get(DUE_AT)?.as_n().ok()?.clone(),
    })
}
