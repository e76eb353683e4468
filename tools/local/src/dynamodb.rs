//! The names of the stack's tables, and their creation.

use anyhow::Context;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, GlobalSecondaryIndex, KeySchemaElement, Projection,
};
use emulators::dynamodb::{Key, Table};

/// The name of the lock table in the stack.
pub const LOCK_TABLE: &str = "lock-table";
/// The name of the batch table in the stack.
pub const BATCH_TABLE: &str = "batch-table";
/// The name of the lock table's index, which lists claims by batch.
pub const BATCH_INDEX: &str = "batchId-index";

/// Creates a table as the template defines it.
pub async fn create_table(client: &Client, name: &str, table: &Table) -> anyhow::Result<()> {
    let attributes = table.attribute_definitions.iter().map(|attribute| {
        AttributeDefinition::builder()
            .attribute_name(&attribute.attribute_name)
            .attribute_type(attribute.attribute_type.as_str().into())
            .build()
    });
    let indexes = table.global_secondary_indexes.iter().map(|index| {
        let projection = &index.projection;
        let included =
            Some(projection.non_key_attributes.clone()).filter(|names| !names.is_empty());
        GlobalSecondaryIndex::builder()
            .index_name(&index.index_name)
            .set_key_schema(Some(key_schema(&index.key_schema)?))
            .projection(
                Projection::builder()
                    .projection_type(projection.projection_type.as_str().into())
                    .set_non_key_attributes(included)
                    .build(),
            )
            .build()
    });
    client
        .create_table()
        .table_name(name)
        .billing_mode(table.billing_mode.as_str().into())
        .set_attribute_definitions(Some(attributes.collect::<Result<_, _>>()?))
        .set_key_schema(Some(key_schema(&table.key_schema)?))
        .set_global_secondary_indexes(Some(indexes.collect::<Result<_, _>>()?))
        .send()
        .await
        .with_context(|| format!("create table `{name}`"))?;
    Ok(())
}

fn key_schema(keys: &[Key]) -> Result<Vec<KeySchemaElement>, BuildError> {
    keys.iter()
        .map(|key| {
            KeySchemaElement::builder()
                .attribute_name(&key.attribute_name)
                .key_type(key.key_type.as_str().into())
                .build()
        })
        .collect()
}
