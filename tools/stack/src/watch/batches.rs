//! Reads the batch records of a run.
//!
//! Attributes and index are those of docs/protocol.md: incomplete batches are in `status-index`, under keys
//! `<status>#<shard>`. A complete batch is in no index, so the last look scans the table.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use protocol::limits::{BATCH_GET_KEYS_MAX, STATUS_SHARDS};

use crate::error::WatchError;

/// The values of `status`, without `error`: a batch in error makes no progress.
const UNDER_WAY: [&str; 3] = ["open", "sealed", "processing"];
const IN_ERROR: &str = "error";
const INDEX: &str = "status-index";
/// The attributes that are read. `status` and `parts` are reserved words.
const PROJECTION: &str = "batchId, batchKey, #status, createdAt, closesAt, sealedAt, reserved, slots, \
     resolution, confirmed, #parts, completedAt";

type Item = HashMap<String, AttributeValue>;

/// What the record of a batch says. Times are epoch milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BatchState {
    pub batch_id: String,
    pub batch_key: Option<String>,
    /// `None` once the batch is complete.
    pub status: Option<String>,
    pub created_at: u64,
    pub closes_at: u64,
    pub sealed_at: Option<u64>,
    /// Seats that were reserved, and reservations; `None` if a version before 0.3 opened the batch.
    pub reserved: Option<u64>,
    pub slots: Option<u64>,
    /// Claims that were counted; `None` until the batch is closed.
    pub claimed: Option<u64>,
    pub parts: u64,
    /// When each part was delivered, by its number; `None` for a part that is not delivered.
    pub parts_delivered_at: Vec<Option<u64>>,
    /// Events in delivered parts.
    pub delivered: u64,
    /// When the last part was delivered.
    pub delivered_at: Option<u64>,
}

impl BatchState {
    /// Returns whether the batch may make progress without an operator.
    pub fn under_way(&self) -> bool {
        let status = self.status.as_deref();
        status.is_some_and(|status| status != IN_ERROR)
    }

    /// Returns how many events are known to be in the batch. A claim whose reply was lost is delivered, and not counted.
    pub fn counted(&self) -> u64 {
        self.claimed.unwrap_or_default().max(self.delivered)
    }

    /// Returns how many events are in the batch. Until its claims are counted, these are the reserved seats, which duplicates have too.
    pub fn events(&self) -> u64 {
        match (self.claimed, self.reserved) {
            (None, Some(reserved)) => reserved,
            (_, _) => self.counted(),
        }
    }

    /// Returns how many of its seats are taken.
    pub fn seats(&self) -> u64 {
        self.reserved.unwrap_or_else(|| self.counted())
    }

    /// Returns whether an operator has to decide.
    pub fn in_error(&self) -> bool {
        self.status.as_deref() == Some(IN_ERROR)
    }

    /// Returns the batch of an item; `None` for items of the batch table that are no records, such as slots and loads.
    fn of(item: &Item) -> Option<BatchState> {
        let text = |name: &str| item.get(name)?.as_s().ok().cloned();
        let number = |name: &str| number_of(item.get(name)?);
        let reserved = number("reserved");
        let is_counted = reserved.is_none() || item.contains_key("resolution");
        let mut state = BatchState {
            batch_id: text("batchId")?,
            batch_key: text("batchKey"),
            status: text("status"),
            created_at: number("createdAt")?,
            closes_at: number("closesAt")?,
            sealed_at: number("sealedAt"),
            reserved,
            slots: number("slots"),
            claimed: is_counted.then(|| number("confirmed").unwrap_or_default()),
            parts: 0,
            parts_delivered_at: Vec::new(),
            delivered: 0,
            delivered_at: None,
        };
        let parts = item.get("parts").and_then(|parts| parts.as_l().ok());
        let parts = parts.into_iter().flatten();
        for part in parts.filter_map(|part| part.as_m().ok()) {
            state.parts += 1;
            let delivered = part.get("state").and_then(|state| state.as_s().ok());
            let delivered = delivered.is_some_and(|state| state == "delivered");
            let delivered_at = part.get("deliveredAt").and_then(number_of);
            let delivered_at = delivered_at.filter(|_| delivered);
            state.parts_delivered_at.push(delivered_at);
            if delivered {
                state.delivered += part.get("count").and_then(number_of).unwrap_or_default();
                state.delivered_at = state.delivered_at.max(delivered_at);
            }
        }
        let completed_at = number("completedAt").filter(|_| state.delivered > 0);
        state.delivered_at = state.delivered_at.or(completed_at);
        Some(state)
    }
}

fn number_of(value: &AttributeValue) -> Option<u64> {
    value.as_n().ok()?.parse().ok()
}

/// Returns the ids of all batches that are not complete.
///
/// # Errors
/// The index cannot be read.
pub(super) async fn incomplete(client: &Client, table: &str) -> Result<Vec<String>, WatchError> {
    let keys = UNDER_WAY.iter().chain([&IN_ERROR]);
    let keys =
        keys.flat_map(|status| (0..STATUS_SHARDS).map(move |shard| format!("{status}#{shard}")));
    let queries = keys.map(|key| async move {
        let pages = client
            .query()
            .table_name(table)
            .index_name(INDEX)
            .key_condition_expression("statusShard = :key")
            .projection_expression("batchId")
            .expression_attribute_values(":key", AttributeValue::S(key))
            .into_paginator()
            .items()
            .send();
        let items = pages.collect::<Result<Vec<Item>, _>>().await;
        items.map_err(|error| WatchError::request("index of the batch table", table, &error))
    });
    let id = |item: &Item| item.get("batchId")?.as_s().ok().cloned();
    let items = futures::future::try_join_all(queries).await?;
    Ok(items.iter().flatten().filter_map(id).collect())
}

/// Returns the records of some batches, by id. Absent ones are left out.
///
/// # Errors
/// The table cannot be read.
pub(super) async fn read(
    client: &Client,
    table: &str,
    ids: &[String],
) -> Result<BTreeMap<String, BatchState>, WatchError> {
    let mut found = BTreeMap::new();
    for ids in ids.chunks(BATCH_GET_KEYS_MAX) {
        let keys = ids
            .iter()
            .map(|id| HashMap::from([("batchId".to_owned(), AttributeValue::S(id.clone()))]));
        let keys = KeysAndAttributes::builder()
            .set_keys(Some(keys.collect()))
            .projection_expression(PROJECTION)
            .expression_attribute_names("#status", "status")
            .expression_attribute_names("#parts", "parts")
            .build()
            .expect("the keys are set");
        let mut requested = Some(HashMap::from([(table.to_owned(), keys)]));
        // A reply may leave keys out, above 16 MB or when the table is throttled.
        while let Some(request) = requested.take().filter(|keys| !keys.is_empty()) {
            let reply = client
                .batch_get_item()
                .set_request_items(Some(request))
                .send()
                .await
                .map_err(|error| WatchError::request("batch table", table, &error))?;
            let items = reply.responses.unwrap_or_default().into_values().flatten();
            for state in items.filter_map(|item| BatchState::of(&item)) {
                found.insert(state.batch_id.clone(), state);
            }
            requested = reply.unprocessed_keys;
        }
    }
    Ok(found)
}

/// Returns the records of all batches that were opened at or after `since_ms`. Reads the whole table.
///
/// # Errors
/// The table cannot be read.
pub(super) async fn scan(
    client: &Client,
    table: &str,
    since_ms: u64,
) -> Result<Vec<BatchState>, WatchError> {
    let items = client
        .scan()
        .table_name(table)
        .filter_expression("createdAt >= :since")
        .projection_expression(PROJECTION)
        .expression_attribute_names("#status", "status")
        .expression_attribute_names("#parts", "parts")
        .expression_attribute_values(":since", AttributeValue::N(since_ms.to_string()))
        .into_paginator()
        .items()
        .send()
        .collect::<Result<Vec<Item>, _>>()
        .await
        .map_err(|error| WatchError::request("batch table", table, &error))?;
    Ok(items.iter().filter_map(BatchState::of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(text: &str) -> AttributeValue {
        AttributeValue::S(text.to_owned())
    }

    fn n(number: u64) -> AttributeValue {
        AttributeValue::N(number.to_string())
    }

    fn part(state: &str, count: u64, at: Option<u64>) -> AttributeValue {
        let mut part = HashMap::from([
            ("state".to_owned(), s(state)),
            ("count".to_owned(), n(count)),
        ]);
        part.extend(at.map(|at| ("deliveredAt".to_owned(), n(at))));
        AttributeValue::M(part)
    }

    fn record(parts: Vec<AttributeValue>, more: &[(&str, AttributeValue)]) -> Item {
        let mut item: Item = [
            ("batchId", s("b")),
            ("createdAt", n(10)),
            ("closesAt", n(90)),
            ("confirmed", n(7)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        item.insert("parts".to_owned(), AttributeValue::L(parts));
        let more = more.iter();
        item.extend(more.map(|(name, value)| ((*name).to_owned(), value.clone())));
        item
    }

    #[test]
    fn delivered_parts_are_counted_and_frozen_ones_are_not() {
        let parts = vec![
            part("delivered", 4, Some(50)),
            part("delivered", 2, Some(40)),
            part("frozen", 1, None),
        ];
        let state = BatchState::of(&record(parts, &[("status", s("processing"))])).unwrap();
        assert_eq!((state.claimed, state.parts), (Some(7), 3));
        assert_eq!((state.delivered, state.delivered_at), (6, Some(50)));
        assert!(state.under_way() && !state.in_error());
    }

    #[test]
    fn a_batch_whose_claims_were_not_counted_has_those_that_were_delivered() {
        let parts = vec![part("delivered", 4, Some(50))];
        let state = BatchState::of(&record(parts, &[("confirmed", n(0))])).unwrap();
        assert_eq!((state.claimed, state.events()), (Some(0), 4));
    }

    #[test]
    fn a_batch_has_its_reserved_seats_until_its_claims_are_counted() {
        let open = [("reserved", n(9)), ("slots", n(2)), ("confirmed", n(0))];
        let state = BatchState::of(&record(Vec::new(), &open)).unwrap();
        assert_eq!((state.counted(), state.events(), state.seats()), (0, 9, 9));
        let counted = [("reserved", n(9)), ("resolution", s("reported"))];
        let state = BatchState::of(&record(Vec::new(), &counted)).unwrap();
        assert_eq!((state.counted(), state.events(), state.seats()), (7, 7, 9));
    }

    #[test]
    fn a_batch_in_error_is_not_under_way_and_a_complete_one_is_neither() {
        let state =
            |more: &[(&str, AttributeValue)]| BatchState::of(&record(Vec::new(), more)).unwrap();
        let error = state(&[("status", s("error"))]);
        assert!(error.in_error() && !error.under_way());
        let complete = state(&[("completedAt", n(80))]);
        assert!(!complete.in_error() && !complete.under_way());
        assert_eq!(complete.delivered_at, None, "it has no events");
    }

    #[test]
    fn a_part_without_a_time_of_delivery_has_that_of_its_batch() {
        let parts = vec![part("delivered", 4, None)];
        let state = BatchState::of(&record(parts, &[("completedAt", n(80))])).unwrap();
        assert_eq!(state.delivered_at, Some(80));
    }

    #[test]
    fn a_slot_is_no_batch() {
        let piece = HashMap::from([
            ("batchId".to_owned(), s("b/0")),
            ("expiresAt".to_owned(), n(1)),
        ]);
        assert_eq!(BatchState::of(&piece), None);
    }
}
