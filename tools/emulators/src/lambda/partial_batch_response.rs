//! Decides which records of a batch are deleted and which return to the queue, by Lambda's rules for SQS event source
//! mappings.
//!
//! The decision is a pure function of the result of the invocation. A record that returns becomes visible when its
//! visibility timeout ends, which the mapping never shortens.
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html>

use std::collections::BTreeMap;

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
    let body = match response {
        Ok(InvokeResponse::Ok(body)) => body,
        Ok(InvokeResponse::FunctionError { .. }) => {
            return all_return(batch_ids, OutcomeReason::FunctionError);
        }
        Err(InvokeError::InitFailed { .. }) => {
            return all_return(batch_ids, OutcomeReason::InitFailed);
        }
        Err(InvokeError::Timeout { .. }) => return all_return(batch_ids, OutcomeReason::TimedOut),
        Err(InvokeError::Crashed { .. }) => return all_return(batch_ids, OutcomeReason::Crashed),
        Err(InvokeError::PayloadTooLarge { .. }) => {
            return all_return(batch_ids, OutcomeReason::PayloadTooLarge);
        }
        Err(InvokeError::ShutDown) => return all_return(batch_ids, OutcomeReason::ShutDown),
    };
    // Without `ReportBatchItemFailures`, the content of the response has no meaning.
    if !report_batch_item_failures || body.is_empty() {
        return all_deleted(batch_ids);
    }
    let failures = match serde_json::from_slice(body) {
        Err(_) => return all_return(batch_ids, OutcomeReason::ResponseNotJson),
        Ok(Value::Null) => return all_deleted(batch_ids),
        Ok(Value::Object(mut fields)) => match fields.remove("batchItemFailures") {
            None | Some(Value::Null) => return all_deleted(batch_ids),
            Some(Value::Array(failures)) => failures,
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                return all_return(batch_ids, OutcomeReason::ResponseMalformed);
            }
        },
        Ok(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            return all_return(batch_ids, OutcomeReason::ResponseMalformed);
        }
    };
    by_reported(&failures, batch_ids)
}

/// Returns the decision for a list of reported items.
fn by_reported<Id: AsRef<str>>(failures: &[Value], batch_ids: &[Id]) -> BatchOutcome {
    if failures.is_empty() {
        return all_deleted(batch_ids);
    }
    // Each reported id, and whether the batch has it.
    let mut reported: BTreeMap<&str, bool> = BTreeMap::new();
    for failure in failures {
        match failure.get("itemIdentifier").and_then(Value::as_str) {
            None | Some("") => return all_return(batch_ids, OutcomeReason::IdentifierMissing),
            Some(id) => reported.insert(id, false),
        };
    }
    let mut outcome = BatchOutcome {
        to_delete: Vec::new(),
        to_return: Vec::new(),
        reason: OutcomeReason::ItemsReported,
    };
    for (position, id) in batch_ids.iter().enumerate() {
        match reported.get_mut(id.as_ref()) {
            Some(in_batch) => {
                *in_batch = true;
                outcome.to_return.push(position);
            }
            None => outcome.to_delete.push(position),
        }
    }
    if reported.values().any(|in_batch| !in_batch) {
        return all_return(batch_ids, OutcomeReason::IdentifierUnknown);
    }
    outcome
}

fn all_deleted<Id>(batch_ids: &[Id]) -> BatchOutcome {
    BatchOutcome {
        to_delete: (0..batch_ids.len()).collect(),
        to_return: Vec::new(),
        reason: OutcomeReason::Succeeded,
    }
}

fn all_return<Id>(batch_ids: &[Id], reason: OutcomeReason) -> BatchOutcome {
    BatchOutcome {
        to_delete: Vec::new(),
        to_return: (0..batch_ids.len()).collect(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BATCH: [&str; 3] = ["a", "b", "c"];

    #[test]
    fn a_response_that_reports_nothing_deletes_the_batch() {
        for body in [
            "",
            "null",
            "{}",
            r#"{"batchItemFailures":null}"#,
            r#"{"batchItemFailures":[]}"#,
            r#"{"other":1}"#,
        ] {
            let outcome = partial_batch_response(&ok(body), &BATCH, true);
            assert_eq!(
                outcome,
                BatchOutcome {
                    to_delete: vec![0, 1, 2],
                    to_return: vec![],
                    reason: OutcomeReason::Succeeded
                },
                "{body:?}"
            );
        }
    }

    #[test]
    fn reported_records_return_and_the_others_are_deleted() {
        let cases: [(&str, &[usize], &[usize]); 4] = [
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"b"}]}"#,
                &[0, 2],
                &[1],
            ),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"c"},{"itemIdentifier":"a"}]}"#,
                &[1],
                &[0, 2],
            ),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"a"}]}"#,
                &[1, 2],
                &[0],
            ),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"b"},{"itemIdentifier":"c","x":1}]}"#,
                &[],
                &[0, 1, 2],
            ),
        ];
        for (body, to_delete, to_return) in cases {
            let outcome = partial_batch_response(&ok(body), &BATCH, true);
            assert_eq!(
                (&*outcome.to_delete, &*outcome.to_return),
                (to_delete, to_return),
                "{body}"
            );
            assert_eq!(outcome.reason, OutcomeReason::ItemsReported, "{body}");
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
            let returned = BatchOutcome {
                to_delete: vec![],
                to_return: vec![0, 1, 2],
                reason,
            };
            for body in bodies {
                let outcome = partial_batch_response(&ok(body), &BATCH, true);
                assert_eq!(outcome, returned, "{body:?}");
            }
        }
    }

    #[test]
    fn after_a_failed_invocation_the_whole_batch_returns_with_and_without_reporting() {
        let cases = [
            (
                Ok(InvokeResponse::FunctionError {
                    error_type: "E".into(),
                    message: "m".into(),
                }),
                OutcomeReason::FunctionError,
            ),
            (
                Err(InvokeError::InitFailed {
                    error_type: "E".into(),
                    message: "m".into(),
                }),
                OutcomeReason::InitFailed,
            ),
            (
                Err(InvokeError::Timeout {
                    after: Duration::from_secs(3),
                }),
                OutcomeReason::TimedOut,
            ),
            (
                Err(InvokeError::Crashed {
                    environment: 1,
                    exit: None,
                }),
                OutcomeReason::Crashed,
            ),
            (
                Err(InvokeError::PayloadTooLarge {
                    size_bytes: 2,
                    limit_bytes: 1,
                }),
                OutcomeReason::PayloadTooLarge,
            ),
            (Err(InvokeError::ShutDown), OutcomeReason::ShutDown),
        ];
        for (response, reason) in cases {
            for report in [true, false] {
                let outcome = partial_batch_response(&response, &BATCH, report);
                assert_eq!(
                    outcome,
                    BatchOutcome {
                        to_delete: vec![],
                        to_return: vec![0, 1, 2],
                        reason
                    }
                );
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
            assert_eq!(
                partial_batch_response(&ok(body), &BATCH, false).to_delete,
                [0, 1, 2],
                "{body:?}"
            );
        }
    }

    #[test]
    fn a_reported_message_that_is_twice_in_the_batch_returns_twice() {
        let outcome = partial_batch_response(
            &ok(r#"{"batchItemFailures":[{"itemIdentifier":"a"}]}"#),
            &["a", "b", "a"],
            true,
        );
        assert_eq!(
            (&*outcome.to_delete, &*outcome.to_return),
            (&[1][..], &[0, 2][..])
        );
    }

    fn ok(body: &str) -> Result<InvokeResponse, InvokeError> {
        Ok(InvokeResponse::Ok(bytes::Bytes::copy_from_slice(
            body.as_bytes(),
        )))
    }
}
