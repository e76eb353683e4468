//! Parses requests as far as the faults need: what a request writes to the watched table, or reads from its index.
//!
//! Requests that may change the index in a way this parser does not support are reported as such, so that they can be
//! refused.

use serde_json::Value;

use super::index_history::{Entry, Position};
use super::options::WatchedTable;
use super::token_buckets::{BucketKey, Charge, units};

/// A write to an item of the watched table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Write {
    /// Partition key of the item.
    pub(super) key: String,
    /// Size of the item that a put or an insert writes; 0 for other writes.
    pub(super) bytes: usize,
    /// The index entry that the write adds.
    pub(super) adds: Option<Entry>,
    /// The index entry that the write removes, which its condition names.
    pub(super) removes: Option<Entry>,
}

/// A query of the index of the watched table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexQuery {
    pub(super) hash: String,
    pub(super) after: Option<Position>,
    pub(super) limit: Option<usize>,
}

/// A request, as far as the faults of the watched table are concerned with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchedRequest {
    /// Neither writes to the watched table nor queries its index.
    Other,
    Query(IndexQuery),
    Write(Write),
    /// A PartiQL batch: the write of each statement, `None` for a statement that does not write to the watched table.
    Batch(Vec<Option<Write>>),
    /// May write to the watched table in a way that this parser does not support. Has the operation and the beginning of
    /// the body.
    Unsupported(String),
}

/// Parses a request.
pub(super) fn parse(watched: &WatchedTable, operation: &str, body: &Value) -> WatchedRequest {
    let is_watched = body["TableName"] == watched.table.as_str();
    let supported = match operation {
        "Query" if is_watched && body["IndexName"] == watched.index.as_str() => {
            query(watched, body).map(WatchedRequest::Query)
        }
        "PutItem" | "UpdateItem" | "DeleteItem" if is_watched => {
            item_write(watched, operation, body).map(WatchedRequest::Write)
        }
        "ExecuteStatement" => {
            let write = statement(watched, body);
            write.map(|write| write.map_or(WatchedRequest::Other, WatchedRequest::Write))
        }
        "BatchExecuteStatement" => {
            let statements = body["Statements"].as_array().into_iter().flatten();
            let writes = statements.map(|each| statement(watched, each));
            writes
                .collect::<Option<Vec<_>>>()
                .map(WatchedRequest::Batch)
        }
        "BatchWriteItem" | "TransactWriteItems" | "ExecuteTransaction" => None,
        _ => Some(WatchedRequest::Other),
    };
    supported.unwrap_or_else(|| {
        let mut text = format!("{operation} {body}");
        text.truncate(text.floor_char_boundary(500));
        WatchedRequest::Unsupported(text)
    })
}

fn query(watched: &WatchedTable, body: &Value) -> Option<IndexQuery> {
    let index_key = &watched.index_key;
    let plain = body["KeyConditionExpression"] == format!("{index_key} = :{index_key}")
        && body["ScanIndexForward"].as_bool().unwrap_or(true)
        && body.get("FilterExpression").is_none()
        && body.get("ProjectionExpression").is_none();
    if !plain {
        return None;
    }
    let after = match body.get("ExclusiveStartKey") {
        None | Some(Value::Null) => None,
        Some(start) => {
            let range = number(&start[&watched.index_sort_key])?;
            Some((range, text(&start[&watched.key])?))
        }
    };
    Some(IndexQuery {
        hash: text(&body["ExpressionAttributeValues"][format!(":{index_key}")])?,
        after,
        limit: body["Limit"].as_u64().map(|limit| limit as usize),
    })
}

fn item_write(watched: &WatchedTable, operation: &str, body: &Value) -> Option<Write> {
    let (index_key, index_sort_key) = (&watched.index_key, &watched.index_sort_key);
    let is_put = operation == "PutItem";
    let item = &body[if is_put { "Item" } else { "Key" }];
    let key = text(&item[&watched.key])?;
    let value = |name: &str| &body["ExpressionAttributeValues"][format!(":{name}")];
    // A request that removes an entry names the entry in its condition.
    let named = entry(value(index_key), value(index_sort_key), &key);
    let update = body["UpdateExpression"].as_str().unwrap_or_default();
    let removed = update.split_once("REMOVE");
    let leaves_index = removed.is_some_and(|(_, removed)| removed.contains(index_key));
    let added = entry(&item[index_key], &item[index_sort_key], &key);
    Some(Write {
        bytes: if is_put { item_bytes(item) } else { 0 },
        adds: added.filter(|_| is_put),
        removes: named.filter(|_| operation != "UpdateItem" || leaves_index),
        key,
    })
}

/// Parses a PartiQL statement whose values are all parameters. Returns `Some(None)` if it does not write to the watched
/// table, `None` if it cannot be parsed.
fn statement(watched: &WatchedTable, body: &Value) -> Option<Option<Write>> {
    let text = body["Statement"].as_str()?;
    let verb = text.split_whitespace().next().unwrap_or_default();
    let verb = verb.to_ascii_uppercase();
    let writes = ["INSERT", "UPDATE", "DELETE"].contains(&verb.as_str());
    if !writes || !text.contains(&watched.table) {
        return Some(None);
    }
    let parameters = body["Parameters"].as_array()?;
    // The quoted name before each `?` is the attribute of that parameter: `'seq': ?`, `"seq" = ?`.
    let pieces = text.split('?').take(parameters.len());
    let names = Vec::from_iter(pieces.filter_map(last_quoted));
    if names.len() != parameters.len() {
        return None;
    }
    let value = |name: &str| {
        let mut named = names.iter().zip(parameters);
        let found = named.find(|(one, _)| **one == name);
        found.map_or(&Value::Null, |(_, value)| value)
    };
    let key = self::text(value(&watched.key))?;
    let index_key = &watched.index_key;
    let named = entry(value(index_key), value(&watched.index_sort_key), &key);
    let (adds, removes, bytes) = match verb.as_str() {
        "INSERT" => {
            let bytes = names.iter().zip(parameters);
            let bytes = bytes.map(|(name, value)| name.len() + value_bytes(value));
            (named, None, bytes.sum())
        }
        "UPDATE" if !text.contains(&format!("REMOVE \"{index_key}\"")) => (None, None, 0),
        _ => (None, named, 0),
    };
    Some(Some(Write {
        key,
        bytes,
        adds,
        removes,
    }))
}

fn last_quoted(text: &str) -> Option<&str> {
    let end = text.rfind(['"', '\''])?;
    let start = text[..end].rfind(['"', '\''])?;
    Some(&text[start + 1..end])
}

fn entry(hash: &Value, range: &Value, key: &str) -> Option<Entry> {
    Some(Entry {
        hash: text(hash)?,
        range: number(range)?,
        key: key.to_owned(),
    })
}

fn text(value: &Value) -> Option<String> {
    value["S"].as_str().map(str::to_owned)
}

fn number(value: &Value) -> Option<u64> {
    value["N"].as_str()?.parse().ok()
}

fn item_bytes(item: &Value) -> usize {
    let attributes = item.as_object().into_iter().flatten();
    let bytes = attributes.map(|(name, value)| name.len() + value_bytes(value));
    bytes.sum()
}

/// Returns roughly the bytes that a value takes in a table.
fn value_bytes(value: &Value) -> usize {
    match value.as_object().and_then(|value| value.iter().next()) {
        Some((kind, Value::String(text))) => match kind.as_str() {
            "B" => text.len() * 3 / 4,
            "N" => text.len() / 2 + 2,
            _ => text.len(),
        },
        Some((_, nested)) => nested.to_string().len(),
        None => 0,
    }
}

impl Write {
    /// Returns whether the write puts an item.
    pub(super) fn puts(&self) -> bool {
        self.bytes > 0
    }

    /// Returns the units that the write takes from its item and from each index key it touches. An update or a delete counts
    /// one unit for its item, because the request does not tell the size of the item.
    pub(super) fn charges(&self) -> Vec<Charge> {
        let item = Charge::new(BucketKey::Item(self.key.clone()), units(self.bytes));
        let entries = self.adds.iter().chain(&self.removes).map(|entry| {
            let bytes = entry.hash.len() + entry.key.len() + 32;
            Charge::new(BucketKey::Index(entry.hash.clone()), units(bytes))
        });
        std::iter::once(item).chain(entries).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &str = "lock-table";

    fn parsed(operation: &str, body: &Value) -> WatchedRequest {
        super::parse(&WatchedTable::locks(), operation, body)
    }

    fn entry_of(key: &str) -> Option<Entry> {
        Some(Entry {
            hash: "b#3".to_owned(),
            range: 13,
            key: key.to_owned(),
        })
    }

    #[test]
    fn statements_tell_which_entries_they_add_and_remove() {
        let insert = json!({
            "Statement": "INSERT INTO \"lock-table\" VALUE {'messageId': ?, 'batchId': ?, 'seq': ?, 'message': ?}",
            "Parameters": [{"S": "e1"}, {"S": "b#3"}, {"N": "13"}, {"S": "body?"}],
        });
        let tombstone = json!({
            "Statement": "UPDATE \"lock-table\" SET \"expiresAt\" = ? REMOVE \"batchId\" REMOVE \"seq\" WHERE \"messageId\" = ? AND \"batchId\" = ? AND \"seq\" = ?",
            "Parameters": [{"N": "1"}, {"S": "e1"}, {"S": "b#3"}, {"N": "13"}],
        });
        let delete = json!({
            "Statement": "DELETE FROM \"lock-table\" WHERE \"messageId\" = ? AND \"batchId\" = ? AND \"seq\" = ?",
            "Parameters": [{"S": "e1"}, {"S": "b#3"}, {"N": "13"}],
        });
        let other = json!({ "Statement": "SELECT * FROM \"lock-table\"" });
        let body = json!({ "Statements": [insert, tombstone, delete, other] });
        let WatchedRequest::Batch(writes) = parsed("BatchExecuteStatement", &body) else {
            panic!("unsupported");
        };
        let entries = |write: Write| (write.adds, write.removes);
        let entries = writes.into_iter().map(|write| write.map(entries));
        let added = Some((entry_of("e1"), None));
        let removed = Some((None, entry_of("e1")));
        let expected = [added, removed.clone(), removed, None];
        assert_eq!(Vec::from_iter(entries), expected);
    }

    #[test]
    fn requests_for_one_item_tell_which_entries_they_add_and_remove() {
        let values = json!({ ":batchId": {"S": "b#3"}, ":seq": {"N": "13"} });
        let put = json!({
            "TableName": TABLE,
            "Item": {"messageId": {"S": "e1"}, "batchId": {"S": "b#3"}, "seq": {"N": "13"}},
        });
        let release = json!({
            "TableName": TABLE,
            "Key": {"messageId": {"S": "e1"}},
            "UpdateExpression": "SET expiresAt = :expiresAt REMOVE batchId, seq",
            "ExpressionAttributeValues": values,
        });
        let entries = |operation, body| match parsed(operation, &body) {
            WatchedRequest::Write(write) => (write.adds, write.removes),
            other => panic!("{other:?}"),
        };
        assert_eq!(entries("PutItem", put), (entry_of("e1"), None));
        for operation in ["UpdateItem", "DeleteItem"] {
            let removed = (None, entry_of("e1"));
            assert_eq!(entries(operation, release.clone()), removed);
        }
        let other_table = json!({ "TableName": "batch-table", "Item": {} });
        assert_eq!(parsed("PutItem", &other_table), WatchedRequest::Other);
    }

    #[test]
    fn a_query_of_the_index_tells_where_it_continues() {
        let body = json!({
            "TableName": TABLE,
            "IndexName": "batchId-index",
            "KeyConditionExpression": "batchId = :batchId",
            "ExpressionAttributeValues": {":batchId": {"S": "b#3"}},
            "ExclusiveStartKey": {"messageId": {"S": "e1"}, "batchId": {"S": "b#3"}, "seq": {"N": "13"}},
            "ScanIndexForward": true,
        });
        let query = IndexQuery {
            hash: "b#3".to_owned(),
            after: Some((13, "e1".to_owned())),
            limit: None,
        };
        assert_eq!(parsed("Query", &body), WatchedRequest::Query(query));
    }

    #[test]
    fn a_request_that_might_write_unseen_is_unsupported() {
        let request = parsed("TransactWriteItems", &json!({ "TransactItems": [] }));
        assert!(matches!(request, WatchedRequest::Unsupported(_)));
    }

    #[test]
    fn a_write_takes_units_of_its_item_and_of_each_index_key() {
        let write = Write {
            key: "e1".to_owned(),
            bytes: 3_000,
            adds: entry_of("e1"),
            removes: None,
        };
        let units: Vec<u32> = write.charges().iter().map(|charge| charge.units).collect();
        assert_eq!(units, [3, 1]);
    }
}
