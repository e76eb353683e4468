//! Items of the batch table that have a name where others have a batch id, which is a UUID: pauses, sequences, quotas. They have no
//! `statusShard`, so they are not in `status-index`.

use aws_sdk_dynamodb::Client;

use super::attributes::{Item, n, s};
use super::batch_items::BATCH_ID;
use super::errors::{DYNAMODB, applied, port_error};
use crate::ports::PortError;

/// How often an item was written.
pub(super) const VERSION: &str = "version";
/// Permits the write only if the item was not written since it was read.
const SAME_VERSION: &str = "#version = :version";
/// Permits the write only if there is no item.
const NO_ITEM: &str = "attribute_not_exists(#version)";

/// Reads an item with strong consistency.
pub(super) async fn read(
    client: &Client,
    table: &str,
    name: String,
) -> Result<Option<Item>, PortError> {
    let sent = client
        .get_item()
        .table_name(table)
        .key(BATCH_ID, s(name))
        .consistent_read(true)
        .send()
        .await;
    let output = sent.map_err(|error| port_error(DYNAMODB, table, &error))?;
    Ok(output.item)
}

/// Writes the attributes of an item in place of those with the version `from`; 0 if there is no item. Returns `false` if the item was
/// written since.
pub(super) async fn replace(
    client: &Client,
    table: &str,
    name: String,
    from: u64,
    attributes: Item,
) -> Result<bool, PortError> {
    let call = client
        .put_item()
        .table_name(table)
        .set_item(Some(attributes))
        .item(BATCH_ID, s(name))
        .item(VERSION, n(from + 1))
        .expression_attribute_names("#version", VERSION);
    let call = match from {
        0 => call.condition_expression(NO_ITEM),
        version => call
            .condition_expression(SAME_VERSION)
            .expression_attribute_values(":version", n(version)),
    };
    applied(table, call.send().await)
}
