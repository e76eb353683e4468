//! What DynamoDB itself says a request consumed: how it is asked to say so, and how its word is read.
//!
//! Both happen beside every request of a run, so nothing here builds a tree of a body: the question is spliced into the
//! text, and of the answer everything but the account is skipped.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The parameter that asks, by table and index.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ConsumedCapacity.html> (2026-08).
const PARAMETER: &str = "ReturnConsumedCapacity";
const QUESTION: &str = "\"ReturnConsumedCapacity\":\"INDEXES\"";

/// Whether units are for writing or for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For writing.
    Writes,
    /// For reading.
    Reads,
}

/// Returns what an operation's units are for; `None` for one that has none, such as `CreateTable`. PartiQL statements count
/// as writes: those that read are not told apart.
pub fn kind(operation: &str) -> Option<Kind> {
    match operation {
        "PutItem" | "UpdateItem" | "DeleteItem" | "BatchWriteItem" | "TransactWriteItems" => {
            Some(Kind::Writes)
        }
        "BatchExecuteStatement" | "ExecuteStatement" | "ExecuteTransaction" => Some(Kind::Writes),
        "GetItem" | "BatchGetItem" | "Query" | "Scan" | "TransactGetItems" => Some(Kind::Reads),
        _ => None,
    }
}

/// Returns the same request, asking what it consumes; `None` if it asks already, or is not a JSON object.
pub fn asking(body: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Asked {
        #[serde(rename = "ReturnConsumedCapacity")]
        parameter: Option<IgnoredAny>,
    }

    let text = std::str::from_utf8(body).ok()?;
    let fields = text.trim_ascii().strip_prefix('{')?.strip_suffix('}')?;
    // An event's body may hold the word as well: only then is it worth a look at what is whose.
    if text.contains(PARAMETER)
        && serde_json::from_str::<Asked>(text)
            .ok()?
            .parameter
            .is_some()
    {
        return None;
    }
    let comma = if fields.trim_ascii().is_empty() {
        ""
    } else {
        ","
    };
    Some(["{", QUESTION, comma, fields, "}"].concat().into_bytes())
}

/// What a request consumed of one table.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Consumed<'a> {
    /// The table's name.
    #[serde(borrow)]
    pub table_name: Cow<'a, str>,
    /// The sum: of the table, of its indexes, and of the statements of a batch that failed, which are nowhere else.
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
    /// Returns the units of the table itself.
    pub fn table_units(&self) -> f64 {
        // Somebody else asked, and for the sum alone.
        self.table
            .map_or(self.capacity_units, |table| table.capacity_units)
    }

    /// Returns the units of each index.
    pub fn index_units(&self) -> impl Iterator<Item = (&str, f64)> {
        let indexes = self.global_secondary_indexes.iter();
        indexes.map(|(name, units)| (&**name, units.capacity_units))
    }

    /// Returns the units of the statements of a batch whose condition did not hold.
    pub fn failed_units(&self) -> f64 {
        let applied: f64 = self.index_units().map(|(_, units)| units).sum();
        self.capacity_units - self.table_units() - applied
    }
}

/// A successful answer.
#[derive(Debug, Default)]
pub struct Answer<'a> {
    /// By table; empty if nothing is said.
    pub consumed: Vec<Consumed<'a>>,
    /// Of a PartiQL batch, what became of each statement.
    pub statements: Vec<StatementResult>,
}

/// What became of a statement of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementResult {
    /// It was applied.
    Applied,
    /// Its condition did not hold, which costs as a write does.
    ConditionFailed,
    /// Anything else, which costs nothing.
    Refused,
}

/// Reads a successful answer; what cannot be read says nothing.
pub fn read<'a>(operation: &str, body: &'a [u8]) -> Answer<'a> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Any<'a> {
        #[serde(borrow)]
        consumed_capacity: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Batch<'a> {
        #[serde(borrow)]
        consumed_capacity: Option<&'a RawValue>,
        #[serde(default)]
        responses: Vec<Response>,
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
    let (consumed, statements) = if operation == "BatchExecuteStatement" {
        let Ok(answer) = serde_json::from_slice::<Batch<'_>>(body) else {
            return Answer::default();
        };
        let statements = answer.responses.into_iter().map(statement).collect();
        (answer.consumed_capacity, statements)
    } else {
        let answer = serde_json::from_slice::<Any<'_>>(body).ok();
        let consumed = answer.and_then(|answer| answer.consumed_capacity);
        (consumed, Vec::new())
    };
    let consumed = match consumed.map(RawValue::get) {
        // Requests that may name several tables have a list.
        Some(list) if list.starts_with('[') => serde_json::from_str(list).unwrap_or_default(),
        Some(one) => serde_json::from_str(one).into_iter().collect(),
        None => Vec::new(),
    };
    Answer {
        consumed,
        statements,
    }
}

/// What a request consumed of one table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableUnits {
    /// Of its items, those of failed conditions included.
    pub items: f64,
    /// Of its indexes.
    pub index: f64,
}

/// Returns what a successful answer says that the request consumed of this table; `None` where it says nothing.
pub fn consumed_by(operation: &str, answer: &[u8], table: &str) -> Option<TableUnits> {
    let answer = read(operation, answer);
    let consumed = answer
        .consumed
        .iter()
        .find(|consumed| consumed.table_name == table)?;
    Some(TableUnits {
        items: consumed.table_units() + consumed.failed_units(),
        index: consumed.index_units().map(|(_, units)| units).sum(),
    })
}

/// Returns the table of a request for one item whose condition did not hold: that is an error, and no error says what it
/// cost. `None` for any other error.
pub fn condition_failed<'a>(request: &'a [u8], answer: &[u8]) -> Option<Cow<'a, str>> {
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

    let failure: Failure = serde_json::from_slice(answer).ok()?;
    let failed = failure.kind.ends_with("ConditionalCheckFailedException");
    let named: Named<'a> = failed.then(|| serde_json::from_slice(request).ok())??;
    Some(named.table_name)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_question_is_added_wherever_it_is_not_asked_yet() {
        let mentions = r#"{"Item":{"message":{"S":"{\"ReturnConsumedCapacity\":\"NONE\"}"}}}"#;
        for body in [
            "{}",
            " { \n } \r\n",
            r#"{"TableName":"t"}"#,
            "\n\t{ \"TableName\" : \"t\" ,\n \"Key\" : { } }\n",
            r#"{"Statements":[{"Statement":"INSERT","Parameters":[{"S":"}"}]}]}"#,
            mentions,
        ] {
            let asked: Value = serde_json::from_slice(&asking(body.as_bytes()).unwrap()).unwrap();
            let mut expected: Value = serde_json::from_str(body).unwrap();
            expected["ReturnConsumedCapacity"] = "INDEXES".into();
            assert_eq!(asked, expected, "{body}");
        }
    }

    #[test]
    fn a_request_that_asks_already_is_left_alone_and_so_is_what_is_no_object() {
        for body in [
            r#"{"ReturnConsumedCapacity":"TOTAL","TableName":"t"}"#,
            r#"{"TableName":"t", "ReturnConsumedCapacity" : "NONE" }"#,
            "",
            "[]",
            "{",
            "null",
        ] {
            assert_eq!(asking(body.as_bytes()), None, "{body}");
        }
        assert_eq!(asking(b"{\"TableName\":\"\xff\"}"), None);
    }

    #[test]
    fn units_are_told_apart_by_table_index_and_failure() {
        // The word within an item is none of the service's.
        let answer = r#"{ "Attributes" : {"ConsumedCapacity":{"S":"\"ConsumedCapacity\":1"}},
            "ConsumedCapacity" : {"TableName":"lock-table","CapacityUnits":9.5,"Table":{"CapacityUnits":3.0},
            "GlobalSecondaryIndexes":{"a":{"CapacityUnits":1.0},"b":{"CapacityUnits":2.5}}} }"#;
        let read = read("UpdateItem", answer.as_bytes());
        let [consumed] = &*read.consumed else {
            panic!("{read:?}");
        };
        assert_eq!(consumed.table_name, "lock-table");
        assert_eq!(consumed.table_units(), 3.0);
        assert_eq!(
            Vec::from_iter(consumed.index_units()),
            [("a", 1.0), ("b", 2.5)]
        );
        assert_eq!(consumed.failed_units(), 3.0);
    }

    #[test]
    fn items_of_a_table_pay_for_failed_conditions_too() {
        let answer = br#"{"ConsumedCapacity":[{"TableName":"t","CapacityUnits":9.0,"Table":{"CapacityUnits":3.0},
            "GlobalSecondaryIndexes":{"a":{"CapacityUnits":2.0},"b":{"CapacityUnits":1.0}}}]}"#;
        let units = TableUnits {
            items: 6.0,
            index: 3.0,
        };
        let consumed = |table| consumed_by("BatchExecuteStatement", answer, table);
        assert_eq!(consumed("t"), Some(units));
        assert_eq!(consumed("u"), None);
    }

    #[test]
    fn a_sum_alone_is_the_tables() {
        let answer = br#"{"ConsumedCapacity":[{"TableName":"t","CapacityUnits":2.0}]}"#;
        let read = read("BatchGetItem", answer);
        assert_eq!(read.consumed[0].table_units(), 2.0);
        assert_eq!(read.consumed[0].failed_units(), 0.0);
    }

    #[test]
    fn members_of_a_batch_are_told_apart_by_what_they_cost() {
        let answer = br#"{"Responses":[{"TableName":"t"},{"Error":{"Code":"DuplicateItem","Message":"m"}},
            {"Error":{"Code":"ConditionalCheckFailed","Item":{"a":{"S":"b"}}}},{"Error":{"Code":"ThrottlingError"}},
            {"Error":{"Message":"?"}}]}"#;
        let read = read("BatchExecuteStatement", answer);
        assert_eq!(read.consumed, []);
        let expected = [
            StatementResult::Applied,
            StatementResult::ConditionFailed,
            StatementResult::ConditionFailed,
            StatementResult::Refused,
            StatementResult::Refused,
        ];
        assert_eq!(read.statements, expected);
    }

    #[test]
    fn an_answer_that_cannot_be_read_says_nothing() {
        for answer in ["", "<html>", "[]", r#"{"ConsumedCapacity":"?"}"#] {
            for operation in ["PutItem", "BatchExecuteStatement"] {
                let read = read(operation, answer.as_bytes());
                assert!(
                    read.consumed.is_empty() && read.statements.is_empty(),
                    "{answer}"
                );
            }
        }
    }

    #[test]
    fn only_a_failed_condition_costs_what_its_error_does_not_say() {
        let request = br#"{"TableName":"t","Key":{}}"#;
        let failed = |kind: &str| {
            let answer =
                format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{kind}","message":"m"}}"#);
            condition_failed(request, answer.as_bytes())
        };
        assert_eq!(
            failed("ConditionalCheckFailedException").as_deref(),
            Some("t")
        );
        assert_eq!(failed("ProvisionedThroughputExceededException"), None);
        assert_eq!(condition_failed(request, b"<html>"), None);
    }
}
