//! Finds the batches into which a request claims. The latency of a batch counts from the time of its last claim.

use std::borrow::Cow;

use emulators::dynamodb::capacity::StatementResult;
use protocol::ids::{BatchId, BatchShard};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dynamodb::LOCK_TABLE;

/// The attribute name in a PartiQL claim. The number of `?` before it is the position of the batch among the parameters.
const BATCH_ATTRIBUTE: &str = "'batchId'";

/// Returns the batches of the claims that a successful request wrote. Claims of one batch that follow each other count
/// once. `results` has the results of the statements of a PartiQL batch.
pub(super) fn claimed(
    operation: &str,
    request: &[u8],
    results: &[StatementResult],
) -> Vec<BatchId> {
    match operation {
        "PutItem" => put(request).into_iter().collect(),
        "BatchExecuteStatement" => inserts(request, results).unwrap_or_default(),
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
        item: Item<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Item<'a> {
        #[serde(borrow)]
        batch_id: Option<&'a RawValue>,
    }

    let put: Put<'_> = serde_json::from_slice(request).ok()?;
    (put.table_name == LOCK_TABLE).then(|| batch(put.item.batch_id?))?
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
    let mut batches = Vec::new();
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
        let position = text[..text.find(BATCH_ATTRIBUTE)?].matches('?').count();
        let batch = batch(parameters.get(position)?)?;
        if *result == StatementResult::Applied && batches.last() != Some(&batch) {
            batches.push(batch);
        }
    }
    Some(batches)
}

/// Returns the batch in `{"S":"<batch>#<shard>"}`.
fn batch(value: &RawValue) -> Option<BatchId> {
    #[derive(Deserialize)]
    struct Text<'a> {
        #[serde(rename = "S", borrow)]
        text: Cow<'a, str>,
    }

    let Text { text } = serde_json::from_str(value.get()).ok()?;
    text.parse().ok().map(|shard: BatchShard| shard.batch)
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
    fn a_batch_of_statements_claims_into_the_batches_of_those_that_were_applied() {
        let request =
            json!({ "Statements": [insert(ONE), insert(ONE), insert(OTHER)] }).to_string();
        let claimed = |results: [StatementResult; 3]| {
            let batches = claimed("BatchExecuteStatement", request.as_bytes(), &results);
            Vec::from_iter(batches.iter().map(BatchId::to_string))
        };
        let (applied, failed) = (StatementResult::Applied, StatementResult::ConditionFailed);
        assert_eq!(claimed([applied; 3]), [ONE, OTHER]);
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
