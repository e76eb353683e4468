use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::ReturnValue::AllNew;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
use protocol::batch::{BatchRecord, BatchWrite};
use protocol::ids::BatchId;
use protocol::time::Timestamp;
use shared::ports::{
    BatchReply, BatchStore, ListPage, ListPosition, ListShard, Overdue, PortError,
};

use crate::attributes::{Item, item_of, ms, n, s};
use crate::batch_items::{
    BATCH_ID, STATUS_SHARD, listing_shard_key, read_overdue, read_record, record_item,
};
use crate::batch_writes::update;
use crate::errors::{DYNAMODB, applied, port_error};

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
        let item = match error.into_service_error() {
            UpdateItemError::ConditionalCheckFailedException(failure) => failure.item,
            // `error` has the other variant, as checked above. Without a record, the caller reads it.
            _ => None,
        };
        let record = item.map(|item| self.record(item)).transpose()?;
        Ok(BatchReply::Refused(record))
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
        // If the condition does not hold, an earlier attempt was applied, and its reply was lost.
        applied(&self.table, sent)?;
        Ok(())
    }

    async fn read(&self, batch: BatchId) -> Result<Option<BatchRecord>, PortError> {
        let sent = self
            .client
            .get_item()
            .table_name(&self.table)
            .key(BATCH_ID, s(batch.to_string()))
            .consistent_read(true)
            .send()
            .await;
        let output = sent.map_err(|error| port_error(DYNAMODB, &self.table, &error))?;
        let record = output.item.map(|item| read_record(&self.table, item));
        Ok(record.transpose()?)
    }

    async fn write(&self, batch: BatchId, write: &BatchWrite) -> Result<BatchReply, PortError> {
        let call = update(batch, write).request(&self.client, &self.table, &batch.to_string());
        let sent = call
            .return_values(AllNew)
            .return_values_on_condition_check_failure(AllOld)
            .send()
            .await;
        match sent {
            Ok(output) => match output.attributes {
                Some(item) => Ok(BatchReply::Applied(self.record(item)?)),
                None => {
                    let lack = "no attributes in the reply to an update of";
                    let message = format!("{}: {lack} {batch}", self.table);
                    Err(PortError::unknown(DYNAMODB, message))
                }
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
            item_of([
                (BATCH_ID, s(&last.batch_id)),
                (STATUS_SHARD, shard.clone()),
                (DUE_AT, n(&last.due_at)),
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
