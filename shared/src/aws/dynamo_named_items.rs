use async_trait::async_trait;
use aws_sdk_dynamodb::Client;

use super::attributes::{StoredItem, n, s};
use super::batch_items::BATCH_ID;
use super::errors::{DYNAMODB, applied, port_error};
use crate::ports::{Change, Document, NamedItems, PortError};

/// How often an item was written.
const VERSION: &str = "version";
/// Permits the write only if the item was not written since it was read.
const SAME_VERSION: &str = "#version = :version";
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
        let version = item.number(VERSION)?;
        Ok(Document {
            version: item.required(VERSION, version)?,
            attributes: item.into_attributes(),
        })
    }

    async fn write(&self, name: &str, from: u64, change: &Change) -> Result<bool, PortError> {
        let mut call = self
            .client
            .update_item()
            .table_name(&self.table)
            .key(BATCH_ID, s(name))
            .expression_attribute_names("#version", VERSION)
            .expression_attribute_values(":next", n(from + 1));
        let mut expression = "SET #version = :next".to_owned();
        for (attribute, value) in &change.set {
            expression += &format!(", #{attribute} = :{attribute}");
            call = call
                .expression_attribute_names(format!("#{attribute}"), attribute)
                .expression_attribute_values(format!(":{attribute}"), value.clone().into());
        }
        for (index, attribute) in change.remove.iter().enumerate() {
            expression += if index == 0 { " REMOVE " } else { ", " };
            expression += &format!("#{attribute}");
            call = call.expression_attribute_names(format!("#{attribute}"), attribute);
        }
        let call = match from {
            0 => call.condition_expression(NO_ITEM),
            version => call
                .condition_expression(SAME_VERSION)
                .expression_attribute_values(":version", n(version)),
        };
        applied(&self.table, call.update_expression(expression).send().await)
    }
}
