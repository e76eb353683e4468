use std::collections::BTreeMap;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::ids::BatchId;
use protocol::limits::QUOTA_RETENTION;
use protocol::quota::{QuotaAccount, QuotaScope};
use protocol::seqs::SeqSet;

use super::attributes::{Item, MalformedItem, StoredItem, b, n, required, s, ttl};
use super::batch_items::BATCH_ID;
use super::errors::{DYNAMODB, port_error};
use crate::ports::{PortError, QuotaStore};

/// The number of places that are taken for good.
const TAKEN: &str = "taken";
/// The seats with a reserved place: a set of seqs for each batch.
const RESERVED: &str = "reserved";
/// How often the item was written.
const VERSION: &str = "version";
/// When DynamoDB may remove the item.
const EXPIRES_AT: &str = "expiresAt";
/// Permits the write only if the item was not written since it was read.
const SAME_VERSION: &str = "#version = :version";
/// Permits the write only if there is no item.
const NO_ITEM: &str = "attribute_not_exists(#version)";

/// The places of quotas, in one item of the batch table for each quota key and period. No batch has the key of such an item: a
/// batch id is a UUID. The items have no `statusShard`, so they are not in `status-index`.
#[derive(Clone, Debug)]
pub struct DynamoQuotaStore {
    client: Client,
    table: String,
}

impl DynamoQuotaStore {
    /// Returns the places in the batch table `table`.
    pub fn new(client: Client, table: impl Into<String>) -> DynamoQuotaStore {
        DynamoQuotaStore {
            client,
            table: table.into(),
        }
    }

    fn account(&self, item: Item) -> Result<QuotaAccount, MalformedItem> {
        let mut item = StoredItem::new(&self.table, BATCH_ID, item)?;
        Ok(QuotaAccount {
            taken: required(&mut item, TAKEN, StoredItem::number)?,
            reserved: reserved(&mut item)?,
            version: required(&mut item, VERSION, StoredItem::number)?,
        })
    }
}

/// Returns the key of a scope's item: `quota/<beginning in ms>/<quota key>`. It always fits: see
/// [`QUOTA_KEY_BYTES_MAX`](protocol::limits::QUOTA_KEY_BYTES_MAX).
fn key(scope: &QuotaScope) -> String {
    format!("quota/{}/{}", scope.begins.as_ms(), scope.key)
}

fn reserved_value(reserved: &BTreeMap<BatchId, SeqSet>) -> AttributeValue {
    let sets = reserved
        .iter()
        .map(|(batch, seats)| (batch.to_string(), b(seats.to_bytes())));
    AttributeValue::M(sets.collect())
}

fn reserved(item: &mut StoredItem<'_>) -> Result<BTreeMap<BatchId, SeqSet>, MalformedItem> {
    let sets = item.map(RESERVED)?;
    let seats_of = |(batch, seats): (String, AttributeValue)| {
        let batch = batch.parse().map_err(|e| item.malformed(RESERVED, e))?;
        let AttributeValue::B(seats) = seats else {
            return Err(item.malformed(RESERVED, "wrong type: expected a map of binaries"));
        };
        let seats = SeqSet::try_from(seats.as_ref()).map_err(|e| item.malformed(RESERVED, e))?;
        Ok((batch, seats))
    };
    sets.into_iter().map(seats_of).collect()
}

#[async_trait]
impl QuotaStore for DynamoQuotaStore {
    async fn read(&self, scope: &QuotaScope) -> Result<QuotaAccount, PortError> {
        let sent = self
            .client
            .get_item()
            .table_name(&self.table)
            .key(BATCH_ID, s(key(scope)))
            .consistent_read(true)
            .send()
            .await;
        let output = sent.map_err(|error| port_error(DYNAMODB, &self.table, &error))?;
        let account = output.item.map(|item| self.account(item)).transpose()?;
        Ok(account.unwrap_or_default())
    }

    async fn replace(
        &self,
        scope: &QuotaScope,
        from_version: u64,
        to: &QuotaAccount,
    ) -> Result<bool, PortError> {
        debug_assert_eq!(to.version, from_version + 1, "the version is the next one");
        let call = self
            .client
            .put_item()
            .table_name(&self.table)
            .item(BATCH_ID, s(key(scope)))
            .item(TAKEN, n(to.taken))
            .item(RESERVED, reserved_value(&to.reserved))
            .item(VERSION, n(to.version))
            .item(EXPIRES_AT, ttl(scope.ends + QUOTA_RETENTION))
            .expression_attribute_names("#version", VERSION);
        let call = match from_version {
            0 => call.condition_expression(NO_ITEM),
            version => call
                .condition_expression(SAME_VERSION)
                .expression_attribute_values(":version", n(version)),
        };
        match call.send().await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(false),
            Err(error) => Err(port_error(DYNAMODB, &self.table, &error)),
        }
    }
}
