//! Direct invocations with events made by hand, and their exact responses.

use std::ops::Range;

use bytes::Bytes;
use emulators::lambda::{Function, InvokeError, InvokeResponse};
use loadgen::Workload;
use local::stack::{BATCH_QUEUE, INPUT_QUEUE};
use serde_json::{Value, json};

use crate::rig::Rig;

/// Returns an event of the queue with the ARN `source`, with these message ids and bodies.
pub fn event(source: &str, messages: &[(&str, &str)]) -> Bytes {
    let record = |(id, body): &(&str, &str)| {
        json!({
            "messageId": id,
            "receiptHandle": "none",
            "body": body,
            "attributes": { "ApproximateReceiveCount": "1", "SentTimestamp": "1700000000000" },
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": source,
            "awsRegion": "us-east-1",
        })
    };
    let records = Vec::from_iter(messages.iter().map(record));
    json!({ "Records": records }).to_string().into()
}

/// Returns a body with this event id.
pub fn body(id: &str) -> String {
    json!({ "id": id, "value": format!("value of {id}") }).to_string()
}

/// Returns a ticket for this batch.
pub fn ticket(batch: &str) -> String {
    json!({ "batchId": batch }).to_string()
}

/// Returns a ticket with which an operator decides about a batch: `operator` or `quarantine`.
pub fn order(batch: &str, reason: &str) -> String {
    json!({ "batchId": batch, "reason": reason }).to_string()
}

/// Invokes a function; returns the message ids that it reports as failed, in its order.
///
/// # Panics
/// If the response does not have the documented form.
pub async fn failures(rig: &Rig, function: &Function, event: Bytes) -> Vec<String> {
    let answer = match function.invoke(event).await {
        Ok(InvokeResponse::Ok(answer)) => answer,
        other => panic!("no answer but {other:?}\n{}", rig.state().await),
    };
    let answer: Value = serde_json::from_slice(&answer).expect("the answer is JSON");
    let items = answer["batchItemFailures"].as_array().into_iter().flatten();
    let ids = items.filter_map(|item| item["itemIdentifier"].as_str());
    let ids = Vec::from_iter(ids.map(str::to_owned));
    let exact = ids.iter().map(|id| json!({ "itemIdentifier": id }));
    let exact = json!({ "batchItemFailures": Vec::from_iter(exact) });
    assert_eq!(answer, exact, "nothing else is answered");
    ids
}

/// Invokes the aggregator with these message ids and bodies; returns the ids of those that it reports as failed.
pub async fn take(rig: &Rig, messages: &[(&str, &str)]) -> Vec<String> {
    let event = event(&rig.stack.sqs.arn(INPUT_QUEUE), messages);
    failures(rig, &rig.stack.aggregator, event).await
}

/// Invokes the aggregator with these messages until it reports none as failed, as SQS would: on a busy machine, requests time out.
pub async fn take_all(rig: &Rig, messages: &[(&str, &str)]) {
    let is_taken = async || take(rig, messages).await.is_empty();
    rig.until("the aggregator takes the messages", is_taken)
        .await;
}

/// Invokes the aggregator with these messages of a workload, in one event.
pub async fn claim(rig: &Rig, workload: &Workload, messages: Range<u64>) {
    let bodies = messages.map(|index| (index.to_string(), workload.message(index).body));
    let bodies: Vec<(String, String)> = bodies.collect();
    let messages = bodies.iter().map(|(id, body)| (id.as_str(), body.as_str()));
    let failed = take(rig, &Vec::from_iter(messages)).await;
    assert_eq!(failed, [""; 0]);
}

/// Invokes the batch-processor with a ticket; returns whether it is acknowledged.
pub async fn process(rig: &Rig, ticket: &str) -> bool {
    let event = event(&rig.stack.sqs.arn(BATCH_QUEUE), &[("t1", ticket)]);
    let failed = failures(rig, &rig.stack.batch_processor, event).await;
    failed.is_empty()
}

/// Returns the error type and message of a function that could not be initialised.
pub async fn init_failure(function: &Function) -> (String, String) {
    match function.invoke(Bytes::from_static(b"{}")).await {
        Err(InvokeError::InitFailed {
            error_type,
            message,
        }) => (error_type, message),
        other => panic!("not an init failure: {other:?}"),
    }
}
