//! What a write to a table does to the keys of its indexes, found out before it is made: it is made first in a
//! database of its own, which holds nothing but the item as it is.
//!
//! An entry that moves is a delete and a put, one that changes in place is one write of its larger image, and one of which
//! nothing changes costs nothing. Sizes are those of the entry, not of the item.
//! Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html>, "Write capacity units" (2026-11).

use std::collections::BTreeMap;

use anyhow::Context;
use dynoxide::types::item_size;
use dynoxide::{AttributeValue, Database, Item};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::limits::{Charge, Key, units};
use super::table::{Index, Table};

/// The database, and the indexes of the table.
pub(super) struct Rehearsal {
    database: Database,
    table: String,
    key: Vec<String>,
    indexes: Vec<Index>,
}

/// What an index holds of an item.
#[derive(Debug, PartialEq)]
struct Entry {
    hash: String,
    keys: Vec<AttributeValue>,
    projected: Item,
}

impl Rehearsal {
    /// For a table of this name.
    ///
    /// # Errors
    /// When the database cannot be had.
    pub(super) fn new(name: &str, table: &Table) -> anyhow::Result<Rehearsal> {
        let key: Vec<String> = table
            .key_schema
            .iter()
            .map(|key| key.attribute_name.clone())
            .collect();
        let definitions: Vec<Value> = table
            .attribute_definitions
            .iter()
            .filter(|attribute| key.contains(&attribute.attribute_name))
            .map(|attribute| json!({ "AttributeName": attribute.attribute_name, "AttributeType": attribute.attribute_type }))
            .collect();
        let schema: Vec<Value> = table
            .key_schema
            .iter()
            .map(|key| json!({ "AttributeName": key.attribute_name, "KeyType": key.key_type }))
            .collect();
        let database = Database::memory().map_err(said)?;
        database
            .create_table(request(json!({
                "TableName": name,
                "AttributeDefinitions": definitions,
                "KeySchema": schema,
                "BillingMode": "PAY_PER_REQUEST",
            }))?)
            .map_err(said)?;
        Ok(Rehearsal {
            database,
            table: name.to_owned(),
            key,
            indexes: table.global_secondary_indexes.clone(),
        })
    }

    /// Whether a request is a write to the table of this name.
    pub(super) fn concerns(table: &str, operation: &str, body: &Value) -> bool {
        ["PutItem", "UpdateItem", "DeleteItem"].contains(&operation) && body["TableName"] == table
    }

    /// The request for the item that a write is about, as it is.
    pub(super) fn question(&self, operation: &str, body: &Value) -> Value {
        let named = match operation {
            "PutItem" => &body["Item"],
            _ => &body["Key"],
        };
        let key: BTreeMap<&str, &Value> = self
            .key
            .iter()
            .map(|name| (name.as_str(), &named[name]))
            .collect();
        json!({ "TableName": self.table, "Key": key, "ConsistentRead": true })
    }

    /// What the write will take of the indexes' keys, given the answer to [`question`](Self::question). A write that will
    /// be refused takes nothing.
    ///
    /// # Errors
    /// When the item cannot be copied.
    pub(super) fn charges(
        &self,
        operation: &str,
        body: &Value,
        answer: &Value,
    ) -> anyhow::Result<Vec<Charge>> {
        let before: Option<Item> = answer
            .get("Item")
            .map(|item| request(item.clone()))
            .transpose()?;
        if let Some(item) = answer.get("Item") {
            let copy = json!({ "TableName": self.table, "Item": item });
            self.database.put_item(request(copy)?).map_err(said)?;
        }
        let after = self.rehearse(operation, body);
        let cleared = self.question(operation, body);
        let cleared = json!({ "TableName": self.table, "Key": cleared["Key"] });
        self.database.delete_item(request(cleared)?).map_err(said)?;
        Ok(match after {
            Some(after) => self.difference(before.as_ref(), after.as_ref()),
            None => Vec::new(),
        })
    }

    /// The item after the write; `None` where the write is refused.
    fn rehearse(&self, operation: &str, body: &Value) -> Option<Option<Item>> {
        match operation {
            "PutItem" => {
                self.database.put_item(request(body.clone()).ok()?).ok()?;
                Some(request(body["Item"].clone()).ok())
            }
            "DeleteItem" => {
                let delete = request(body.clone()).ok()?;
                self.database.delete_item(delete).ok()?;
                Some(None)
            }
            _ => {
                let mut body = body.clone();
                body["ReturnValues"] = json!("ALL_NEW");
                let update = self.database.update_item(request(body).ok()?);
                Some(update.ok()?.attributes)
            }
        }
    }

    fn difference(&self, before: Option<&Item>, after: Option<&Item>) -> Vec<Charge> {
        let mut charges: BTreeMap<Key, u32> = BTreeMap::new();
        for index in &self.indexes {
            let entry = |item: Option<&Item>| item.and_then(|item| self.entry(item, index));
            let mut charge = |entry: &Entry, units: u32| {
                let key = Key::OtherIndex(format!("{}/{}", index.index_name, entry.hash));
                *charges.entry(key).or_default() += units;
            };
            match (entry(before), entry(after)) {
                (None, None) => {}
                (Some(one), None) | (None, Some(one)) => charge(&one, one.units()),
                (Some(old), Some(new)) if old.keys != new.keys => {
                    charge(&old, old.units());
                    charge(&new, new.units());
                }
                (Some(old), Some(new)) if old.projected == new.projected => {}
                (Some(old), Some(new)) => charge(&new, old.units().max(new.units())),
            }
        }
        charges
            .into_iter()
            .map(|(key, units)| Charge { key, units })
            .collect()
    }

    /// What the index holds of an item; an item without one of its keys is not in it.
    fn entry(&self, item: &Item, index: &Index) -> Option<Entry> {
        let names: Vec<&String> = index
            .key_schema
            .iter()
            .map(|key| &key.attribute_name)
            .collect();
        let keys: Option<Vec<AttributeValue>> =
            names.iter().map(|name| item.get(*name).cloned()).collect();
        let keys = keys?;
        let hash = match keys.first()? {
            AttributeValue::S(text) | AttributeValue::N(text) => text.clone(),
            other => format!("{other:?}"),
        };
        let included = &index.projection.non_key_attributes;
        let all = index.projection.projection_type == "ALL";
        let projected = item.iter().filter(|(name, _)| {
            all || names.contains(name) || self.key.contains(name) || included.contains(name)
        });
        let projected = projected
            .map(|(name, value)| (name.clone(), in_order(value)))
            .collect();
        Some(Entry {
            hash,
            keys,
            projected,
        })
    }
}

impl Entry {
    fn units(&self) -> u32 {
        units(item_size(&self.projected))
    }
}

/// The same value with the members of a set in order: a set has none.
fn in_order(value: &AttributeValue) -> AttributeValue {
    let mut value = value.clone();
    match &mut value {
        AttributeValue::SS(texts) | AttributeValue::NS(texts) => texts.sort_unstable(),
        AttributeValue::BS(blobs) => blobs.sort_unstable(),
        _ => {}
    }
    value
}

fn request<T: DeserializeOwned>(body: Value) -> anyhow::Result<T> {
    serde_json::from_value(body).context("read a request")
}

fn said(error: dynoxide::DynoxideError) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "batches";

    fn table(projection: Value) -> Value {
        json!({
            "TableName": TABLE,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [
                { "AttributeName": "batchId", "AttributeType": "S" },
                { "AttributeName": "state", "AttributeType": "S" },
                { "AttributeName": "dueAt", "AttributeType": "N" },
            ],
            "KeySchema": [{ "AttributeName": "batchId", "KeyType": "HASH" }],
            "GlobalSecondaryIndexes": [{
                "IndexName": "status-index",
                "KeySchema": [
                    { "AttributeName": "state", "KeyType": "HASH" },
                    { "AttributeName": "dueAt", "KeyType": "RANGE" },
                ],
                "Projection": projection,
            }],
        })
    }

    fn rehearsal(projection: Value) -> Rehearsal {
        Rehearsal::new(TABLE, &serde_json::from_value(table(projection)).unwrap()).unwrap()
    }

    fn record(settled: usize) -> Value {
        json!({ "Item": {
            "batchId": { "S": "b" },
            "state": { "S": "open" },
            "dueAt": { "N": "7" },
            "source": { "S": "queue" },
            "settled": { "S": "x".repeat(settled) },
        }})
    }

    fn update(expression: &str, values: Value) -> Value {
        json!({
            "TableName": TABLE,
            "Key": { "batchId": { "S": "b" } },
            "ConditionExpression": "attribute_exists(#state)",
            "ExpressionAttributeNames": { "#state": "state" },
            "UpdateExpression": expression,
            "ExpressionAttributeValues": values,
        })
    }

    fn taken(rehearsal: &Rehearsal, body: &Value, answer: &Value) -> Vec<(String, u32)> {
        let charges = rehearsal.charges("UpdateItem", body, answer).unwrap();
        charges
            .into_iter()
            .map(|charge| match charge.key {
                Key::OtherIndex(key) => (key, charge.units),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn units_of(key: &str, units: u32) -> (String, u32) {
        (format!("status-index/{key}"), units)
    }

    #[test]
    fn an_account_rewrites_the_entry_only_where_it_is_projected() {
        let account = update(
            "SET settled = :settled",
            json!({ ":settled": { "S": "y" } }),
        );
        let all = rehearsal(json!({ "ProjectionType": "ALL" }));
        assert_eq!(taken(&all, &account, &record(10)), [units_of("open", 1)]);
        // The larger image counts.
        assert_eq!(taken(&all, &account, &record(5_000)), [units_of("open", 5)]);
        for other in [
            json!({ "ProjectionType": "KEYS_ONLY" }),
            json!({ "ProjectionType": "INCLUDE", "NonKeyAttributes": ["source"] }),
        ] {
            assert_eq!(taken(&rehearsal(other), &account, &record(5_000)), []);
        }
        let included = json!({ "ProjectionType": "INCLUDE", "NonKeyAttributes": ["settled"] });
        let included = rehearsal(included);
        assert_eq!(
            taken(&included, &account, &record(10)),
            [units_of("open", 1)]
        );
        // Nothing changes.
        let same = update(
            "SET settled = :settled",
            json!({ ":settled": { "S": "xx" } }),
        );
        assert_eq!(taken(&included, &same, &record(2)), []);
    }

    #[test]
    fn an_entry_that_moves_is_deleted_and_put() {
        let rehearsal = rehearsal(json!({ "ProjectionType": "KEYS_ONLY" }));
        let due = update("SET dueAt = :due", json!({ ":due": { "N": "8" } }));
        assert_eq!(taken(&rehearsal, &due, &record(9)), [units_of("open", 2)]);
        let sealed = update(
            "SET #state = :state",
            json!({ ":state": { "S": "sealed" } }),
        );
        assert_eq!(
            taken(&rehearsal, &sealed, &record(9)),
            [units_of("open", 1), units_of("sealed", 1)]
        );
        let complete = json!({
            "TableName": TABLE,
            "Key": { "batchId": { "S": "b" } },
            "UpdateExpression": "REMOVE #state",
            "ExpressionAttributeNames": { "#state": "state" },
        });
        assert_eq!(
            taken(&rehearsal, &complete, &record(9)),
            [units_of("open", 1)]
        );
    }

    #[test]
    fn a_write_that_is_refused_takes_nothing_and_a_new_record_is_put() {
        let rehearsal = rehearsal(json!({ "ProjectionType": "ALL" }));
        let due = update("SET dueAt = :due", json!({ ":due": { "N": "8" } }));
        assert_eq!(taken(&rehearsal, &due, &json!({})), []);
        let put = json!({
            "TableName": TABLE,
            "Item": record(3_000)["Item"],
            "ConditionExpression": "attribute_not_exists(batchId)",
        });
        let charges = |answer: &Value| rehearsal.charges("PutItem", &put, answer).unwrap();
        assert_eq!(charges(&json!({}))[0].units, 3);
        assert!(charges(&record(1)).is_empty());
        assert_eq!(
            rehearsal.question("PutItem", &put)["Key"],
            json!({ "batchId": { "S": "b" } })
        );
    }

    /// What the whole index takes, in the words of the table itself.
    #[test]
    fn the_keys_together_take_what_the_table_says_that_the_index_took() {
        let text = |text: &str| json!({ "S": text });
        let updates = [
            ("SET dueAt = :a", json!({ ":a": { "N": "8" } })),
            (
                "SET settled = :a",
                json!({ ":a": text(&"s".repeat(4_000)) }),
            ),
            ("SET settled = :a", json!({ ":a": text("t") })),
            (
                "SET #state = :a, settled = :b",
                json!({ ":a": text("sealed"), ":b": text("u") }),
            ),
            ("ADD seen :a", json!({ ":a": { "SS": ["x", "a"] } })),
            ("ADD seen :a", json!({ ":a": { "SS": ["a"] } })),
            (
                "SET parts = list_append(if_not_exists(parts, :a), :a)",
                json!({ ":a": { "L": [text("p")] } }),
            ),
            ("SET parts[0] = :a", json!({ ":a": text("q") })),
        ];
        for projection in [
            json!({ "ProjectionType": "ALL" }),
            json!({ "ProjectionType": "KEYS_ONLY" }),
            json!({ "ProjectionType": "INCLUDE", "NonKeyAttributes": ["seen", "parts"] }),
        ] {
            let rehearsal = rehearsal(projection.clone());
            let database = Database::memory().unwrap();
            let create = request(table(projection.clone())).unwrap();
            database.create_table(create).unwrap();
            let mut put = record(1_500);
            put["TableName"] = json!(TABLE);
            database.put_item(request(put).unwrap()).unwrap();
            for (expression, values) in &updates {
                let mut body = update(expression, values.clone());
                body["ReturnConsumedCapacity"] = json!("INDEXES");
                let question = request(rehearsal.question("UpdateItem", &body)).unwrap();
                let before = serde_json::to_value(database.get_item(question).unwrap()).unwrap();
                let charges = rehearsal.charges("UpdateItem", &body, &before).unwrap();
                let foreseen: u32 = charges.iter().map(|charge| charge.units).sum();
                let done = database.update_item(request(body).unwrap()).unwrap();
                let done = serde_json::to_value(done).unwrap();
                let units = done
                    .pointer("/ConsumedCapacity/GlobalSecondaryIndexes/status-index/CapacityUnits");
                let told = units.and_then(Value::as_f64).unwrap_or_default();
                assert_eq!(f64::from(foreseen), told, "{expression} {projection}");
            }
        }
    }
}
