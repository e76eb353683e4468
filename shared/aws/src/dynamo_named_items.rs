use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use shared::ports::{Change, Document, NamedItems, PortError};

use crate::attributes::{StoredItem, n, required, s};
use crate::batch_items::BATCH_ID;
use crate::errors::{DYNAMODB, applied, port_error};
use crate::update::Update;

/// How often an item was written.
const VERSION: &str = "version";
/// Permits the write only if the item was not written since it was read.
const SAME_VERSION: &str = "#version = :from";
/// Permits the write only if there is no item.
const NO_ITEM: &str = "attribute_not_exists(#version)";

/// The named items of the batch table.
#[derive(Clone, Debug)]
pub struct DynamoNamedItems {
    client: Client,
    table: String,
}

impl DynamoNamedItems {
    /// Returns the named items of the batch table `table`.
    pub fn new(client: Client, table: impl Into<String>) -> DynamoNamedItems {
        DynamoNamedItems {
            client,
            table: table.into(),
        }
    }
}

#[async_trait]
impl NamedItems for DynamoNamedItems {
    async fn read(&self, name: &str) -> Result<Document, PortError> {
        let call = self.client.get_item().table_name(&self.table);
        let call = call.key(BATCH_ID, s(name)).consistent_read(true);
        let sent = call.send().await;
        let output = sent.map_err(|error| port_error(DYNAMODB, &self.table, &error))?;
        let Some(item) = output.item else {
            return Ok(Document::default());
        };
        let mut item = StoredItem::new(&self.table, BATCH_ID, item)?;
        Ok(Document {
            version: required(&mut item, VERSION, StoredItem::number)?,
            attributes: item.into_attributes(),
        })
    }

    async fn write(&self, name: &str, from: u64, change: &Change) -> Result<bool, PortError> {
        let update = match from {
            0 => Update::under(NO_ITEM),
            version => Update::under(SAME_VERSION).with(":from", n(version)),
        };
        let mut update = update.set("#version", n(from + 1));
        for (attribute, value) in &change.set {
            let value: AttributeValue = value.clone().into();
            update = update.set(&format!("#{attribute}"), value);
        }
        for attribute in &change.remove {
            update = update.remove(&format!("#{attribute}"));
        }
        let call = update.request(&self.client, &self.table, name);
        applied(&self.table, call.send().await)
    }
}
