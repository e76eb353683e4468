//! Claims, replacements and releases by conditional requests, one item each.
//!
//! A refused claim returns the existing item (`ALL_OLD`), without a further read.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
use protocol::claim::{Claim, LockItem, LockState};
use protocol::ids::{EventId, SeatKey, SqsMessageId};
use protocol::time::Timestamp;
use shared::ports::{ClaimReply, PortError, Release, ReleaseReply};

use crate::attributes::{Item, item_of, n, s, ttl};
use crate::errors::{DYNAMODB, applied, is_item_too_large, port_error};
use crate::lock_items::{BATCH, claim_item, key, last_seat_value, read_lock_item, unstorable};

/// Permits the write only if there is no item with this event id.
const NO_ITEM: &str = "attribute_not_exists(messageId)";
/// Permits the write only while the item is the live claim of this message in this seat.
const SAME_LIVE_CLAIM: &str = "batchId = :batchId AND seq = :seq AND sqsMessageId = :sqsMessageId";
/// Permits the write only while the item is the tombstone of this message with this end; a chunk claim of a former version, which has
/// `batch`, is none.
const SAME_TOMBSTONE: &str = "attribute_not_exists(batchId) AND attribute_not_exists(#batch) \
     AND sqsMessageId = :sqsMessageId AND expiresAt = :expiresAt";
/// Permits the write only while the item is the live claim of this seat; it does not hold if there is no item.
const SAME_SEAT: &str = "batchId = :batchId AND seq = :seq";
/// Permits the write only while the item is the tombstone of this seat, and not that of an event that was set aside.
const OWN_TOMBSTONE: &str = "attribute_not_exists(batchId) AND attribute_not_exists(setAside) \
     AND sqsMessageId = :sqsMessageId AND lastSeat = :lastSeat";
/// Turns a claim into the tombstone of an event that was set aside.
const TO_SET_ASIDE: &str = "SET expiresAt = :expiresAt, lastSeat = :lastSeat, setAside = :setAside \
     REMOVE batchId, seq, message, #source, sentAt, attributes";
/// Turns a claim into a tombstone. Removing an attribute that the item does not have is not an error.
const TO_TOMBSTONE: &str = "SET expiresAt = :expiresAt, lastSeat = :lastSeat \
     REMOVE batchId, seq, message, #source, sentAt, attributes";

/// Writes a claim in place of `expected`; without it, only if there is no item.
///
/// The reply is `Written`, or `Exists` if the condition did not hold, with the existing item, if there is one. It is
/// `Unstorable` if the claim is too large for an item: it is not sent, or DynamoDB says so. It is `Error` if the request failed
/// in another way, or if the existing item is malformed.
pub(crate) async fn claim(
    client: &Client,
    table: &str,
    claim: &Claim,
    expected: Option<&LockItem>,
) -> ClaimReply {
    if let Some(reply) = unstorable(claim) {
        return reply;
    }
    let call = put(client, table, claim_item(claim), expected);
    match call.send().await {
        Ok(_) => ClaimReply::Written,
        Err(error) => refused_put(table, error),
    }
}

/// Deletes an item, if it is still in the state of `expected`. Returns whether it was deleted.
pub(crate) async fn remove(
    client: &Client,
    table: &str,
    id: &EventId,
    expected: &LockItem,
) -> Result<bool, PortError> {
    let SameState {
        condition,
        names,
        values,
    } = same_state(Some(expected));
    let sent = client
        .delete_item()
        .table_name(table)
        .set_key(Some(key(id)))
        .condition_expression(condition)
        .set_expression_attribute_names(names)
        .set_expression_attribute_values(values)
        .send()
        .await;
    applied(table, sent)
}

/// Puts a tombstone in the place of `expected`, or if there is no item. Returns whether it is there: an earlier request of the caller may
/// have put it.
pub(crate) async fn remember(
    client: &Client,
    table: &str,
    tombstone: Item,
    expected: Option<&LockItem>,
) -> Result<bool, PortError> {
    let call = put(client, table, tombstone.clone(), expected);
    let Err(error) = call.send().await else {
        return Ok(true);
    };
    match error.as_service_error() {
        Some(PutItemError::ConditionalCheckFailedException(failure)) => {
            Ok(failure.item.as_ref() == Some(&tombstone))
        }
        _ => Err(port_error(DYNAMODB, table, &error)),
    }
}

/// The condition that an item is still in a state.
struct SameState {
    condition: &'static str,
    names: Option<HashMap<String, String>>,
    values: Option<Item>,
}

/// Returns the condition that the item is of the message of `expected` and in the same state: the live claim of the same seat, or
/// the tombstone with the same end. Without `expected`, the condition is that there is no item.
///
/// A condition without placeholders has `None` for them, because DynamoDB refuses an empty map.
fn same_state(expected: Option<&LockItem>) -> SameState {
    let Some(expected) = expected else {
        return SameState {
            condition: NO_ITEM,
            names: None,
            values: None,
        };
    };
    let (condition, names, of_state) = match expected.state {
        LockState::Live { shard, seq } => {
            let seat = vec![(":batchId", s(shard.to_string())), (":seq", n(seq))];
            (SAME_LIVE_CLAIM, None, seat)
        }
        LockState::Tombstone { expires_at } => {
            let batch = HashMap::from([("#batch".to_owned(), BATCH.to_owned())]);
            let end = vec![(":expiresAt", ttl(expires_at))];
            (SAME_TOMBSTONE, Some(batch), end)
        }
    };
    let message = (":sqsMessageId", s(expected.sqs_message_id.as_str()));
    SameState {
        condition,
        names,
        values: Some(item_of(of_state.into_iter().chain([message]))),
    }
}

/// Returns the request, still to be sent, that puts an item in place of `expected`; without it, only if there is no item.
///
/// Sent, it fails with `ConditionalCheckFailedException` if the condition does not hold. That error has the existing item, if
/// there is one.
fn put(
    client: &Client,
    table: &str,
    item: Item,
    expected: Option<&LockItem>,
) -> PutItemFluentBuilder {
    let SameState {
        condition,
        names,
        values,
    } = same_state(expected);
    client
        .put_item()
        .table_name(table)
        .set_item(Some(item))
        .condition_expression(condition)
        .set_expression_attribute_names(names)
        .set_expression_attribute_values(values)
        .return_values_on_condition_check_failure(AllOld)
}

fn refused_put(table: &str, error: SdkError<PutItemError, HttpResponse>) -> ClaimReply {
    let (code, message) = (
        error.code().unwrap_or_default(),
        error.message().unwrap_or_default(),
    );
    if is_item_too_large(code, message) {
        return ClaimReply::Unstorable(message.to_owned());
    }
    if !error
        .as_service_error()
        .is_some_and(PutItemError::is_conditional_check_failed_exception)
    {
        return ClaimReply::Error(port_error(DYNAMODB, table, &error));
    }
    let PutItemError::ConditionalCheckFailedException(failure) = error.into_service_error() else {
        return ClaimReply::Exists(None);
    };
    match failure.item.map(|item| read_lock_item(table, item)) {
        None => ClaimReply::Exists(None),
        Some(Ok((_, item))) => ClaimReply::Exists(Some(item)),
        Some(Err(malformed)) => ClaimReply::Error(malformed.into()),
    }
}

/// Releases a claim.
pub(crate) async fn release(
    client: &Client,
    table: &str,
    (id, seat): (&EventId, SeatKey),
    release: Release,
) -> ReleaseReply {
    let released = match release {
        Release::Remembered(expires_at) | Release::SetAside(expires_at) => {
            let mut call = client
                .update_item()
                .table_name(table)
                .set_key(Some(key(id)))
                .condition_expression(SAME_SEAT)
                .update_expression(TO_TOMBSTONE)
                .expression_attribute_names("#source", "source")
                .expression_attribute_values(":batchId", s(seat.shard.to_string()))
                .expression_attribute_values(":seq", n(seat.seq))
                .expression_attribute_values(":lastSeat", last_seat_value(seat))
                .expression_attribute_values(":expiresAt", ttl(expires_at));
            if let Release::SetAside(_) = release {
                call = call
                    .update_expression(TO_SET_ASIDE)
                    .expression_attribute_values(":setAside", AttributeValue::Bool(true));
            }
            applied(table, call.send().await)
        }
        Release::Deleted => {
            let call = client
                .delete_item()
                .table_name(table)
                .set_key(Some(key(id)))
                .condition_expression(SAME_SEAT)
                .expression_attribute_values(":batchId", s(seat.shard.to_string()))
                .expression_attribute_values(":seq", n(seat.seq));
            applied(table, call.send().await)
        }
    };
    match released {
        // If it was not released now, the item is no longer the claim of this seat.
        Ok(_) => ReleaseReply::Released,
        Err(error) => ReleaseReply::Error(error),
    }
}

/// Marks the tombstone of the claim that a message made in a seat.
pub(crate) async fn mark_rejected(
    client: &Client,
    table: &str,
    id: &EventId,
    (message, seat): (&SqsMessageId, SeatKey),
    until: Timestamp,
) -> Result<(), PortError> {
    let call = client
        .update_item()
        .table_name(table)
        .set_key(Some(key(id)))
        .condition_expression(OWN_TOMBSTONE)
        .update_expression("SET expiresAt = :expiresAt, setAside = :setAside")
        .expression_attribute_values(":sqsMessageId", s(message.as_str()))
        .expression_attribute_values(":lastSeat", last_seat_value(seat))
        .expression_attribute_values(":expiresAt", ttl(until))
        .expression_attribute_values(":setAside", AttributeValue::Bool(true));
    applied(table, call.send().await).map(|_| ())
}
