//! What a request does to the watched table, or asks of its index: as much as the faults must know. What could change the
//! index unseen is named, so that it can be refused.

use serde_json::Value;

use super::index::{Entry, Position};
use super::limits::{Charge, Key, units};
use super::options::WatchedTable;

/// A write to an item of the watched table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) key: String,
    /// Bytes of what is written.
    pub(super) bytes: usize,
    /// The index entry that comes with it.
    pub(super) comes: Option<Entry>,
    /// The index entry that goes with it: the one that its condition names.
    pub(super) goes: Option<Entry>,
}

/// A query of the watched table's index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexQuery {
    pub(super) hash: String,
    pub(super) after: Option<Position>,
    pub(super) limit: Option<usize>,
}

/// What a request is to the watched table's faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Nothing to them.
    Other,
    Query(IndexQuery),
    Write(Write),
    /// One for each statement, `None` for those that are nothing to them.
    Batch(Vec<Option<Write>>),
    /// It may write to the watched table in a way that is not understood here.
    NotUnderstood(String),
}

/// Reads a request.
pub(super) fn read(watched: &WatchedTable, operation: &str, body: &Value) -> Request {
    let is_watched = body["TableName"] == watched.table.as_str();
    match operation {
        "Query" if is_watched && body["IndexName"] == watched.index.as_str() => {
            query(watched, body).map_or_else(|| not_understood(operation, body), Request::Query)
        }
        "PutItem" | "UpdateItem" | "DeleteItem" if is_watched => {
            item_write(watched, operation, body)
                .map_or_else(|| not_understood(operation, body), Request::Write)
        }
        "ExecuteStatement" => match statement(watched, body) {
            Ok(Some(write)) => Request::Write(write),
            Ok(None) => Request::Other,
            Err(()) => not_understood(operation, body),
        },
        "BatchExecuteStatement" => {
            let statements = body["Statements"].as_array().map_or(&[][..], Vec::as_slice);
            let writes: Result<Vec<Option<Write>>, ()> = statements
                .iter()
                .map(|each| statement(watched, each))
                .collect();
            writes.map_or_else(|()| not_understood(operation, body), Request::Batch)
        }
        "BatchWriteItem" | "TransactWriteItems" | "ExecuteTransaction" => {
            not_understood(operation, body)
        }
        _ => Request::Other,
    }
}

fn not_understood(operation: &str, body: &Value) -> Request {
    let mut text = format!("{operation} {body}");
    text.truncate(text.floor_char_boundary(500));
    Request::NotUnderstood(text)
}

fn query(watched: &WatchedTable, body: &Value) -> Option<IndexQuery> {
    let WatchedTable {
        key,
        index_key,
        index_sort_key,
        ..
    } = watched;
    let plain = body["KeyConditionExpression"] == format!("{index_key} = :{index_key}")
        && body["ScanIndexForward"].as_bool().unwrap_or(true)
        && body.get("FilterExpression").is_none()
        && body.get("ProjectionExpression").is_none();
    if !plain {
        return None;
    }
    let after = match body.get("ExclusiveStartKey") {
        None | Some(Value::Null) => None,
        Some(start) => Some((number(&start[index_sort_key])?, text(&start[key])?)),
    };
    Some(IndexQuery {
        hash: text(&body["ExpressionAttributeValues"][format!(":{index_key}")])?,
        after,
        limit: body["Limit"]
            .as_u64()
            .and_then(|limit| usize::try_from(limit).ok()),
    })
}

fn item_write(watched: &WatchedTable, operation: &str, body: &Value) -> Option<Write> {
    let WatchedTable {
        key,
        index_key,
        index_sort_key,
        ..
    } = watched;
    let value = |name: &str| &body["ExpressionAttributeValues"][format!(":{name}")];
    // Whoever takes an entry away says in the condition which.
    let named = |of: &str| entry(value(index_key), value(index_sort_key), of);
    match operation {
        "PutItem" => {
            let item = &body["Item"];
            let of = text(&item[key])?;
            Some(Write {
                bytes: item_bytes(item),
                comes: entry(&item[index_key], &item[index_sort_key], &of),
                goes: named(&of),
                key: of,
            })
        }
        "UpdateItem" => {
            let of = text(&body["Key"][key])?;
            let update = body["UpdateExpression"].as_str().unwrap_or_default();
            let leaves = update
                .split_once("REMOVE")
                .is_some_and(|(_, removed)| removed.contains(index_key));
            Some(Write {
                goes: named(&of).filter(|_| leaves),
                key: of,
                ..Write::default()
            })
        }
        _ => {
            let of = text(&body["Key"][key])?;
            Some(Write {
                goes: named(&of),
                key: of,
                ..Write::default()
            })
        }
    }
}

/// Reads a PartiQL statement whose values are all parameters; `Ok(None)` if it does not write to the watched table.
fn statement(watched: &WatchedTable, body: &Value) -> Result<Option<Write>, ()> {
    let text = body["Statement"].as_str().ok_or(())?;
    let verb = text.split_whitespace().next().unwrap_or_default();
    let writes = ["INSERT", "UPDATE", "DELETE"].contains(&verb.to_ascii_uppercase().as_str());
    if !writes || !text.contains(&watched.table) {
        return Ok(None);
    }
    let parameters = body["Parameters"].as_array().ok_or(())?;
    // Before each parameter's place stands the name of what it is, quoted: `'seq': ?`, `"seq" = ?`.
    let names: Vec<&str> = text
        .split('?')
        .take(parameters.len())
        .filter_map(last_quoted)
        .collect();
    if names.len() != parameters.len() {
        return Err(());
    }
    let value = |name: &str| {
        names
            .iter()
            .position(|one| *one == name)
            .map_or(&Value::Null, |index| &parameters[index])
    };
    let key = self::text(value(&watched.key)).ok_or(())?;
    let WatchedTable {
        index_key,
        index_sort_key,
        ..
    } = watched;
    let named = entry(value(index_key), value(index_sort_key), &key);
    let (comes, goes, bytes) = match verb.to_ascii_uppercase().as_str() {
        "INSERT" => {
            let bytes = names.iter().zip(parameters);
            let bytes = bytes.map(|(name, value)| name.len() + value_bytes(value));
            (named, None, bytes.sum())
        }
        "UPDATE" if !text.contains(&format!("REMOVE \"{index_key}\"")) => (None, None, 0),
        _ => (None, named, 0),
    };
    Ok(Some(Write {
        key,
        bytes,
        comes,
        goes,
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
    attributes
        .map(|(name, value)| name.len() + value_bytes(value))
        .sum()
}

/// About as many bytes as the value takes in a table.
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
    /// The units it takes: of its item, and of each index key that it touches. How large an item is that an
    /// update or a delete changes is not known here, so it counts as small.
    pub(super) fn charges(&self) -> Vec<Charge> {
        let item = Charge {
            key: Key::Item(self.key.clone()),
            units: units(self.bytes),
        };
        let entries = self.comes.iter().chain(&self.goes).map(|entry| Charge {
            key: Key::Index(entry.hash.clone()),
            units: units(entry.hash.len() + entry.key.len() + 32),
        });
        std::iter::once(item).chain(entries).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &str = "lock-table";
    const INDEX: &str = "batchId-index";

    fn read(operation: &str, body: &Value) -> Request {
        let watched = WatchedTable {
            table: TABLE.to_owned(),
            key: "messageId".to_owned(),
            index: INDEX.to_owned(),
            index_key: "batchId".to_owned(),
            index_sort_key: "seq".to_owned(),
        };
        super::read(&watched, operation, body)
    }

    fn entry_of(key: &str) -> Option<Entry> {
        Some(Entry {
            hash: "b#3".to_owned(),
            range: 13,
            key: key.to_owned(),
        })
    }

    #[test]
    fn statements_tell_which_entries_come_and_go() {
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
        let Request::Batch(writes) = read("BatchExecuteStatement", &body) else {
            panic!("not understood");
        };
        let entries: Vec<_> = writes
            .into_iter()
            .map(|write| write.map(|write| (write.comes, write.goes)))
            .collect();
        assert_eq!(
            entries,
            [
                Some((entry_of("e1"), None)),
                Some((None, entry_of("e1"))),
                Some((None, entry_of("e1"))),
                None
            ]
        );
    }

    #[test]
    fn requests_for_one_item_tell_which_entries_come_and_go() {
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
        let entries = |operation, body| match read(operation, &body) {
            Request::Write(write) => (write.comes, write.goes),
            other => panic!("{other:?}"),
        };
        assert_eq!(entries("PutItem", put), (entry_of("e1"), None));
        assert_eq!(
            entries("UpdateItem", release.clone()),
            (None, entry_of("e1"))
        );
        assert_eq!(entries("DeleteItem", release), (None, entry_of("e1")));
        let other_table = json!({ "TableName": "batch-table", "Item": {} });
        assert_eq!(read("PutItem", &other_table), Request::Other);
    }

    #[test]
    fn a_query_of_the_index_tells_where_it_goes_on() {
        let body = json!({
            "TableName": TABLE,
            "IndexName": INDEX,
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
        assert_eq!(read("Query", &body), Request::Query(query));
    }

    #[test]
    fn what_could_write_unseen_is_named() {
        let body = json!({ "TransactItems": [] });
        assert!(matches!(
            read("TransactWriteItems", &body),
            Request::NotUnderstood(_)
        ));
    }

    #[test]
    fn a_write_takes_units_of_its_item_and_of_each_index_key() {
        let write = Write {
            key: "e1".to_owned(),
            bytes: 3_000,
            comes: entry_of("e1"),
            goes: None,
        };
        let units: Vec<u32> = write.charges().iter().map(|charge| charge.units).collect();
        assert_eq!(units, [3, 1]);
    }
}
