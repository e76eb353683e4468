//! Decides which records of a batch are deleted and which return to the queue, by Lambda's rules for SQS event source
//! mappings.
//!
//! The decision is a pure function of the result of the invocation. A record that returns becomes visible when its
//! visibility timeout ends, which the mapping never shortens.
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html>

use std::collections::BTreeSet;

use serde_json::Value;

use super::invocation::{InvokeError, InvokeResponse};

/// The decision for the records of one batch, as positions in the batch. Every position is in exactly one of the lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchOutcome {
    /// Records to delete from the queue, ascending.
    pub to_delete: Vec<usize>,
    /// Records to leave in the queue, ascending. They become visible again.
    pub to_return: Vec<usize>,
    /// The rule that applied.
    pub reason: OutcomeReason,
}

/// The rule that applied to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutcomeReason {
    /// The function responded and reported no failure: all records are deleted.
    Succeeded,
    /// The function reported some records: these return.
    ItemsReported,
    /// The response is not JSON: all records return.
    ResponseNotJson,
    /// The response, or `batchItemFailures` in it, has another type than documented: all records return.
    ResponseMalformed,
    /// The `itemIdentifier` of a reported item is missing, null, empty or not a string: all records return.
    IdentifierMissing,
    /// A reported identifier is not in the batch: all records return.
    IdentifierUnknown,
    /// The handler returned an error or panicked: all records return.
    FunctionError,
    /// The environment could not be initialised: all records return.
    InitFailed,
    /// The invocation reached its deadline: all records return.
    TimedOut,
    /// The process exited during the invocation: all records return.
    Crashed,
    /// The payload was refused for its size: all records return.
    PayloadTooLarge,
    /// The function was shut down: all records return.
    ShutDown,
}

impl OutcomeReason {
    /// Returns a stable name in snake case, for reports and logs.
    pub fn name(self) -> &'static str {
        match self {
            OutcomeReason::Succeeded => "succeeded",
            OutcomeReason::ItemsReported => "items_reported",
            OutcomeReason::ResponseNotJson => "response_not_json",
            OutcomeReason::ResponseMalformed => "response_malformed",
            OutcomeReason::IdentifierMissing => "identifier_missing",
            OutcomeReason::IdentifierUnknown => "identifier_unknown",
            OutcomeReason::FunctionError => "function_error",
            OutcomeReason::InitFailed => "init_failed",
            OutcomeReason::TimedOut => "timed_out",
            OutcomeReason::Crashed => "crashed",
            OutcomeReason::PayloadTooLarge => "payload_too_large",
            OutcomeReason::ShutDown => "shut_down",
        }
    }
}

/// Returns which records of a batch are deleted, given the result of its invocation.
///
/// `batch_ids` are the message ids in the order of the event. A message that is in the batch twice has two positions; if its
/// id is reported, both return.
///
/// AWS does not document what a response of valid JSON means that is neither null nor an object, such as `"ok"` or `[]`. Here
/// the batch returns, so that the bug of the handler shows instead of records being deleted that it meant to report.
pub fn partial_batch_response<Id: AsRef<str>>(
    response: &Result<InvokeResponse, InvokeError>,
    batch_ids: &[Id],
    report_batch_item_failures: bool,
) -> BatchOutcome {
    let count = batch_ids.len();
    let reported = reported_ids(response, report_batch_item_failures)
        .and_then(|ids| returned_positions(&ids, batch_ids));
    let (to_return, reason) = match reported {
        Ok(to_return) if to_return.is_empty() => (to_return, OutcomeReason::Succeeded),
        Ok(to_return) => (to_return, OutcomeReason::ItemsReported),
        Err(reason) => ((0..count).collect(), reason),
    };
    let to_delete = (0..count).filter(|position| !to_return.contains(position));
    BatchOutcome {
        to_delete: to_delete.collect(),
        to_return: to_return.into_iter().collect(),
        reason,
    }
}

/// Returns the identifiers that a response reports.
///
/// # Errors
/// The reason for which all records return.
fn reported_ids(
    response: &Result<InvokeResponse, InvokeError>,
    report_batch_item_failures: bool,
) -> Result<BTreeSet<String>, OutcomeReason> {
    let body = match response {
        Ok(InvokeResponse::Ok(body)) => body,
        Ok(InvokeResponse::FunctionError { .. }) => return Err(OutcomeReason::FunctionError),
        Err(InvokeError::InitFailed { .. }) => return Err(OutcomeReason::InitFailed),
        Err(InvokeError::Timeout { .. }) => return Err(OutcomeReason::TimedOut),
        Err(InvokeError::Crashed { .. }) => return Err(OutcomeReason::Crashed),
        Err(InvokeError::PayloadTooLarge { .. }) => return Err(OutcomeReason::PayloadTooLarge),
        Err(InvokeError::ShutDown) => return Err(OutcomeReason::ShutDown),
    };
    // Without `ReportBatchItemFailures`, the content of the response has no meaning.
    if !report_batch_item_failures || body.is_empty() {
        return Ok(BTreeSet::new());
    }
    let parsed: Value = serde_json::from_slice(body).map_err(|_| OutcomeReason::ResponseNotJson)?;
    let failures = match parsed {
        Value::Object(mut fields) => fields.remove("batchItemFailures").unwrap_or_default(),
        Value::Null => Value::Null,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(OutcomeReason::ResponseMalformed);
        }
    };
    let failures = match failures {
        Value::Array(failures) => failures,
        Value::Null => Vec::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            return Err(OutcomeReason::ResponseMalformed);
        }
    };
    let ids = failures.iter().map(|failure| {
        let id = failure["itemIdentifier"].as_str();
        let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
        id.ok_or(OutcomeReason::IdentifierMissing)
    });
    ids.collect()
}

/// Returns the positions of the reported identifiers in the batch.
///
/// # Errors
/// The batch does not have one of them.
fn returned_positions<Id: AsRef<str>>(
    reported: &BTreeSet<String>,
    batch_ids: &[Id],
) -> Result<BTreeSet<usize>, OutcomeReason> {
    let (mut found, mut positions) = (BTreeSet::new(), BTreeSet::new());
    for (position, id) in batch_ids.iter().enumerate() {
        let id: &str = id.as_ref();
        if reported.contains(id) {
            found.insert(id);
            positions.insert(position);
        }
    }
    match found.len() == reported.len() {
        true => Ok(positions),
        false => Err(OutcomeReason::IdentifierUnknown),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    const BATCH: [&str; 3] = ["a", "b", "c"];

    /// Returns the decision for the batch `a`, `b`, `c` after a response, with `ReportBatchItemFailures`.
    fn outcome(body: &str) -> BatchOutcome {
        partial_batch_response(&ok(body), &BATCH, true)
    }

    fn ok(body: &str) -> Result<InvokeResponse, InvokeError> {
        Ok(InvokeResponse::Ok(body.to_owned().into()))
    }

    fn expected(to_delete: &[usize], to_return: &[usize], reason: OutcomeReason) -> BatchOutcome {
        BatchOutcome {
            to_delete: to_delete.to_vec(),
            to_return: to_return.to_vec(),
            reason,
        }
    }

    #[test]
    fn a_response_that_reports_nothing_deletes_the_batch() {
        let deleted = expected(&[0, 1, 2], &[], OutcomeReason::Succeeded);
        for body in [
            "",
            "null",
            "{}",
            r#"{"batchItemFailures":null}"#,
            r#"{"batchItemFailures":[]}"#,
            r#"{"other":1}"#,
        ] {
            assert_eq!(outcome(body), deleted, "{body:?}");
        }
    }

    #[test]
    fn reported_records_return_and_the_others_are_deleted() {
        let cases: [(&[&str], &[usize], &[usize]); 4] = [
            (&["b"], &[0, 2], &[1]),
            (&["c", "a"], &[1], &[0, 2]),
            (&["a", "a"], &[1, 2], &[0]),
            (&["a", "b", "c"], &[], &[0, 1, 2]),
        ];
        for (ids, to_delete, to_return) in cases {
            let items = ids.iter().map(|id| json!({ "itemIdentifier": id, "x": 1 }));
            let body = json!({ "batchItemFailures": Value::from_iter(items) });
            let expected = expected(to_delete, to_return, OutcomeReason::ItemsReported);
            assert_eq!(outcome(&body.to_string()), expected, "{body}");
        }
    }

    #[test]
    fn after_an_invalid_response_the_whole_batch_returns() {
        let cases: [(OutcomeReason, &[&str]); 4] = [
            (
                OutcomeReason::ResponseNotJson,
                &[
                    " ",
                    "not json",
                    r#"{"batchItemFailures":[{"itemIdentifier":"a"}"#,
                    r#"{"batchItemFailures":[]} trailing"#,
                    "\u{feff}{}",
                ],
            ),
            (
                OutcomeReason::ResponseMalformed,
                &[
                    r#""ok""#,
                    "[]",
                    "true",
                    "7",
                    r#"{"batchItemFailures":"a"}"#,
                    r#"{"batchItemFailures":{"itemIdentifier":"a"}}"#,
                ],
            ),
            (
                OutcomeReason::IdentifierMissing,
                &[
                    r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
                    r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#,
                    r#"{"batchItemFailures":[{"itemIdentifier":7}]}"#,
                    r#"{"batchItemFailures":[{}]}"#,
                    r#"{"batchItemFailures":[{"ItemIdentifier":"a"}]}"#,
                    r#"{"batchItemFailures":["a"]}"#,
                    r#"{"batchItemFailures":[null]}"#,
                    r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":""}]}"#,
                ],
            ),
            (
                OutcomeReason::IdentifierUnknown,
                &[
                    r#"{"batchItemFailures":[{"itemIdentifier":"d"}]}"#,
                    r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"A"}]}"#,
                ],
            ),
        ];
        for (reason, bodies) in cases {
            for body in bodies {
                assert_eq!(outcome(body), expected(&[], &[0, 1, 2], reason), "{body:?}");
            }
        }
    }

    #[test]
    fn after_a_failed_invocation_the_whole_batch_returns_with_and_without_reporting() {
        let (error_type, message) = (String::from("E"), String::from("m"));
        let function_error = InvokeResponse::FunctionError {
            error_type: error_type.clone(),
            message: message.clone(),
        };
        let init_failed = InvokeError::InitFailed {
            error_type,
            message,
        };
        let after = Duration::from_secs(3);
        let (environment, exit) = (1, None);
        let (size_bytes, limit_bytes) = (2, 1);
        let too_large = InvokeError::PayloadTooLarge {
            size_bytes,
            limit_bytes,
        };
        let crashed = InvokeError::Crashed { environment, exit };
        for (response, reason) in [
            (Ok(function_error), OutcomeReason::FunctionError),
            (Err(init_failed), OutcomeReason::InitFailed),
            (Err(InvokeError::Timeout { after }), OutcomeReason::TimedOut),
            (Err(crashed), OutcomeReason::Crashed),
            (Err(too_large), OutcomeReason::PayloadTooLarge),
            (Err(InvokeError::ShutDown), OutcomeReason::ShutDown),
        ] {
            for report in [true, false] {
                let outcome = partial_batch_response(&response, &BATCH, report);
                assert_eq!(outcome, expected(&[], &[0, 1, 2], reason));
            }
        }
    }

    #[test]
    fn without_reporting_the_content_of_the_response_is_ignored() {
        for body in [
            "",
            "not json",
            r#"{"batchItemFailures":[{"itemIdentifier":"a"}]}"#,
            r#""ok""#,
        ] {
            let outcome = partial_batch_response(&ok(body), &BATCH, false);
            assert_eq!(outcome.to_delete, [0, 1, 2], "{body:?}");
        }
    }

    #[test]
    fn a_reported_message_that_is_twice_in_the_batch_returns_twice() {
        let reported = ok(r#"{"batchItemFailures":[{"itemIdentifier":"a"}]}"#);
        let outcome = partial_batch_response(&reported, &["a", "b", "a"], true);
        let expected = expected(&[1], &[0, 2], OutcomeReason::ItemsReported);
        assert_eq!(outcome, expected);
    }
}
