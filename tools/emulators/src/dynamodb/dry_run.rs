//! Finds out which units a write will take from a table and from the keys of its indexes, before the write is made: it first
//! makes the write in a scratch database that contains only the current item.
//!
//! An index entry whose keys change costs a delete and a put. An entry that changes in place costs one write of the larger of
//! its old and new size. An unchanged entry costs nothing. Sizes are those of the entry, not of the item.
//! Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html>, "Write capacity units" (2026-11).

use std::collections::BTreeMap;

use anyhow::Context;
use dynoxide::types::item_size;
use dynoxide::{AttributeValue, Database, Item};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::table::{Index, Table};
use super::token_buckets::{BucketKey, Charge, units};

/// A scratch database, and the indexes of the table.
pub(super) struct DryRun {
    database: Database,
    table: String,
    key: Vec<String>,
    indexes: Vec<Index>,
}

/// The units that a write will take.
#[derive(Debug)]
pub(super) struct WriteUnits {
    /// Units of the item.
    pub(super) item: u32,
    /// Units of each index key.
    pub(super) index_keys: Vec<Charge>,
}

/// The index entry of an item.
#[derive(Debug, PartialEq)]
struct Entry {
    hash: String,
    keys: Vec<AttributeValue>,
    projected: Item,
}

impl DryRun {
    /// Makes an empty scratch database for a table.
    ///
    /// # Errors
    /// The database could not be created.
    pub(super) fn new(name: &str, table: &Table) -> anyhow::Result<DryRun> {
        let schema = table.key_schema.iter();
        let key = Vec::from_iter(schema.map(|key| key.attribute_name.clone()));
        let definitions = table.attribute_definitions.iter();
        let definitions = definitions.filter(|one| key.contains(&one.attribute_name));
        let database = Database::memory()?;
        database.create_table(parse(json!({
            "TableName": name,
            "AttributeDefinitions": Vec::from_iter(definitions),
            "KeySchema": table.key_schema,
            "BillingMode": "PAY_PER_REQUEST",
        }))?)?;
        Ok(DryRun {
            database,
            table: name.to_owned(),
            key,
            indexes: table.global_secondary_indexes.clone(),
        })
    }

    /// Returns whether a request writes one item of the table of this name.
    pub(super) fn applies_to(table: &str, operation: &str, body: &Value) -> bool {
        ["PutItem", "UpdateItem", "DeleteItem"].contains(&operation) && body["TableName"] == table
    }

    /// Returns the body of the `GetItem` request that reads the item before the write.
    pub(super) fn read_request(&self, operation: &str, body: &Value) -> Value {
        let named = match operation {
            "PutItem" => &body["Item"],
            _ => &body["Key"],
        };
        let key = self.key.iter().map(|name| (name, &named[name]));
        let key = BTreeMap::from_iter(key);
        json!({ "TableName": self.table, "Key": key, "ConsistentRead": true })
    }

    /// Returns the units that the write will take. `reply` is the reply to [`read_request`](Self::read_request). A write that
    /// the table will refuse takes no units from index keys, and from the table the units of the present item, at least one.
    ///
    /// # Errors
    /// The item could not be copied into the scratch database.
    pub(super) fn units(
        &self,
        operation: &str,
        body: &Value,
        reply: &Value,
    ) -> anyhow::Result<WriteUnits> {
        let mut before: Option<Item> = None;
        if let Some(item) = reply.get("Item") {
            before = Some(parse(item.clone())?);
            let copy = json!({ "TableName": self.table, "Item": item });
            self.database.put_item(parse(copy)?)?;
        }
        let after = self.item_after(operation, body);
        let cleared = self.read_request(operation, body);
        let cleared = json!({ "TableName": self.table, "Key": cleared["Key"] });
        self.database.delete_item(parse(cleared)?)?;
        let items = before.iter().chain(after.iter().flatten());
        let item = units(items.map(item_size).max().unwrap_or_default());
        let index_keys = after.map(|after| self.difference(before.as_ref(), after.as_ref()));
        Ok(WriteUnits {
            item,
            index_keys: index_keys.unwrap_or_default(),
        })
    }

    /// Makes the write in the scratch database; returns the item after it. The outer `None` means that the write was refused,
    /// the inner one that the item was deleted.
    fn item_after(&self, operation: &str, body: &Value) -> Option<Option<Item>> {
        match operation {
            "PutItem" => {
                self.database.put_item(parse(body.clone()).ok()?).ok()?;
                Some(parse(body["Item"].clone()).ok())
            }
            "DeleteItem" => {
                let delete = parse(body.clone()).ok()?;
                self.database.delete_item(delete).ok()?;
                Some(None)
            }
            _ => {
                let mut body = body.clone();
                body["ReturnValues"] = json!("ALL_NEW");
                let update = self.database.update_item(parse(body).ok()?);
                Some(update.ok()?.attributes)
            }
        }
    }

    /// Returns the charges for the change of index entries from `before` to `after`.
    fn difference(&self, before: Option<&Item>, after: Option<&Item>) -> Vec<Charge> {
        let mut charges: BTreeMap<String, u32> = BTreeMap::new();
        for index in &self.indexes {
            let entry = |item: Option<&Item>| item.and_then(|item| self.entry(item, index));
            let mut charge = |entry: &Entry, units: u32| {
                let key = format!("{}/{}", index.index_name, entry.hash);
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
        let charges = charges.into_iter();
        let charge = |(key, units)| Charge::new(BucketKey::OtherIndex(key), units);
        charges.map(charge).collect()
    }

    /// Returns the entry of an item in an index; `None` if the item lacks a key of the index.
    fn entry(&self, item: &Item, index: &Index) -> Option<Entry> {
        let names = Vec::from_iter(index.key_schema.iter().map(|key| &key.attribute_name));
        let keys = names.iter().map(|name| item.get(*name).cloned());
        let keys = keys.collect::<Option<Vec<AttributeValue>>>()?;
        let hash = match keys.first()? {
            AttributeValue::S(text) | AttributeValue::N(text) => text.clone(),
            other => format!("{other:?}"),
        };
        let included = &index.projection.non_key_attributes;
        let all = index.projection.projection_type == "ALL";
        let projected = item.iter().filter(|(name, _)| {
            all || names.contains(name) || self.key.contains(name) || included.contains(name)
        });
        let projected = projected.map(|(name, value)| (name.clone(), with_sorted_set(value)));
        Some(Entry {
            hash,
            keys,
            projected: projected.collect(),
        })
    }
}

impl Entry {
    fn units(&self) -> u32 {
        units(item_size(&self.projected))
    }
}

/// Returns the value with the members of a set sorted, so that equal sets compare as equal.
fn with_sorted_set(value: &AttributeValue) -> AttributeValue {
    let mut value = value.clone();
    match &mut value {
        AttributeValue::SS(texts) | AttributeValue::NS(texts) => texts.sort_unstable(),
        AttributeValue::BS(blobs) => blobs.sort_unstable(),
        _ => {}
    }
    value
}

fn parse<T: DeserializeOwned>(body: Value) -> anyhow::Result<T> {
    serde_json::from_value(body).context("parse a request")
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

    fn dry_run(projection: Value) -> DryRun {
        DryRun::new(TABLE, &serde_json::from_value(table(projection)).unwrap()).unwrap()
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

    fn taken(dry_run: &DryRun, body: &Value, reply: &Value) -> Vec<Charge> {
        dry_run.units("UpdateItem", body, reply).unwrap().index_keys
    }

    fn units_of(key: &str, units: u32) -> Charge {
        Charge::new(BucketKey::OtherIndex(format!("status-index/{key}")), units)
    }

    #[test]
    fn an_attribute_rewrites_the_entry_only_where_it_is_projected() {
        let settled = |text: &str| update("SET settled = :a", json!({ ":a": { "S": text } }));
        let new_settled = settled("y");
        let all = dry_run(json!({ "ProjectionType": "ALL" }));
        // The larger size counts.
        for (bytes, units) in [(10, 1), (5_000, 5)] {
            let taken = taken(&all, &new_settled, &record(bytes));
            assert_eq!(taken, [units_of("open", units)]);
        }
        for other in [
            json!({ "ProjectionType": "KEYS_ONLY" }),
            json!({ "ProjectionType": "INCLUDE", "NonKeyAttributes": ["source"] }),
        ] {
            assert_eq!(taken(&dry_run(other), &new_settled, &record(5_000)), []);
        }
        let included = json!({ "ProjectionType": "INCLUDE", "NonKeyAttributes": ["settled"] });
        let included = dry_run(included);
        let changed = taken(&included, &new_settled, &record(10));
        assert_eq!(changed, [units_of("open", 1)]);
        // Nothing changes.
        assert_eq!(taken(&included, &settled("xx"), &record(2)), []);
    }

    #[test]
    fn an_entry_whose_keys_change_costs_a_delete_and_a_put() {
        let dry_run = dry_run(json!({ "ProjectionType": "KEYS_ONLY" }));
        let due = update("SET dueAt = :due", json!({ ":due": { "N": "8" } }));
        let sealed = json!({ ":state": { "S": "sealed" } });
        let sealed = update("SET #state = :state", sealed);
        let complete = json!({
            "TableName": TABLE,
            "Key": { "batchId": { "S": "b" } },
            "UpdateExpression": "REMOVE #state",
            "ExpressionAttributeNames": { "#state": "state" },
        });
        let taken = |update| taken(&dry_run, update, &record(9));
        assert_eq!(taken(&due), [units_of("open", 2)]);
        let both = [units_of("open", 1), units_of("sealed", 1)];
        assert_eq!(taken(&sealed), both);
        assert_eq!(taken(&complete), [units_of("open", 1)]);
    }

    #[test]
    fn a_refused_write_takes_nothing_and_a_new_item_is_put() {
        let dry_run = dry_run(json!({ "ProjectionType": "ALL" }));
        let due = update("SET dueAt = :due", json!({ ":due": { "N": "8" } }));
        assert_eq!(taken(&dry_run, &due, &json!({})), []);
        let put = json!({
            "TableName": TABLE,
            "Item": record(3_000)["Item"],
            "ConditionExpression": "attribute_not_exists(batchId)",
        });
        let units = |reply: &Value| dry_run.units("PutItem", &put, reply).unwrap();
        let new = units(&json!({}));
        assert_eq!((new.item, new.index_keys[0].units), (3, 3));
        let refused = units(&record(1));
        assert_eq!((refused.item, refused.index_keys.len()), (1, 0));
        let request = dry_run.read_request("PutItem", &put);
        assert_eq!(request["Key"], json!({ "batchId": { "S": "b" } }));
    }

    /// Compares the units with those that the table itself reports for its item and its index.
    #[test]
    fn the_units_are_those_that_the_table_reports() {
        let text = |text: &str| json!({ "S": text });
        let long = text(&"s".repeat(4_000));
        let both = json!({ ":a": text("sealed"), ":b": text("u") });
        let append = "SET parts = list_append(if_not_exists(parts, :a), :a)";
        let updates = [
            ("SET dueAt = :a", json!({ ":a": { "N": "8" } })),
            ("SET settled = :a", json!({ ":a": long })),
            ("SET settled = :a", json!({ ":a": text("t") })),
            ("SET #state = :a, settled = :b", both),
            ("ADD seen :a", json!({ ":a": { "SS": ["x", "a"] } })),
            ("ADD seen :a", json!({ ":a": { "SS": ["a"] } })),
            (append, json!({ ":a": { "L": [text("p")] } })),
            ("SET parts[0] = :a", json!({ ":a": text("q") })),
        ];
        for projection in [
            json!({ "ProjectionType": "ALL" }),
            json!({ "ProjectionType": "KEYS_ONLY" }),
            json!({ "ProjectionType": "INCLUDE", "NonKeyAttributes": ["seen", "parts"] }),
        ] {
            let dry_run = dry_run(projection.clone());
            let database = Database::memory().unwrap();
            let create = parse(table(projection.clone())).unwrap();
            database.create_table(create).unwrap();
            let mut put = record(1_500);
            put["TableName"] = json!(TABLE);
            database.put_item(parse(put).unwrap()).unwrap();
            for (expression, values) in &updates {
                let mut body = update(expression, values.clone());
                body["ReturnConsumedCapacity"] = json!("INDEXES");
                let question = parse(dry_run.read_request("UpdateItem", &body)).unwrap();
                let before = serde_json::to_value(database.get_item(question).unwrap()).unwrap();
                let units = dry_run.units("UpdateItem", &body, &before).unwrap();
                let charged: u32 = units.index_keys.iter().map(|charge| charge.units).sum();
                let done = database.update_item(parse(body).unwrap()).unwrap();
                let done = serde_json::to_value(done).unwrap();
                let reported = |part: &str| {
                    let units = done.pointer(&format!("/ConsumedCapacity/{part}/CapacityUnits"));
                    units.and_then(Value::as_f64).unwrap_or_default()
                };
                let reported = ["Table", "GlobalSecondaryIndexes/status-index"].map(reported);
                let found = [units.item, charged].map(f64::from);
                assert_eq!(found, reported, "{expression} {projection}");
            }
        }
    }
}
