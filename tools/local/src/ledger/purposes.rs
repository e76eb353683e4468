//! What tables use capacity units for.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;

use super::attribute::Text;

/// The attribute of the uncertain seats, which only the update of the counts sets.
const COUNTS: &str = "#uncertain = ";
/// The attribute of the witnessed seats, as every update of them sets it.
const WITNESSED: &str = "#witnessed = ";

/// What a table used capacity units for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnitsPurpose {
    Items,
    /// Slots, in the batch table.
    Slots,
    /// Loads of the log, in the batch table.
    Loads,
    /// The index of the log, in the batch table: runs, their list and the manifest.
    Runs,
    /// The counts of the claims of a batch, which its batch-processor writes once.
    Counts,
    /// The witnesses in batch records.
    Witnesses,
    /// The entries of the index with this name.
    Index(String),
    /// Writes whose condition did not hold.
    FailedConditions,
}

impl fmt::Display for UnitsPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnitsPurpose::Items => f.write_str("items"),
            UnitsPurpose::Slots => f.write_str("slots"),
            UnitsPurpose::Loads => f.write_str("loads"),
            UnitsPurpose::Runs => f.write_str("runs"),
            UnitsPurpose::Counts => f.write_str("counts"),
            UnitsPurpose::Witnesses => f.write_str("witnesses"),
            UnitsPurpose::Index(name) => f.write_str(name),
            UnitsPurpose::FailedConditions => f.write_str("failed conditions"),
        }
    }
}

/// Returns what a request to the batch table is for.
pub(super) fn purpose(request: &[u8]) -> UnitsPurpose {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Request<'a> {
        #[serde(borrow)]
        item: Option<Key<'a>>,
        #[serde(borrow)]
        key: Option<Key<'a>>,
        #[serde(borrow)]
        update_expression: Option<Cow<'a, str>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Key<'a> {
        #[serde(borrow)]
        batch_id: Text<'a>,
    }

    let Ok(request) = serde_json::from_slice::<Request<'_>>(request) else {
        return UnitsPurpose::Items;
    };
    let update = request.update_expression.unwrap_or_default();
    // The key of a record is a batch id, that of a slot is `<batch id>/<number>`, and those of the log begin with a word.
    match request.item.or(request.key) {
        Some(key) if key.batch_id.text.starts_with("load/") => UnitsPurpose::Loads,
        Some(key) if key.batch_id.text.starts_with("run") => UnitsPurpose::Runs,
        Some(key) if key.batch_id.text.starts_with("dedup#") => UnitsPurpose::Runs,
        Some(key) if key.batch_id.text.contains('/') => UnitsPurpose::Slots,
        _ if update.contains(COUNTS) => UnitsPurpose::Counts,
        _ if update.contains(WITNESSED) => UnitsPurpose::Witnesses,
        _ => UnitsPurpose::Items,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn slots_counts_and_witnesses_are_distinguished_from_other_writes_of_records() {
        let of = |request: &Value| purpose(request.to_string().as_bytes());
        let update = |update: &str| {
            let key = json!({ "batchId": { "S": "b" } });
            of(
                &json!({ "Key": key, "UpdateExpression": update, "ConditionExpression": "#uncertain = :u" }),
            )
        };
        for (id, purpose) in [
            ("b/0", UnitsPurpose::Slots),
            ("b/100", UnitsPurpose::Slots),
            ("run/a", UnitsPurpose::Runs),
            ("runs/a", UnitsPurpose::Runs),
            ("run/a/1", UnitsPurpose::Runs),
            ("dedup#0", UnitsPurpose::Runs),
            ("load/a", UnitsPurpose::Loads),
            ("load/a/1", UnitsPurpose::Loads),
            ("scope#a", UnitsPurpose::Items),
            ("b", UnitsPurpose::Items),
        ] {
            let key = json!({ "batchId": { "S": id } });
            assert_eq!(of(&json!({ "Item": key })), purpose, "put {id}");
            assert_eq!(of(&json!({ "Key": key })), purpose, "get {id}");
        }
        let counts = "SET #resolution = :resolution, #confirmed = :confirmed, #uncertain = :uncertain, #witnessed = :witnessed";
        assert_eq!(update(counts), UnitsPurpose::Counts);
        let decisions =
            "SET #resolution = :resolution, #confirmed = :confirmed, #claimed = :claimed";
        assert_eq!(update(decisions), UnitsPurpose::Items);
        let reservation = "SET #lastAt = :lastAt ADD #reserved :reservedAdded, #slots :slotsAdded";
        assert_eq!(update(reservation), UnitsPurpose::Items);
        let witnesses = "SET #witnessed = :witnessed ADD #witnesses :one";
        assert_eq!(update(witnesses), UnitsPurpose::Witnesses);
        assert_eq!(update("SET #completedAt = :at"), UnitsPurpose::Items);
        assert_eq!(purpose(b"{}"), UnitsPurpose::Items);
    }
}
