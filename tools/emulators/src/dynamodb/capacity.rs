//! The capacity units that DynamoDB reports for a request: adds the parameter that requests them, and reads them from the
//! reply.
//!
//! This code runs for every request, so it builds no JSON tree: it inserts the parameter into the text of the request, and
//! skips all of the reply but the report.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The request parameter that makes DynamoDB report capacity by table and index.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ConsumedCapacity.html> (2026-08).
const PARAMETER: &str = "ReturnConsumedCapacity";
const PARAMETER_WITH_VALUE: &str = "\"ReturnConsumedCapacity\":\"INDEXES\"";

/// Whether capacity units are for writing or for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityKind {
    /// Write capacity units.
    Writes,
    /// Read capacity units.
    Reads,
}

/// Returns the kind of units an operation consumes; `None` if it consumes none, as `CreateTable`. All PartiQL operations
/// count as writes, even if their statements only read.
pub fn capacity_kind(operation: &str) -> Option<CapacityKind> {
    match operation {
        "PutItem" | "UpdateItem" | "DeleteItem" | "BatchWriteItem" | "TransactWriteItems" => {
            Some(CapacityKind::Writes)
        }
        "BatchExecuteStatement" | "ExecuteStatement" | "ExecuteTransaction" => {
            Some(CapacityKind::Writes)
        }
        "GetItem" | "BatchGetItem" | "Query" | "Scan" | "TransactGetItems" => {
            Some(CapacityKind::Reads)
        }
        _ => None,
    }
}

/// Returns the request body with the parameter `ReturnConsumedCapacity` added; `None` if it has the parameter already or is
/// not a JSON object.
pub fn with_capacity_requested(body: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Existing {
        #[serde(rename = "ReturnConsumedCapacity")]
        parameter: Option<IgnoredAny>,
    }

    let text = std::str::from_utf8(body).ok()?;
    let fields = text.trim_ascii().strip_prefix('{')?.strip_suffix('}')?;
    // A stored text may contain the name of the parameter too, so a match is checked by parsing; most requests have none.
    if text.contains(PARAMETER) {
        let existing: Existing = serde_json::from_str(text).ok()?;
        if existing.parameter.is_some() {
            return None;
        }
    }
    let comma = match fields.trim_ascii().is_empty() {
        true => "",
        false => ",",
    };
    let parts = ["{", PARAMETER_WITH_VALUE, comma, fields, "}"];
    Some(parts.concat().into_bytes())
}

/// The capacity report of a reply for one table.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Consumed<'a> {
    /// Name of the table.
    #[serde(borrow)]
    pub table_name: Cow<'a, str>,
    /// Sum of the units of the table, of its indexes, and of the failed statements of a batch. No other field has the units
    /// of failed statements.
    pub capacity_units: f64,
    table: Option<Units>,
    #[serde(borrow, default)]
    global_secondary_indexes: BTreeMap<Cow<'a, str>, Units>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Units {
    capacity_units: f64,
}

impl Consumed<'_> {
    /// Returns the units of the items of the table.
    pub fn table_units(&self) -> f64 {
        // The client requested `TOTAL` itself, which reports the sum alone.
        let table = self.table.map(|table| table.capacity_units);
        table.unwrap_or(self.capacity_units)
    }

    /// Returns each index by name, with its units.
    pub fn index_units(&self) -> impl Iterator<Item = (&str, f64)> {
        let indexes = self.global_secondary_indexes.iter();
        indexes.map(|(name, units)| (&**name, units.capacity_units))
    }

    /// Returns the units of those statements of a batch whose condition did not hold.
    pub fn failed_units(&self) -> f64 {
        let applied: f64 = self.index_units().map(|(_, units)| units).sum();
        self.capacity_units - self.table_units() - applied
    }
}

/// The parts of a successful reply that tell what the request cost.
#[derive(Debug, Default)]
pub struct ParsedReply<'a> {
    /// The capacity report of each table; empty if the reply has none.
    pub consumed: Vec<Consumed<'a>>,
    /// The result of each statement of a PartiQL batch; empty for other operations.
    pub statements: Vec<StatementResult>,
}

/// The result of one statement of a PartiQL batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementResult {
    /// The statement was applied.
    Applied,
    /// Its condition did not hold. DynamoDB charges that as a write.
    ConditionFailed,
    /// It failed for another reason. DynamoDB charges nothing.
    Refused,
}

/// Parses the body of a successful reply. A body that cannot be parsed gives an empty result.
pub fn parse_reply<'a>(operation: &str, body: &'a [u8]) -> ParsedReply<'a> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Reply<'a> {
        #[serde(borrow)]
        consumed_capacity: Option<&'a RawValue>,
        #[serde(borrow)]
        responses: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Response {
        error: Option<StatementError>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct StatementError {
        code: Option<String>,
    }

    let statement = |response: Response| match response.error.map(|error| error.code) {
        None => StatementResult::Applied,
        Some(Some(code)) if ["ConditionalCheckFailed", "DuplicateItem"].contains(&&*code) => {
            StatementResult::ConditionFailed
        }
        Some(_) => StatementResult::Refused,
    };
    let Ok(reply) = serde_json::from_slice::<Reply<'a>>(body) else {
        return ParsedReply::default();
    };
    let responses: Result<Vec<Response>, _> = match reply.responses {
        Some(list) if operation == "BatchExecuteStatement" => serde_json::from_str(list.get()),
        // Other operations have responses of other types.
        Some(_) | None => Ok(Vec::new()),
    };
    let Ok(responses) = responses else {
        return ParsedReply::default();
    };
    let consumed = match reply.consumed_capacity.map(RawValue::get) {
        // Operations that may name several tables report a list.
        Some(list) if list.starts_with('[') => serde_json::from_str(list).unwrap_or_default(),
        Some(one) => serde_json::from_str(one).into_iter().collect(),
        None => Vec::new(),
    };
    ParsedReply {
        consumed,
        statements: responses.into_iter().map(statement).collect(),
    }
}

/// Write or read units that a request consumed of one table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableUnits {
    /// Units of the items, including those of failed conditions.
    pub items: f64,
    /// Units of all indexes.
    pub index: f64,
}

/// Returns the units that a successful reply reports for `table`; `None` if it reports none.
pub fn consumed_by(operation: &str, reply: &[u8], table: &str) -> Option<TableUnits> {
    let reply = parse_reply(operation, reply);
    let mut all = reply.consumed.iter();
    let consumed = all.find(|consumed| consumed.table_name == table)?;
    Some(TableUnits {
        items: consumed.table_units() + consumed.failed_units(),
        index: consumed.index_units().map(|(_, units)| units).sum(),
    })
}

/// Returns the table of a request for one item whose condition did not hold; `None` if `reply` is another error.
///
/// DynamoDB charges such a request as a write, but its error reply does not report the units.
pub fn failed_condition_table<'a>(request: &'a [u8], reply: &[u8]) -> Option<Cow<'a, str>> {
    #[derive(Deserialize)]
    struct Failure {
        #[serde(rename = "__type")]
        kind: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Named<'a> {
        #[serde(borrow)]
        table_name: Cow<'a, str>,
    }

    let failure: Failure = serde_json::from_slice(reply).ok()?;
    let failed = failure.kind.ends_with("ConditionalCheckFailedException");
    let named: Named<'a> = failed.then(|| serde_json::from_slice(request).ok())??;
    Some(named.table_name)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_parameter_is_added_where_it_is_missing() {
        let mentions = r#"{"Item":{"message":{"S":"{\"ReturnConsumedCapacity\":\"NONE\"}"}}}"#;
        for body in [
            "{}",
            " { \n } \r\n",
            r#"{"TableName":"t"}"#,
            "\n\t{ \"TableName\" : \"t\" ,\n \"Key\" : { } }\n",
            r#"{"Statements":[{"Statement":"INSERT","Parameters":[{"S":"}"}]}]}"#,
            mentions,
        ] {
            let asked = with_capacity_requested(body.as_bytes()).unwrap();
            let asked: Value = serde_json::from_slice(&asked).unwrap();
            let mut expected: Value = serde_json::from_str(body).unwrap();
            expected["ReturnConsumedCapacity"] = "INDEXES".into();
            assert_eq!(asked, expected, "{body}");
        }
    }

    #[test]
    fn a_request_with_the_parameter_or_without_an_object_is_left_alone() {
        for body in [
            r#"{"ReturnConsumedCapacity":"TOTAL","TableName":"t"}"#,
            r#"{"TableName":"t", "ReturnConsumedCapacity" : "NONE" }"#,
            "",
            "[]",
            "{",
            "null",
        ] {
            assert_eq!(with_capacity_requested(body.as_bytes()), None, "{body}");
        }
        assert_eq!(with_capacity_requested(b"{\"TableName\":\"\xff\"}"), None);
    }

    #[test]
    fn units_are_split_by_table_index_and_failure() {
        // A field of that name within an item is not the report.
        let reply = r#"{ "Attributes" : {"ConsumedCapacity":{"S":"\"ConsumedCapacity\":1"}},
            "ConsumedCapacity" : {"TableName":"lock-table","CapacityUnits":9.5,"Table":{"CapacityUnits":3.0},
            "GlobalSecondaryIndexes":{"a":{"CapacityUnits":1.0},"b":{"CapacityUnits":2.5}}} }"#;
        let parsed = parse_reply("UpdateItem", reply.as_bytes());
        let [consumed] = &*parsed.consumed else {
            panic!("{parsed:?}");
        };
        assert_eq!(consumed.table_name, "lock-table");
        assert_eq!(consumed.table_units(), 3.0);
        let indexes = Vec::from_iter(consumed.index_units());
        assert_eq!(indexes, [("a", 1.0), ("b", 2.5)]);
        assert_eq!(consumed.failed_units(), 3.0);
    }

    #[test]
    fn items_of_a_table_pay_for_failed_conditions_too() {
        let reply = br#"{"ConsumedCapacity":[{"TableName":"t","CapacityUnits":9.0,"Table":{"CapacityUnits":3.0},
            "GlobalSecondaryIndexes":{"a":{"CapacityUnits":2.0},"b":{"CapacityUnits":1.0}}}]}"#;
        let units = TableUnits {
            items: 6.0,
            index: 3.0,
        };
        let consumed = |table| consumed_by("BatchExecuteStatement", reply, table);
        assert_eq!(consumed("t"), Some(units));
        assert_eq!(consumed("u"), None);
    }

    #[test]
    fn a_report_of_the_sum_alone_counts_for_the_table() {
        let reply = br#"{"ConsumedCapacity":[{"TableName":"t","CapacityUnits":2.0}]}"#;
        let parsed = parse_reply("BatchGetItem", reply);
        assert_eq!(parsed.consumed[0].table_units(), 2.0);
        assert_eq!(parsed.consumed[0].failed_units(), 0.0);
    }

    #[test]
    fn statements_of_a_batch_are_split_by_cost() {
        let reply = br#"{"Responses":[{"TableName":"t"},{"Error":{"Code":"DuplicateItem","Message":"m"}},
            {"Error":{"Code":"ConditionalCheckFailed","Item":{"a":{"S":"b"}}}},{"Error":{"Code":"ThrottlingError"}},
            {"Error":{"Message":"?"}}]}"#;
        let parsed = parse_reply("BatchExecuteStatement", reply);
        assert_eq!(parsed.consumed, []);
        let expected = [
            StatementResult::Applied,
            StatementResult::ConditionFailed,
            StatementResult::ConditionFailed,
            StatementResult::Refused,
            StatementResult::Refused,
        ];
        assert_eq!(parsed.statements, expected);
    }

    #[test]
    fn a_reply_that_cannot_be_parsed_reports_nothing() {
        for reply in ["", "<html>", "[]", r#"{"ConsumedCapacity":"?"}"#] {
            for operation in ["PutItem", "BatchExecuteStatement"] {
                let parsed = parse_reply(operation, reply.as_bytes());
                assert_eq!(parsed.consumed, [], "{reply}");
                assert_eq!(parsed.statements, [], "{reply}");
            }
        }
        let report = r#"[{"TableName":"t","CapacityUnits":1.0}]"#;
        let reply = format!(r#"{{"ConsumedCapacity":{report},"Responses":{{}}}}"#);
        let consumed = |operation| parse_reply(operation, reply.as_bytes()).consumed.len();
        assert_eq!(consumed("BatchExecuteStatement"), 0);
        assert_eq!(consumed("BatchGetItem"), 1);
    }

    #[test]
    fn only_a_failed_condition_is_charged_without_a_report() {
        let request = br#"{"TableName":"t","Key":{}}"#;
        let failed = |kind: &str| {
            let kind = format!("com.amazonaws.dynamodb.v20120810#{kind}");
            let reply = format!(r#"{{"__type":"{kind}","message":"m"}}"#);
            failed_condition_table(request, reply.as_bytes())
        };
        let table = failed("ConditionalCheckFailedException");
        assert_eq!(table.as_deref(), Some("t"));
        assert_eq!(failed("ProvisionedThroughputExceededException"), None);
        assert_eq!(failed_condition_table(request, b"<html>"), None);
    }
}
