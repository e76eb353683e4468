//! What AWS was seen to do with event source mappings of SQS. LocalStack runs its tests against AWS too, and publishes what AWS
//! returned. Each test here states facts of such a test, and names it with the day on which AWS was seen to do so.
//! `docs/emulators.md` lists the facts that this host does not model.
//!
//! Source: the repository `localstack/localstack` at 8b9a79f0 (23 March 2026), folder
//! `tests/aws/services/lambda_/event_source_mapping`: `test_lambda_integration_sqs.py` and
//! `test_lambda_integration_sqs.snapshot.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use emulators::lambda::{
    EventSourceMapping, LogLine, MappingConfig, MappingError, MappingProblem, OutcomeReason,
};
use emulators::sqs::{MessageAttribute, QueueAttributes, Redrive};
use serde_json::{Value, json};

use crate::support::*;

const DEAD: &str = "dead";
const SECOND: Duration = Duration::from_secs(1);

/// Visibility timeout for messages that are to return.
const SHORT: Duration = Duration::from_secs(3);

/// Starts a host that prints its events. Messages return after `visibility_timeout`, and are dead letters after `receives_max`
/// receives. The function returns `response`, if there is one.
fn host(receives_max: u32, visibility_timeout: Duration, response: Option<&str>) -> Host {
    let attributes = QueueAttributes {
        visibility_timeout,
        redrive: Some(Redrive {
            dead_letter_queue: DEAD.into(),
            receives_max,
        }),
        ..QueueAttributes::default()
    };
    Host::with_queue(attributes, |config| {
        config.timeout = visibility_timeout;
        let variables = &mut config.variables;
        variables.insert("ECHO_EVENTS".into(), "on".into());
        variables.extend(response.map(|json| ("ECHO_RESPONSE".into(), json.into())));
    })
}

impl Host {
    /// Returns the records of each event so far.
    fn events(&self) -> Vec<Vec<Value>> {
        let records = |line: &LogLine| {
            let event: Value = serde_json::from_str(line.text.strip_prefix("event ")?).ok()?;
            event["Records"].as_array().cloned()
        };
        self.logged().iter().filter_map(records).collect()
    }

    /// Maps the queue to the function until no message is in the queue, and `dead` ones are dead letters; returns the records
    /// of each event.
    async fn mapped(&self, batch_size: usize, window: Duration, dead: usize) -> Vec<Vec<Value>> {
        let mapping = self.map(batch_size, window, 2);
        self.until_dead_letters(dead).await;
        mapping.stop().await;
        self.events()
    }

    fn dead_letters(&self) -> usize {
        let depth = self.sqs.depth(DEAD);
        depth.expect("the host has made the queue").visible
    }

    /// Waits until the queue has no message, and its dead-letter queue `dead` ones. A dead letter moves when the mapping would
    /// receive it once more.
    async fn until_dead_letters(&self, dead: usize) {
        let empty = || {
            let depth = self.sqs.depth(QUEUE).expect("the host has made the queue");
            depth.visible + depth.in_flight == 0 && self.dead_letters() == dead
        };
        self.until("the messages are dead letters", empty).await;
    }
}

fn bodies(records: &[Value]) -> BTreeSet<&str> {
    records.iter().filter_map(|r| r["body"].as_str()).collect()
}

fn receive_counts(records: &[Value]) -> BTreeSet<&str> {
    let counts = records.iter();
    counts
        .filter_map(|r| r["attributes"]["ApproximateReceiveCount"].as_str())
        .collect()
}

/// Checks the field names of a record, and the values that do not depend on the message.
fn check_shape(record: &Value, fields_of_some: &[&str]) {
    let names = |value: &Value| -> BTreeSet<String> {
        let fields = value.as_object().expect("a JSON object");
        fields.keys().cloned().collect()
    };
    let fields = [
        "attributes",
        "awsRegion",
        "body",
        "eventSource",
        "eventSourceARN",
        "md5OfBody",
        "messageAttributes",
        "messageId",
        "receiptHandle",
    ];
    let fields = fields.iter().chain(fields_of_some);
    let fields = fields.map(|name| (*name).to_owned());
    assert_eq!(names(record), fields.collect());
    let attributes = [
        "ApproximateFirstReceiveTimestamp",
        "ApproximateReceiveCount",
        "SenderId",
        "SentTimestamp",
    ];
    let attributes = attributes.map(str::to_owned);
    assert_eq!(names(&record["attributes"]), attributes.into());
    let mut texts = record["attributes"].as_object().into_iter().flatten();
    let texts = texts.all(|(_, value)| value.is_string());
    assert!(texts, "numbers are texts: {record}");
    assert_eq!(record["eventSource"], "aws:sqs");
    assert_eq!(record["awsRegion"], "us-east-1");
    let arn = "arn:aws:sqs:us-east-1:000000000000:input";
    assert_eq!(record["eventSourceARN"], arn);
}

/// Source: `test_failing_lambda_retries_after_visibility_timeout` (25 November 2025).
#[tokio::test]
async fn after_an_error_a_message_returns_with_another_handle_and_is_deleted_once_it_succeeds() {
    let host = host(1_000, SHORT, None);
    host.send(["error-receives 1".to_owned()]);
    let events = host.mapped(1, Duration::ZERO, 0).await;
    let [first, second] = &*events.concat() else {
        panic!("{events:?}")
    };
    for record in [first, second] {
        check_shape(record, &[]);
        assert_eq!(record["messageAttributes"], json!({}));
    }
    for same in ["messageId", "body", "md5OfBody"] {
        assert_eq!(first[same], second[same], "{same}");
    }
    assert_ne!(first["receiptHandle"], second["receiptHandle"]);
    let count = |record: &Value| record["attributes"]["ApproximateReceiveCount"].clone();
    assert_eq!((count(first), count(second)), (json!("1"), json!("2")));
    host.end().await;
}

/// Source: `test_redrive_policy_with_failing_lambda` (25 November 2025).
#[tokio::test]
async fn a_message_that_fails_as_often_as_it_may_be_received_is_a_dead_letter_and_no_sooner() {
    let host = host(2, SHORT, None);
    host.send(["error-receives 2".to_owned()]);
    let mapping = host.map(1, Duration::ZERO, 2);
    let invoked = || mapping.stats().invocations == 1;
    host.until("the first invocation ends", invoked).await;
    assert_eq!(host.dead_letters(), 0);
    host.until_dead_letters(1).await;
    mapping.stop().await;
    let records = host.events().concat();
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!(receive_counts(&records), ["1", "2"].into());
    let dead = host.sqs.receive(DEAD, 1, Duration::ZERO, None).await;
    let dead = dead.unwrap().remove(0);
    assert_eq!(records[0]["messageId"], json!(dead.message_id));
    assert_eq!(&*dead.body, "error-receives 2");
    host.end().await;
}

/// Source: `test_report_batch_item_failures` (3 March 2025). AWS was asked with a FIFO queue, which makes the order certain.
#[tokio::test]
async fn only_reported_messages_return_until_they_succeed_or_are_dead_letters() {
    let host = host(2, SHORT, None);
    let sent = [0, 1, 2].map(|n| format!("fail-receives {n}"));
    host.send(sent.clone());
    let events = host.mapped(10, Duration::ZERO, 1).await;
    let [first, second] = &*events else {
        panic!("a third invocation: {events:?}")
    };
    assert_eq!(bodies(first), sent.iter().map(String::as_str).collect());
    assert_eq!(receive_counts(first), ["1"].into());
    assert_eq!(bodies(second), [&*sent[1], &*sent[2]].into());
    assert_eq!(receive_counts(second), ["2"].into());
    let dead = host.sqs.receive(DEAD, 1, Duration::ZERO, None).await;
    assert_eq!(&*dead.unwrap()[0].body, sent[2]);
    host.end().await;
}

/// Source: `test_report_batch_item_failures_on_lambda_error` (25 November 2025).
#[tokio::test]
async fn an_error_makes_dead_letters_of_the_good_messages_of_the_batch_too() {
    let host = host(2, SHORT, None);
    host.send(["error-receives 2".to_owned(), "good".to_owned()]);
    let mapping = host.map(10, Duration::ZERO, 2);
    host.until_dead_letters(2).await;
    let stats = mapping.stats();
    let errors = BTreeMap::from([(OutcomeReason::FunctionError, 4)]);
    assert_eq!((stats.deleted, stats.returned_by), (0, errors));
    mapping.stop().await;
    host.end().await;
}

/// Source: `test_report_batch_item_failures_invalid_result_json_batch_fails` (25 November 2025).
#[tokio::test]
async fn a_reported_item_without_identifier_returns_the_batch() {
    let response = r#"{"batchItemFailures":[{"foo":"notvalid"}]}"#;
    let host = host(2, SHORT, Some(response));
    host.send(["good".to_owned()]);
    let records = host.mapped(10, Duration::ZERO, 1).await.concat();
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!(receive_counts(&records), ["1", "2"].into());
    host.end().await;
}

/// Source: `test_report_batch_item_failures_empty_json_batch_succeeds` (25 November 2025).
#[tokio::test]
async fn an_empty_object_deletes_the_batch() {
    let host = host(1, SHORT, Some("{}"));
    host.send(["good".to_owned()]);
    let mapping = host.map(10, Duration::ZERO, 2);
    host.until_dead_letters(0).await;
    mapping.stop().await;
    assert_eq!(host.events().len(), 1);
    assert_eq!(mapping.stats().deleted, 1);
    host.end().await;
}

/// Source: `test_message_body_and_attributes_passed_correctly` (25 November 2025), digest included.
#[tokio::test]
async fn message_attributes_are_in_the_record_with_their_digest() {
    let host = host(2, SECOND * 30, None);
    let attributes = [
        ("Title", MessageAttribute::string("The Whistler")),
        ("Author", MessageAttribute::string("John Grisham")),
        ("WeeksOn", MessageAttribute::number("6")),
    ];
    let attributes = attributes.map(|(name, attribute)| (name.to_owned(), attribute));
    let attributes = BTreeMap::from(attributes);
    let sent = host.sqs.send(QUEUE, "good".to_owned(), None, attributes);
    sent.unwrap();
    let events = host.mapped(1, Duration::ZERO, 0).await;
    let record = events.concat().remove(0);
    check_shape(&record, &["md5OfMessageAttributes"]);
    let attribute = |data_type: &str, value: &str| {
        json!({
            "stringValue": value,
            "stringListValues": [],
            "binaryListValues": [],
            "dataType": data_type,
        })
    };
    let expected = json!({
        "Title": attribute("String", "The Whistler"),
        "Author": attribute("String", "John Grisham"),
        "WeeksOn": attribute("Number", "6"),
    });
    assert_eq!(record["messageAttributes"], expected);
    let digest = "d25a6aea97eb8f585bfa92d314504a92";
    assert_eq!(record["md5OfMessageAttributes"], digest);
    host.end().await;
}

/// Source: `test_sqs_event_source_mapping`, `test_sqs_event_source_mapping_batch_size` with 15, 100, 1,000 and 10,000
/// (25 November 2025). Every record of a mapping with a window has the digest as null, and no record of another mapping has it.
#[tokio::test]
async fn with_a_window_a_record_without_attributes_has_the_digest_as_null() {
    for batch_size in [10, 15, 100, 1_000, 10_000] {
        let host = host(2, SECOND * 30, None);
        let sent: Vec<String> = (0..15).map(|n| format!("{n}-message")).collect();
        host.send(sent.clone());
        let records = host.mapped(batch_size, SECOND, 0).await.concat();
        assert_eq!(bodies(&records), sent.iter().map(String::as_str).collect());
        assert_eq!(records.len(), 15);
        for record in &records {
            check_shape(record, &["md5OfMessageAttributes"]);
            assert_eq!(record["md5OfMessageAttributes"], Value::Null);
            assert_eq!(record["messageAttributes"], json!({}));
        }
        host.end().await;
    }
}

/// Source: `test_sqs_event_source_mapping_batching_reserved_concurrency` (25 November 2025).
#[tokio::test]
async fn thirty_messages_in_batches_of_twenty_are_two_batches() {
    let host = host(2, SECOND * 30, None);
    host.send((0..30).map(|n| format!("{n}-message")));
    let events = host.mapped(20, SECOND, 0).await;
    assert_eq!((events.len(), events.concat().len()), (2, 30));
    host.end().await;
}

/// Source: `test_event_source_mapping_default_batch_size`, `test_esm_with_not_existing_sqs_queue` (25 November 2025): "Maximum
/// batch window in seconds must be greater than 0 if maximum batch size is greater than 10".
#[tokio::test]
async fn a_mapping_is_refused_for_a_large_batch_without_a_window_and_for_an_unknown_queue() {
    let host = Host::start();
    let problems = |config: MappingConfig| {
        let started = EventSourceMapping::start(host.sqs.clone(), host.function.clone(), config);
        started.err().map(|MappingError { problems, .. }| problems)
    };
    let needs_window = MappingProblem::LargeBatchNeedsWindow {
        batch_size: 11,
        window: Duration::ZERO,
    };
    let without_window = problems(mapping_config(11, Duration::ZERO, 2));
    assert_eq!(without_window, Some(vec![needs_window]));
    assert_eq!(problems(mapping_config(10, Duration::ZERO, 2)), None);
    assert_eq!(problems(mapping_config(11, SECOND, 2)), None);
    let unknown = MappingConfig {
        queue: "not-existing-queue".into(),
        ..mapping_config(1, Duration::ZERO, 2)
    };
    let problems = problems(unknown).unwrap();
    let unavailable = matches!(problems[..], [MappingProblem::QueueUnavailable { .. }]);
    assert!(unavailable, "{problems:?}");
    host.end().await;
}
