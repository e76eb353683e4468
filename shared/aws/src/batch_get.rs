//! Reads several items of a table by one BatchGetItem.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::types::builders::KeysAndAttributesBuilder;
use protocol::limits::BATCH_GET_KEYS_MAX;
use shared::ports::PortError;

use crate::attributes::{Item, item_of, s};
use crate::errors::{DYNAMODB, port_error};

/// The result of one BatchGetItem.
#[derive(Default)]
pub(crate) struct Got {
    pub(crate) items: Vec<Item>,
    /// The requested keys that were not read.
    pub(crate) unread: BTreeSet<String>,
}

/// Reads the items of `table` whose partition key, the attribute `name`, is in `keys`, with strong consistency. `request` has the
/// projection, if any. A key that is there twice is requested once, because DynamoDB refuses requests that name a key twice. The
/// keys are sent in order, so that DynamoDB reads the first ones when it stops at 16 MB.
///
/// # Errors
/// Also [`PortError::Throttled`] when DynamoDB read no item.
pub(crate) async fn batch_get(
    client: &Client,
    table: &str,
    name: &'static str,
    keys: impl IntoIterator<Item = String>,
    request: KeysAndAttributesBuilder,
) -> Result<Got, PortError> {
    let mut seen = BTreeSet::new();
    let keys = keys.into_iter().filter(|key| seen.insert(key.clone()));
    let keys: Vec<Item> = keys.map(|key| item_of([(name, s(key))])).collect();
    let count = keys.len();
    debug_assert!(count <= BATCH_GET_KEYS_MAX, "{count} keys in one request");
    if count == 0 {
        return Ok(Got::default());
    }
    let request = request.set_keys(Some(keys)).consistent_read(true);
    let request = request.build().expect("it has keys");
    let call = client.batch_get_item().request_items(table, request);
    let sent = call.send().await;
    let output = sent.map_err(|error| port_error(DYNAMODB, table, &error))?;
    // The request names one table, so every key of these maps is that table, by name or by ARN.
    let items = output.responses.into_iter().flat_map(HashMap::into_values);
    let unread = output.unprocessed_keys.into_iter();
    let unread: BTreeSet<String> = unread
        .flat_map(HashMap::into_values)
        .flat_map(|keys| keys.keys)
        .filter_map(|mut key| match key.remove(name) {
            Some(AttributeValue::S(key)) => Some(key),
            _ => None,
        })
        .collect();
    if unread.len() >= count {
        let message = format!("{table}: none of {count} items was read");
        return Err(PortError::throttled(DYNAMODB, message));
    }
    Ok(Got {
        items: items.flatten().collect(),
        unread,
    })
}
