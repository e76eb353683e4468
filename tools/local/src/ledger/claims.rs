//! Finds the claims in a request. The latency of a batch counts from the time of its last claim. In a batch of the log, a message is claimed
//! when a seat is reserved for it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use emulators::dynamodb::capacity::StatementResult;
use protocol::ids::{BatchId, BatchShard};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::attribute::Text;
use crate::dynamodb::{BATCH_TABLE, LOCK_TABLE};

/// The attribute of the batch in a claim that has its body, and its shard: `<batch>#<shard>`.
const BATCH_SHARD: &str = "batchId";
/// The attribute of the batch in a claim whose body is in a chunk.
const BATCH: &str = "batch";
/// Bytes for which DynamoDB charges beside those of an item.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html> (2026-08).
const ITEM_OVERHEAD_BYTES: usize = 100;
/// The least length of the JSON around a value: `{"S":""}`.
const AROUND_VALUE_BYTES: usize = 8;

/// A claim that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) batch: BatchId,
    /// About the bytes that the table keeps for weeks, because the body is in a chunk; 0 if the claim has the body, and is
    /// released.
    pub(super) kept_bytes: u64,
}

/// Returns the claims that a successful request wrote. `results` has the results of the statements of a PartiQL batch.
pub(super) fn claimed(operation: &str, request: &[u8], results: &[StatementResult]) -> Vec<Claim> {
    match operation {
        "PutItem" => put(request).into_iter().collect(),
        "BatchExecuteStatement" => inserts(request, results).unwrap_or_default(),
        "UpdateItem" => reserved(request).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn put(request: &[u8]) -> Option<Claim> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Put<'a> {
        #[serde(borrow)]
        table_name: Cow<'a, str>,
        #[serde(borrow)]
        item: BTreeMap<&'a str, &'a RawValue>,
    }

    let put: Put<'_> = serde_json::from_slice(request).ok()?;
    (put.table_name == LOCK_TABLE).then(|| claim(put.item.into_iter()))?
}

/// Returns a claim for each line of a reservation.
fn reserved(request: &[u8]) -> Option<Vec<Claim>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Reservation<'a> {
        #[serde(borrow)]
        table_name: Cow<'a, str>,
        #[serde(borrow)]
        update_expression: Cow<'a, str>,
        #[serde(borrow)]
        key: BTreeMap<&'a str, Text<'a>>,
        #[serde(borrow)]
        expression_attribute_values: BTreeMap<&'a str, &'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Lines<'a> {
        #[serde(rename = "N")]
        number: Cow<'a, str>,
    }

    let reservation: Reservation<'_> = serde_json::from_slice(request).ok()?;
    let of_log = reservation.table_name == BATCH_TABLE;
    if !of_log || !reservation.update_expression.contains("ADD #reserved ") {
        return None;
    }
    let batch = reservation.key.get("batchId")?.text.parse().ok()?;
    let lines = reservation.expression_attribute_values.get(":lines")?;
    let lines: Lines<'_> = serde_json::from_str(lines.get()).ok()?;
    let claim = Claim {
        batch,
        kept_bytes: 0,
    };
    Some(vec![claim; lines.number.parse().ok()?])
}

fn inserts(request: &[u8], results: &[StatementResult]) -> Option<Vec<Claim>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Statements<'a> {
        #[serde(borrow)]
        statements: Vec<Statement<'a>>,
    }
    // Raw values, because texts with escapes cannot be borrowed.
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Statement<'a> {
        #[serde(borrow)]
        statement: &'a RawValue,
        #[serde(borrow)]
        parameters: Vec<&'a RawValue>,
    }

    let Statements { statements } = serde_json::from_slice(request).ok()?;
    let mut claims = Vec::new();
    for (
        Statement {
            statement,
            parameters,
        },
        result,
    ) in statements.iter().zip(results)
    {
        // A request has claims only or releases only, so the first statement that is no claim decides.
        let text = statement.get();
        if !text.starts_with("\"INSERT INTO") || !text.contains(LOCK_TABLE) {
            return None;
        }
        if *result == StatementResult::Applied {
            // `{'messageId': ?, 'batchId': ?}`
            let names = text.split('\'').skip(1).step_by(2);
            claims.push(claim(names.zip(parameters.iter().copied()))?);
        }
    }
    Some(claims)
}

/// Returns the claim with these attributes.
fn claim<'a>(attributes: impl Iterator<Item = (&'a str, &'a RawValue)>) -> Option<Claim> {
    let mut bytes = ITEM_OVERHEAD_BYTES;
    let mut found = None;
    for (name, value) in attributes {
        let value = value.get();
        bytes += name.len() + value.len().saturating_sub(AROUND_VALUE_BYTES);
        let text = || serde_json::from_str::<Text<'_>>(value).ok();
        match name {
            BATCH => found = Some((text()?.text.parse().ok()?, true)),
            BATCH_SHARD => {
                let shard: BatchShard = text()?.text.parse().ok()?;
                found = Some((shard.batch, false));
            }
            _ => {}
        }
    }
    let (batch, in_chunk) = found?;
    Some(Claim {
        batch,
        kept_bytes: if in_chunk { bytes as u64 } else { 0 },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ONE: &str = "0190163d-8694-739b-aea5-966c26f8ad91";
    const OTHER: &str = "0190163d-8694-739b-aea5-966c26f8ad92";

    fn insert(batch: &str) -> serde_json::Value {
        json!({
            "Statement": "INSERT INTO \"lock-table\" VALUE {'messageId': ?, 'bodyHash': ?, 'batchId': ?, 'seq': ?}",
            "Parameters": [{"S": format!("{OTHER}#7")}, {"B": "aGFzaA=="}, {"S": format!("{batch}#3")}, {"N": "13"}],
        })
    }

    #[test]
    fn each_statement_that_was_applied_claims_into_its_batch() {
        let request =
            json!({ "Statements": [insert(ONE), insert(ONE), insert(OTHER)] }).to_string();
        let claimed = |results: [StatementResult; 3]| {
            let batches = claimed("BatchExecuteStatement", request.as_bytes(), &results);
            Vec::from_iter(batches.iter().map(|claim| claim.batch.to_string()))
        };
        let (applied, failed) = (StatementResult::Applied, StatementResult::ConditionFailed);
        assert_eq!(claimed([applied; 3]), [ONE, ONE, OTHER]);
        assert_eq!(claimed([failed, applied, StatementResult::Refused]), [ONE]);
        assert!(claimed([failed; 3]).is_empty());
    }

    #[test]
    fn a_put_claims_where_it_is_into_the_lock_table() {
        let claimed = |table: &str| {
            let item = json!({ "messageId": {"S": "e1"}, "batchId": {"S": format!("{ONE}#0")} });
            let request = json!({ "TableName": table, "Item": item }).to_string();
            claimed("PutItem", request.as_bytes(), &[]).len()
        };
        assert_eq!(claimed(LOCK_TABLE), 1);
        assert_eq!(claimed("batch-table"), 0);
    }

    #[test]
    fn a_claim_whose_body_is_in_a_chunk_names_its_batch_alone() {
        let statement = json!({
            "Statement": "INSERT INTO \"lock-table\" VALUE {'messageId': ?, 'batch': ?, 'seq': ?, 'chunk': ?}",
            "Parameters": [{"S": "e1"}, {"S": ONE}, {"N": "13"}, {"N": "0"}],
        });
        let request = json!({ "Statements": [statement] }).to_string();
        let results = [StatementResult::Applied];
        let inserted = claimed("BatchExecuteStatement", request.as_bytes(), &results);
        // 22 bytes of names, 2 + 36 + 2 + 1 of values.
        let expected = Claim {
            batch: ONE.parse().unwrap(),
            kept_bytes: 100 + 22 + 41,
        };
        assert_eq!(inserted, [expected]);
        let item = json!({ "messageId": {"S": "e1"}, "batch": {"S": ONE} });
        let request = json!({ "TableName": LOCK_TABLE, "Item": item }).to_string();
        let put = claimed("PutItem", request.as_bytes(), &[]);
        assert_eq!((put.len(), put[0].batch), (1, expected.batch));
    }

    #[test]
    fn a_reservation_claims_a_seat_for_each_of_its_lines() {
        let reserves = |table: &str, update: &str| {
            let request = json!({
                "TableName": table,
                "Key": { "batchId": {"S": ONE} },
                "UpdateExpression": update,
                "ExpressionAttributeNames": { "#reserved": "reserved" },
                "ExpressionAttributeValues": { ":lines": {"N": "3"}, ":one": {"N": "1"} },
            });
            claimed("UpdateItem", request.to_string().as_bytes(), &[])
        };
        let update = "SET #lastAt = :at ADD #reserved :lines, #slots :one";
        let claim = Claim {
            batch: ONE.parse().unwrap(),
            kept_bytes: 0,
        };
        assert_eq!(reserves(BATCH_TABLE, update), [claim; 3]);
        assert_eq!(reserves(LOCK_TABLE, update), []);
        assert_eq!(reserves(BATCH_TABLE, "SET #status = :sealed"), []);
    }

    #[test]
    fn releases_claim_nothing() {
        let release = json!({
            "Statement": "UPDATE \"lock-table\" SET \"expiresAt\" = ? WHERE \"messageId\" = ? AND \"batchId\" = ?",
            "Parameters": [{"N": "1"}, {"S": "e1"}, {"S": format!("{ONE}#3")}],
        });
        let request = json!({ "Statements": [release] }).to_string();
        let results = [StatementResult::Applied];
        assert!(claimed("BatchExecuteStatement", request.as_bytes(), &results).is_empty());
        assert!(claimed("UpdateItem", request.as_bytes(), &[]).is_empty());
    }
}
