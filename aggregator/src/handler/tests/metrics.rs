//! The metrics of an invocation.

use super::*;

/// Takes the metric lines written so far.
fn lines(aggregator: &Aggregator) -> Vec<Value> {
    let lines = aggregator.fakes.metric_log.take().into_iter();
    lines
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect()
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
    invoke(
        &aggregator,
        &[
            ("m1", "e1", ""),
            ("m2", "e2", ""),
            ("m3", "e3", ""),
            ("m4", "e1", ""),
            ("m5", "", ""),
        ],
    )
    .await;
    let expected = json!({
        "Received": 5, "Claimed": 3, "Duplicates": 1, "Quarantined": 1, "ClaimedBytes": 3 * body_bytes("e1"),
        "BatchesOpened": 2, "BatchesSealed": 1, "FlushedFull": 1,
    });
    assert_eq!(measured(&aggregator), expected);
    aggregator.fakes.clock.advance(Duration::from_secs(300));
    invoke(&aggregator, &[("m6", "e6", "")]).await;
    let expected = json!({
        "Received": 1, "Claimed": 1, "ClaimedBytes": body_bytes("e6"), "BatchesOpened": 1, "BatchesSealed": 1,
        "FlushedWindow": 1,
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
    let sums: Vec<Value> = lines(&aggregator);
    assert_eq!(sums[0]["FlushedBytes"], Value::Null);
    assert_eq!(sums[1]["FlushedBytes"], 1);
    assert_eq!(sums[1]["BatchesSealed"], 1);
}

#[tokio::test]
async fn messages_of_two_queues_are_counted_in_a_line_for_each() {
    let aggregator = aggregator_with(&[]);
    let record = |message: &str, queue: &str| json!({ "messageId": message, "eventSourceARN": queue, "body": json!({ "id": message }).to_string() });
    let records = [
        record("m1", "arn:q"),
        record("m2", "arn:r"),
        record("m3", "arn:r"),
    ];
    let event = serde_json::from_value(json!({ "Records": records })).unwrap();
    let invocation = Invocation {
        function: "aggregator".to_owned(),
        deadline: aggregator.fakes.clock.now() + Duration::from_secs(15),
    };
    aggregator.handler.handle(event, &invocation).await.unwrap();
    let lines = lines(&aggregator);
    let received: Vec<_> = lines
        .iter()
        .map(|line| (&line["source"], &line["Claimed"]))
        .collect();
    assert_eq!(
        received,
        [(&json!("arn:q"), &json!(1)), (&json!("arn:r"), &json!(2))]
    );
}
