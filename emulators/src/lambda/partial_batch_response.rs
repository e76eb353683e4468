//! Which records of a batch are deleted and which come back: Lambda's rules for an SQS event source mapping.
//!
//! A pure function of the invocation's outcome. What comes back does so by the queue's visibility timeout, which the
//! mapping never shortens.
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html>

use std::collections::BTreeMap;

use serde_json::Value;

use super::invocation::{InvokeError, InvokeResponse};

/// What happens to the records of one batch, by their position in it. Every position is in exactly one of the lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchOutcome {
    /// Records to delete from the queue, ascending.
    pub delete: Vec<usize>,
    /// Records that stay and become visible again, ascending.
    pub keep: Vec<usize>,
    /// The rule that decided.
    pub why: Why,
}

/// The rule that decided a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The function answered and reported no failure: all deleted.
    Succeeded,
    /// The function reported some of its records: those stay.
    ItemsReported,
    /// The response is not JSON: all stay.
    ResponseNotJson,
    /// The response, or the list in it, has not the documented shape: all stay.
    ResponseMalformed,
    /// A reported item has no identifier: missing, under another key, null, empty or not a string: all stay.
    IdentifierMissing,
    /// A reported identifier is not in the batch: all stay.
    IdentifierUnknown,
    /// The handler returned an error or panicked: all stay.
    FunctionError,
    /// The environment could not be initialised: all stay.
    InitFailed,
    /// The invocation reached its deadline: all stay.
    TimedOut,
    /// The process exited during the invocation: all stay.
    Crashed,
    /// The payload was refused for its size: all stay.
    PayloadTooLarge,
    /// The function was being shut down: all stay.
    ShutDown,
}

impl Why {
    /// Stable name for reports, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Why::Succeeded => "succeeded",
            Why::ItemsReported => "items_reported",
            Why::ResponseNotJson => "response_not_json",
            Why::ResponseMalformed => "response_malformed",
            Why::IdentifierMissing => "identifier_missing",
            Why::IdentifierUnknown => "identifier_unknown",
            Why::FunctionError => "function_error",
            Why::InitFailed => "init_failed",
            Why::TimedOut => "timed_out",
            Why::Crashed => "crashed",
            Why::PayloadTooLarge => "payload_too_large",
            Why::ShutDown => "shut_down",
        }
    }
}

/// Decides a batch from the outcome of its invocation.
///
/// `batch_ids` are the message ids in the order of the event; a message delivered twice in one batch has two
/// positions, and reporting its id keeps both.
///
/// AWS does not say what a response of valid JSON that is neither null nor an object means (`"ok"`, `[]`). Here the
/// batch comes back: a handler that answers so is shown its mistake instead of losing what it meant to report.
pub fn partial_batch_response<Id: AsRef<str>>(
    response: &Result<InvokeResponse, InvokeError>,
    batch_ids: &[Id],
    report_batch_item_failures: bool,
) -> BatchOutcome {
    let body = match response {
        Ok(InvokeResponse::Ok(body)) => body,
        Ok(InvokeResponse::FunctionError { .. }) => return all_stay(batch_ids, Why::FunctionError),
        Err(InvokeError::InitFailed { .. }) => return all_stay(batch_ids, Why::InitFailed),
        Err(InvokeError::Timeout { .. }) => return all_stay(batch_ids, Why::TimedOut),
        Err(InvokeError::Crashed { .. }) => return all_stay(batch_ids, Why::Crashed),
        Err(InvokeError::PayloadTooLarge { .. }) => {
            return all_stay(batch_ids, Why::PayloadTooLarge);
        }
        Err(InvokeError::ShutDown) => return all_stay(batch_ids, Why::ShutDown),
    };
    // Without the setting the mapping does not look at the response at all.
    if !report_batch_item_failures || body.is_empty() {
        return all_deleted(batch_ids);
    }
    let failures = match serde_json::from_slice(body) {
        Err(_) => return all_stay(batch_ids, Why::ResponseNotJson),
        Ok(Value::Null) => return all_deleted(batch_ids),
        Ok(Value::Object(mut fields)) => match fields.remove("batchItemFailures") {
            None | Some(Value::Null) => return all_deleted(batch_ids),
            Some(Value::Array(failures)) => failures,
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                return all_stay(batch_ids, Why::ResponseMalformed);
            }
        },
        Ok(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            return all_stay(batch_ids, Why::ResponseMalformed);
        }
    };
    by_reported(&failures, batch_ids)
}

fn by_reported<Id: AsRef<str>>(failures: &[Value], batch_ids: &[Id]) -> BatchOutcome {
    if failures.is_empty() {
        return all_deleted(batch_ids);
    }
    // Each reported id, and whether the batch has it.
    let mut reported: BTreeMap<&str, bool> = BTreeMap::new();
    for failure in failures {
        match failure.get("itemIdentifier").and_then(Value::as_str) {
            None | Some("") => return all_stay(batch_ids, Why::IdentifierMissing),
            Some(id) => reported.insert(id, false),
        };
    }
    let mut outcome = BatchOutcome {
        delete: Vec::new(),
        keep: Vec::new(),
        why: Why::ItemsReported,
    };
    for (position, id) in batch_ids.iter().enumerate() {
        match reported.get_mut(id.as_ref()) {
            Some(in_batch) => {
                *in_batch = true;
                outcome.keep.push(position);
            }
            None => outcome.delete.push(position),
        }
    }
    if reported.values().any(|in_batch| !in_batch) {
        return all_stay(batch_ids, Why::IdentifierUnknown);
    }
    outcome
}

fn all_deleted<Id>(batch_ids: &[Id]) -> BatchOutcome {
    BatchOutcome {
        delete: (0..batch_ids.len()).collect(),
        keep: Vec::new(),
        why: Why::Succeeded,
    }
}

fn all_stay<Id>(batch_ids: &[Id], why: Why) -> BatchOutcome {
    BatchOutcome {
        delete: Vec::new(),
        keep: (0..batch_ids.len()).collect(),
        why,
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
                    delete: vec![0, 1, 2],
                    keep: vec![],
                    why: Why::Succeeded
                },
                "{body:?}"
            );
        }
    }

    #[test]
    fn reported_records_stay_and_the_others_are_deleted() {
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
        for (body, delete, keep) in cases {
            let outcome = partial_batch_response(&ok(body), &BATCH, true);
            assert_eq!((&*outcome.delete, &*outcome.keep), (delete, keep), "{body}");
            assert_eq!(outcome.why, Why::ItemsReported, "{body}");
        }
    }

    #[test]
    fn a_response_that_cannot_be_trusted_returns_the_whole_batch() {
        let cases = [
            (" ", Why::ResponseNotJson),
            ("not json", Why::ResponseNotJson),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"a"}"#,
                Why::ResponseNotJson,
            ),
            (r#"{"batchItemFailures":[]} trailing"#, Why::ResponseNotJson),
            ("\u{feff}{}", Why::ResponseNotJson),
            (r#""ok""#, Why::ResponseMalformed),
            ("[]", Why::ResponseMalformed),
            ("true", Why::ResponseMalformed),
            ("7", Why::ResponseMalformed),
            (r#"{"batchItemFailures":"a"}"#, Why::ResponseMalformed),
            (
                r#"{"batchItemFailures":{"itemIdentifier":"a"}}"#,
                Why::ResponseMalformed,
            ),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
                Why::IdentifierMissing,
            ),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#,
                Why::IdentifierMissing,
            ),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":7}]}"#,
                Why::IdentifierMissing,
            ),
            (r#"{"batchItemFailures":[{}]}"#, Why::IdentifierMissing),
            (
                r#"{"batchItemFailures":[{"ItemIdentifier":"a"}]}"#,
                Why::IdentifierMissing,
            ),
            (r#"{"batchItemFailures":["a"]}"#, Why::IdentifierMissing),
            (r#"{"batchItemFailures":[null]}"#, Why::IdentifierMissing),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":""}]}"#,
                Why::IdentifierMissing,
            ),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"d"}]}"#,
                Why::IdentifierUnknown,
            ),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"A"}]}"#,
                Why::IdentifierUnknown,
            ),
        ];
        for (body, why) in cases {
            let outcome = partial_batch_response(&ok(body), &BATCH, true);
            assert_eq!(
                outcome,
                BatchOutcome {
                    delete: vec![],
                    keep: vec![0, 1, 2],
                    why
                },
                "{body:?}"
            );
        }
    }

    #[test]
    fn an_invocation_that_failed_returns_the_whole_batch_with_and_without_reporting() {
        let cases = [
            (
                Ok(InvokeResponse::FunctionError {
                    error_type: "E".into(),
                    message: "m".into(),
                }),
                Why::FunctionError,
            ),
            (
                Err(InvokeError::InitFailed {
                    error_type: "E".into(),
                    message: "m".into(),
                }),
                Why::InitFailed,
            ),
            (
                Err(InvokeError::Timeout {
                    after: Duration::from_secs(3),
                }),
                Why::TimedOut,
            ),
            (
                Err(InvokeError::Crashed {
                    environment: 1,
                    exit: None,
                }),
                Why::Crashed,
            ),
            (
                Err(InvokeError::PayloadTooLarge {
                    size_bytes: 2,
                    limit_bytes: 1,
                }),
                Why::PayloadTooLarge,
            ),
            (Err(InvokeError::ShutDown), Why::ShutDown),
        ];
        for (response, why) in cases {
            for report in [true, false] {
                let outcome = partial_batch_response(&response, &BATCH, report);
                assert_eq!(
                    outcome,
                    BatchOutcome {
                        delete: vec![],
                        keep: vec![0, 1, 2],
                        why
                    }
                );
            }
        }
    }

    #[test]
    fn without_reporting_the_response_is_not_looked_at() {
        for body in [
            "",
            "not json",
            r#"{"batchItemFailures":[{"itemIdentifier":"a"}]}"#,
            r#""ok""#,
        ] {
            assert_eq!(
                partial_batch_response(&ok(body), &BATCH, false).delete,
                [0, 1, 2],
                "{body:?}"
            );
        }
    }

    #[test]
    fn a_message_that_is_twice_in_the_batch_stays_twice() {
        let outcome = partial_batch_response(
            &ok(r#"{"batchItemFailures":[{"itemIdentifier":"a"}]}"#),
            &["a", "b", "a"],
            true,
        );
        assert_eq!((&*outcome.delete, &*outcome.keep), (&[1][..], &[0, 2][..]));
    }

    fn ok(body: &str) -> Result<InvokeResponse, InvokeError> {
        Ok(InvokeResponse::Ok(bytes::Bytes::copy_from_slice(
            body.as_bytes(),
        )))
    }
}
