//! Direct invocations with events made by hand, and their exact responses.

use std::ops::Range;

use bytes::Bytes;
use emulators::lambda::{Function, InvokeError, InvokeResponse};
use loadgen::Workload;
use local::stack::INPUT_QUEUE;
use serde_json::{Value, json};

use crate::rig::Rig;

/// Returns an event of the queue with the ARN `source`, with these message ids and bodies.
pub fn event(source: &str, messages: &[(&str, &str)]) -> Bytes {
    let records: Vec<Value> = messages
        .iter()
        .map(|(id, body)| {
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
        })
        .collect();
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
    let items = answer["batchItemFailures"]
        .as_array()
        .unwrap_or_else(|| panic!("no list in {answer}"));
    let ids: Vec<String> = items
        .iter()
        .map(|item| {
            item["itemIdentifier"]
                .as_str()
                .unwrap_or_else(|| panic!("no text in {answer}"))
                .to_owned()
        })
        .collect();
    let exact: Vec<Value> = ids
        .iter()
        .map(|id| json!({ "itemIdentifier": id }))
        .collect();
    assert_eq!(
        answer,
        json!({ "batchItemFailures": exact }),
        "nothing else is answered"
    );
    ids
}

/// Invokes the aggregator with these messages of a workload, in one event.
pub async fn claim(rig: &Rig, workload: &Workload, messages: Range<u64>) {
    let bodies = messages.map(|index| (index.to_string(), workload.message(index).body));
    let bodies: Vec<(String, String)> = bodies.collect();
    let messages = bodies.iter().map(|(id, body)| (id.as_str(), body.as_str()));
    let event = event(&rig.stack.sqs.arn(INPUT_QUEUE), &Vec::from_iter(messages));
    let failed = failures(rig, &rig.stack.aggregator, event).await;
    assert_eq!(failed, [""; 0]);
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
