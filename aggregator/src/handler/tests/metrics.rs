//! The metrics of an invocation.

use super::*;

/// Takes the metric lines written so far.
fn lines(aggregator: &Aggregator) -> Vec<Value> {
    let lines = aggregator.fakes.metric_log.take().into_iter();
    let lines = lines.map(|line| serde_json::from_str(&line));
    lines.collect::<Result<_, _>>().unwrap()
}

/// Returns the metrics of the only line, without what every line has.
fn measured(aggregator: &Aggregator) -> Value {
    let mut lines = lines(aggregator);
    let mut line = lines.pop().unwrap();
    assert!(lines.is_empty(), "{lines:?}");
    let fields = line.as_object_mut().unwrap();
    for name in ["_aws", "function", "source"] {
        fields.remove(name).unwrap();
    }
    line
}

fn body_bytes(event: &str) -> usize {
    json!({ "id": event, "content": "" }).to_string().len()
}

#[tokio::test]
async fn messages_are_counted_by_outcome_and_batches_by_why_they_end() {
    let aggregator = aggregator_with(&[("MAX_BATCH_SIZE", "2")]);
    let messages = [
        ("m1", "e1", ""),
        ("m2", "e2", ""),
        ("m3", "e3", ""),
        ("m4", "e1", ""),
        ("m5", "", ""),
    ];
    invoke(&aggregator, &messages).await;
    let expected = json!({
        "Received": 5, "Claimed": 3, "Duplicates": 1, "Quarantined": 1, "ClaimedBytes": 3 * body_bytes("e1"),
        "Reserved": 3, "BatchesOpened": 2, "BatchesSealed": 1, "FlushedFull": 1,
    });
    assert_eq!(measured(&aggregator), expected);
    aggregator.fakes.clock.advance(Duration::from_secs(300));
    invoke(&aggregator, &[("m6", "e6", "")]).await;
    let expected = json!({
        "Received": 1, "Claimed": 1, "ClaimedBytes": body_bytes("e6"), "Reserved": 1, "BatchesOpened": 1,
    });
    assert_eq!(measured(&aggregator), expected);
}

#[tokio::test]
async fn a_batch_that_has_no_room_for_a_body_is_flushed_for_its_bytes() {
    let aggregator = aggregator_with(&[("MAX_BATCH_BYTES", "409600")]);
    let large = "x".repeat(300_000);
    for (message, event) in [("m1", "e1"), ("m2", "e2")] {
        invoke(&aggregator, &[(message, event, &large)]).await;
    }
    let sums = lines(&aggregator);
    assert_eq!(sums[0]["FlushedBytes"], Value::Null);
    assert_eq!(sums[1]["FlushedBytes"], 1);
    assert_eq!(sums[1]["BatchesSealed"], 1);
}

#[tokio::test]
async fn messages_of_two_queues_are_counted_in_a_line_for_each() {
    let aggregator = aggregator_with(&[]);
    let record = |message: &str, queue: &str| json!({ "messageId": message, "eventSourceARN": queue, "body": json!({ "id": message }).to_string() });
    let queues = [("m1", "arn:q"), ("m2", "arn:r"), ("m3", "arn:r")];
    let records = queues.map(|(message, queue)| record(message, queue));
    let deadline = aggregator.fakes.clock.now() + Duration::from_secs(15);
    let failed = invoke_with(&aggregator, records.into(), deadline).await;
    assert!(failed.unwrap().is_empty());
    let lines = lines(&aggregator).into_iter();
    let claimed = lines.map(|line| json!([line["source"], line["Claimed"]]));
    let expected = [json!(["arn:q", 1]), json!(["arn:r", 2])];
    assert_eq!(Vec::from_iter(claimed), expected);
}
