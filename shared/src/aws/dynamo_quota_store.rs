use std::collections::BTreeMap;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::ids::BatchId;
use protocol::limits::QUOTA_RETENTION;
use protocol::quota::{QuotaAccount, QuotaScope};
use protocol::seqs::SeqSet;

use super::attributes::{Item, MalformedItem, StoredItem, b, n, required, ttl};
use super::batch_items::BATCH_ID;
use super::named_items::{self, VERSION};
use crate::ports::{PortError, QuotaStore};

/// The number of places that are taken for good.
const TAKEN: &str = "taken";
/// The seats with a reserved place: a set of seqs for each batch.
const RESERVED: &str = "reserved";
/// When DynamoDB may remove the item.
const EXPIRES_AT: &str = "expiresAt";

/// The places of quotas, in one item of the batch table for each quota key and period.
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
        let item = named_items::read(&self.client, &self.table, key(scope)).await?;
        let account = item.map(|item| self.account(item)).transpose()?;
        Ok(account.unwrap_or_default())
    }

    async fn replace(
        &self,
        scope: &QuotaScope,
        from_version: u64,
        to: &QuotaAccount,
    ) -> Result<bool, PortError> {
        debug_assert_eq!(to.version, from_version + 1, "the version is the next one");
        let attributes = Item::from([
            (TAKEN.to_owned(), n(to.taken)),
            (RESERVED.to_owned(), reserved_value(&to.reserved)),
            (EXPIRES_AT.to_owned(), ttl(scope.ends + QUOTA_RETENTION)),
        ]);
        let (client, table) = (&self.client, &self.table);
        named_items::replace(client, table, key(scope), from_version, attributes).await
    }
}
