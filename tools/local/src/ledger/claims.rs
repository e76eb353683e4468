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

/// The attribute of the batch in a claim, and its shard: `<batch>#<shard>`.
const BATCH_SHARD: &str = "batchId";

/// Returns the batches of the claims that a successful request wrote, one for each claim. `results` has the results of the statements of a
/// PartiQL batch.
pub(super) fn claimed(
    operation: &str,
    request: &[u8],
    reply: &[u8],
    results: &[StatementResult],
) -> Vec<BatchId> {
    match operation {
        "PutItem" => put(request).into_iter().collect(),
        "BatchExecuteStatement" => inserts(request, results).unwrap_or_default(),
        "UpdateItem" => reserved(request, reply).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn put(request: &[u8]) -> Option<BatchId> {
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

/// Returns a claim for each seat of a reservation in a batch of the log. The reply has the record; only that of such a batch says where the
/// bodies are.
fn reserved(request: &[u8], reply: &[u8]) -> Option<Vec<BatchId>> {
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
    #[serde(rename_all = "PascalCase")]
    struct Reply<'a> {
        #[serde(borrow)]
        attributes: BTreeMap<&'a str, &'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Seats<'a> {
        #[serde(rename = "N")]
        number: Cow<'a, str>,
    }

    let reservation: Reservation<'_> = serde_json::from_slice(request).ok()?;
    let of_batch = reservation.table_name == BATCH_TABLE;
    if !of_batch || !reservation.update_expression.contains("ADD #reserved ") {
        return None;
    }
    let reply: Reply<'_> = serde_json::from_slice(reply).ok()?;
    reply.attributes.get("bodies")?;
    let batch = reservation.key.get("batchId")?.text.parse().ok()?;
    let seats = reservation
        .expression_attribute_values
        .get(":reservedAdded")?;
    let seats: Seats<'_> = serde_json::from_str(seats.get()).ok()?;
    Some(vec![batch; seats.number.parse().ok()?])
}

fn inserts(request: &[u8], results: &[StatementResult]) -> Option<Vec<BatchId>> {
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
    for (one, result) in statements.iter().zip(results) {
        // A request has claims only or releases only, so the first statement that is no claim decides.
        let text = one.statement.get();
        if !text.starts_with("\"INSERT INTO") || !text.contains(LOCK_TABLE) {
            return None;
        }
        if *result == StatementResult::Applied {
            // `{'messageId': ?, 'batchId': ?}`
            let names = text.split('\'').skip(1).step_by(2);
            claims.push(claim(names.zip(one.parameters.iter().copied()))?);
        }
    }
    Some(claims)
}

/// Returns the batch of the claim with these attributes.
fn claim<'a>(mut attributes: impl Iterator<Item = (&'a str, &'a RawValue)>) -> Option<BatchId> {
    let (_, shard) = attributes.find(|(name, _)| *name == BATCH_SHARD)?;
    let shard: Text<'_> = serde_json::from_str(shard.get()).ok()?;
    let shard: BatchShard = shard.text.parse().ok()?;
    Some(shard.batch)
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
            let batches = claimed("BatchExecuteStatement", request.as_bytes(), b"", &results);
            Vec::from_iter(batches.iter().map(BatchId::to_string))
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
            claimed("PutItem", request.as_bytes(), b"", &[]).len()
        };
        assert_eq!(claimed(LOCK_TABLE), 1);
        assert_eq!(claimed("batch-table"), 0);
    }

    #[test]
    fn a_reservation_in_the_log_claims_each_of_its_seats_and_another_none() {
        let reserves = |table: &str, update: &str, bodies: serde_json::Value| {
            let request = json!({
                "TableName": table,
                "Key": { "batchId": {"S": ONE} },
                "UpdateExpression": update,
                "ExpressionAttributeNames": { "#reserved": "reserved" },
                "ExpressionAttributeValues": { ":reservedAdded": {"N": "3"}, ":slotsAdded": {"N": "1"} },
            });
            let reply = json!({ "Attributes": bodies }).to_string();
            let request = request.to_string();
            claimed("UpdateItem", request.as_bytes(), reply.as_bytes(), &[])
        };
        let update = "SET #lastAt = :lastAt ADD #reserved :reservedAdded, #slots :slotsAdded";
        let of_log = json!({ "bodies": {"S": "log:table"} });
        let batch: BatchId = ONE.parse().unwrap();
        assert_eq!(reserves(BATCH_TABLE, update, of_log.clone()), [batch; 3]);
        assert_eq!(reserves(BATCH_TABLE, update, json!({})), []);
        assert_eq!(reserves(LOCK_TABLE, update, of_log.clone()), []);
        assert_eq!(reserves(BATCH_TABLE, "SET #status = :sealed", of_log), []);
    }

    #[test]
    fn releases_claim_nothing() {
        let release = json!({
            "Statement": "UPDATE \"lock-table\" SET \"expiresAt\" = ? WHERE \"messageId\" = ? AND \"batchId\" = ?",
            "Parameters": [{"N": "1"}, {"S": "e1"}, {"S": format!("{ONE}#3")}],
        });
        let request = json!({ "Statements": [release] }).to_string();
        let results = [StatementResult::Applied];
        let request = request.as_bytes();
        assert!(claimed("BatchExecuteStatement", request, b"", &results).is_empty());
        assert!(claimed("UpdateItem", request, b"{}", &[]).is_empty());
    }
}
